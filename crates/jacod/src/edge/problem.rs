//! What of its plan the edge of this node does not carry out, as the node reports it.

use std::collections::BTreeMap;

use jaco_net::RouterStatus;

/// How many problems a node reports.
const PROBLEMS_MAX: usize = 3;

/// Puts the problems of a process into one sentence, by what each is about. That it lacks a listener is explained by the router,
/// which opens them; one whose address is another node's is no problem.
pub(super) fn problem(
    problems: &BTreeMap<String, String>,
    router: Option<&RouterStatus>,
) -> Option<String> {
    let listener = |what: &str| what.strip_prefix("listener ").map(str::to_owned);
    let is_here = |what: &str| {
        let known = router.zip(listener(what));
        !known.is_some_and(|(router, key)| router.listeners_elsewhere().contains(&key))
    };
    let said = problems.iter().filter(|(what, _)| is_here(what)).map(|(what, why)| {
        let known = router.zip(listener(what));
        let reason = known.and_then(|(router, key)| router.listener_failures().get(&key).cloned());
        format!("{what}: {}", reason.as_ref().unwrap_or(why))
    });
    let mut said: Vec<String> = said.collect();
    if said.len() > PROBLEMS_MAX {
        let others = said.len() - PROBLEMS_MAX;
        said.truncate(PROBLEMS_MAX);
        said.push(format!("and {others} more"));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(what: &[&str]) -> BTreeMap<String, String> {
        what.iter().map(|what| ((*what).to_owned(), "no socket yet".to_owned())).collect()
    }

    /// R-EDGE-2: a port that another program has is reported with what to do, and a port at an address of another node not at all.
    #[test]
    fn listeners_are_explained_by_the_router() {
        let key = vec!["7"; 32].join(",");
        let text = format!(
            r#"{{"key":[{key}],"next_key":null,"port":51820,"userspace":true,"applied":null,
                "forgotten":null,"refused":null,"failed":{{}},"error":null,
                "listeners_failed":{{"tcp/80":"another program has it"}},
                "listeners_elsewhere":["tcp/10.0.0.9:8080"]}}"#
        );
        let router: RouterStatus = serde_json::from_str(&text).unwrap();
        let said = |what: &[&str]| problem(&problems(what), Some(&router));
        assert_eq!(said(&["listener tcp/80"]).unwrap(), "listener tcp/80: another program has it");
        assert_eq!(said(&["listener tcp/10.0.0.9:8080"]), None);
        assert_eq!(said(&["listener tcp/443"]).unwrap(), "listener tcp/443: no socket yet");
        assert_eq!(
            problem(&problems(&["listener tcp/80"]), None).unwrap(),
            "listener tcp/80: no socket yet"
        );
        assert_eq!(said(&[]), None);
        let many = said(&["a", "b", "c", "d", "e", "listener tcp/10.0.0.9:8080"]).unwrap();
        assert!(many.ends_with("c: no socket yet; and 2 more"), "{many}");
    }
}
