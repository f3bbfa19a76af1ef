//! Where the replicas of a service are, and what would change that.

use jaco_proto::v1::ExplainResponse;

use crate::quantity::count;
use crate::reason;

/// What is there, what is pending and why, how many nodes could take one more, and what would make one able to.
#[must_use]
pub fn sentences(all: &ExplainResponse) -> Vec<String> {
    let mut sentences = head(all);
    sentences.extend(all.waits.iter().map(|wait| reason::of_wait(wait, "cannot be placed")));
    let eligible = all.nodes.iter().filter(|node| node.failed.is_empty()).count();
    sentences.push(format!(
        "one more replica: {eligible} of {} eligible",
        count(all.nodes.len(), "node")
    ));
    if eligible > 0 && !all.waits.is_empty() {
        let note = "what is pending has conditions of its own, such as its data; the table is about a new replica";
        sentences.push(note.to_owned());
    }
    if !all.smallest_change.is_empty() {
        sentences.push(format!("smallest change: {}", all.smallest_change.join("; and ")));
    }
    sentences
}

fn head(all: &ExplainResponse) -> Vec<String> {
    let ExplainResponse { deployment, service, placement, desired, present, .. } = all;
    let counts = match placement.as_str() {
        "global" => format!("{present} present, one per node"),
        _ => format!("{present} of {desired} present"),
    };
    let mut head = vec![format!("{deployment}/{service}: placement {placement}, {counts}")];
    if !all.replica.is_empty() {
        head.push(format!("{} is on {}", all.replica, all.replica_node));
    }
    head
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1::{FailedRule, NodeAnswer, PlannedWait};

    use super::*;

    /// R-CLI-10
    #[test]
    fn an_explanation_says_what_is_there_and_what_is_missing() {
        let node = |rules: Vec<FailedRule>| NodeAnswer { failed: rules, ..NodeAnswer::default() };
        let wait = PlannedWait {
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            count: 1,
            reason: "no_eligible_node".to_owned(),
            ..PlannedWait::default()
        };
        let all = ExplainResponse {
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            placement: "spread".to_owned(),
            desired: 3,
            present: 2,
            nodes: vec![node(vec![]), node(vec![FailedRule::default()])],
            waits: vec![wait],
            smallest_change: vec!["uncordon n2".to_owned()],
            ..ExplainResponse::default()
        };
        let said = sentences(&all);
        assert_eq!(said[0], "shop/web: placement spread, 2 of 3 present");
        assert_eq!(said[1], "1 replica of shop/web cannot be placed: no node is eligible");
        assert_eq!(said[2], "one more replica: 1 of 2 nodes eligible");
        assert!(said[3].starts_with("what is pending has conditions of its own"));
        assert_eq!(said[4], "smallest change: uncordon n2");
        let global = ExplainResponse { placement: "global".to_owned(), present: 1, ..all };
        assert_eq!(sentences(&global)[0], "shop/web: placement global, 1 present, one per node");
    }
}
