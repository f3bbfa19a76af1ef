//! What is asked of the nodes of every service that does not ask it itself.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use jaco_compose::nearest;
use jaco_proto::v1;
use jaco_state::{ClusterState, Command};
use jaco_types::demand::{self, Demand, InvalidDemand};
use jaco_types::{Author, Rejection};

use crate::member::{Member, Write, name_if_unnamed};
use crate::status::invalid;

#[async_trait]
impl Write for v1::SetConstraintsRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/SetConstraints";
    type Answer = v1::SetConstraintsResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetConstraintsResponse, Rejection> {
        let Sorted { pairs, warnings } = sort(self.pairs)?;
        if !pairs.is_empty() {
            let command = Command::ConstraintsSet { pairs };
            member.commit(by, &self.request_id, command).await?;
        }
        let pairs = member.store.read(of_cluster);
        Ok(v1::SetConstraintsResponse { pairs, warnings })
    }
}

/// The constraints that hold for everybody.
pub(super) fn of_cluster(state: &ClusterState) -> HashMap<String, String> {
    state.constraints.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
struct Sorted {
    /// What is understood.
    pairs: BTreeMap<String, String>,
    /// What is left out: it belongs to a provider of machines (R-CONS-5).
    warnings: Vec<String>,
}

/// Tells what is understood from what is ignored.
///
/// # Errors
/// Every pair that cannot be meant: a value that its key does not take, and a key that is nearly one
/// that is known.
fn sort(given: HashMap<String, String>) -> Result<Sorted, Rejection> {
    let given: BTreeMap<_, _> = given.into_iter().collect();
    if given.is_empty() {
        return Err(invalid("no constraint is given"));
    }
    let (mut pairs, mut warnings, mut problems) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (key, value) in given {
        let near = || nearest(&key, demand::keys());
        match (Demand::parse(&key, &value), near()) {
            (Ok(_), _) => {
                // One key has two spellings; both at once would leave one of them to chance.
                let canonical = demand::canonical_key(&key).to_owned();
                if pairs.insert(canonical.clone(), value).is_some() {
                    problems.push(format!("{canonical} is given twice, as {key} as well"));
                }
            }
            (Err(InvalidDemand::UnknownKey), None) => {
                let unknown = InvalidDemand::UnknownKey;
                warnings.push(format!("constraint {key}={value} is ignored: {unknown}"));
            }
            (Err(InvalidDemand::UnknownKey), Some(near)) => {
                problems.push(format!("constraint {key}={value}: did you mean {near}?"));
            }
            (Err(misread @ InvalidDemand::Misread { .. }), _) => {
                problems.push(format!("constraint {key}={value}: {misread}"));
            }
        }
    }
    if problems.is_empty() {
        Ok(Sorted { pairs, warnings })
    } else {
        Err(invalid(problems.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(pairs: &[(&str, &str)]) -> Result<Sorted, String> {
        let pairs = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        sort(pairs.collect()).map_err(|rejection| rejection.message)
    }

    /// R-CONS-5: a key of a provider of machines is ignored with a warning; what cannot be meant is
    /// refused, all of it at once.
    #[test]
    fn foreign_keys_are_told_and_mistakes_refused() {
        let done = sorted(&[("instance-type", "m5"), ("mem", "3G"), ("zone", "")]).unwrap();
        let pairs = [("ram", "3G"), ("zone", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(done.pairs, BTreeMap::from(pairs));
        assert_eq!(done.warnings.len(), 1);
        assert!(done.warnings[0].starts_with("constraint instance-type=m5 is ignored: JACO knows"));
        let refused = sorted(&[("cpu", "many"), ("zome", "a"), ("ram", "1"), ("mem", "2")]);
        assert_eq!(
            refused.unwrap_err(),
            "constraint cpu=many: write a number of cores, as 0.5 or 2; ram is given twice, as ram \
             as well; constraint zome=a: did you mean zone?"
        );
        assert_eq!(sorted(&[]).unwrap_err(), "no constraint is given");
    }
}
