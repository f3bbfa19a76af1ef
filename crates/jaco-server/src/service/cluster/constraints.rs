//! Default constraints, for all services that do not set the same key.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use jaco_compose::nearest;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::ConstraintsSet;
use jaco_types::demand::{self, Demand, InvalidDemand};
use jaco_types::{Author, Rejection};

use crate::forward::Write;
use crate::member::Member;
use crate::status::invalid;

#[async_trait]
impl Write for v1::SetConstraintsRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetConstraintsResponse, Rejection> {
        let Sorted { pairs, warnings } = sort(self.pairs)?;
        if !pairs.is_empty() {
            let command = ConstraintsSet::new(pairs).into();
            member.commit(by, &self.request_id, command).await?;
        }
        let pairs = member.store.read(of_cluster);
        Ok(v1::SetConstraintsResponse { pairs, warnings })
    }
}

/// The default constraints.
pub(super) fn of_cluster(state: &ClusterState) -> HashMap<String, String> {
    state.constraints.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The pairs of a request.
#[derive(Debug, PartialEq, Eq)]
struct Sorted {
    /// Pairs with a known key and a valid value.
    pairs: BTreeMap<String, String>,
    /// Ignored pairs: their keys belong to other providers (R-CONS-5).
    warnings: Vec<String>,
}

/// Separates valid pairs from ignored ones.
///
/// # Errors
/// `invalid_request` with every invalid value and every key that is a likely misspelling.
fn sort(given: HashMap<String, String>) -> Result<Sorted, Rejection> {
    let given: BTreeMap<_, _> = given.into_iter().collect();
    if given.is_empty() {
        return Err(invalid("no constraint is given: write KEY=VALUE"));
    }
    let (mut pairs, mut warnings, mut problems) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (key, value) in given {
        let near = || nearest(&key, demand::keys());
        match (Demand::parse(&key, &value), near()) {
            (Ok(_), _) => {
                // A key has two spellings; which of two values wins would be arbitrary.
                let canonical = demand::canonical_key(&key).to_owned();
                if pairs.insert(canonical.clone(), value).is_some() {
                    problems.push(format!("constraint {canonical} is given twice, also as {key}"));
                }
            }
            (Err(InvalidDemand::UnknownKey), None) => {
                let unknown = InvalidDemand::UnknownKey;
                warnings.push(format!("constraint {key}={value} is ignored: {unknown}"));
            }
            (Err(InvalidDemand::UnknownKey), Some(near)) => {
                problems.push(format!("constraint {key}={value}: did you mean {near}?"));
            }
            (Err(misread @ InvalidDemand::InvalidValue { .. }), _) => {
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

    /// R-CONS-5: a key of another provider is ignored with a warning; all invalid pairs are refused at once.
    #[test]
    fn foreign_keys_are_ignored_and_mistakes_refused() {
        let done = sorted(&[("instance-type", "m5"), ("mem", "3G"), ("zone", "")]).unwrap();
        let pairs = [("ram", "3G"), ("zone", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(done.pairs, BTreeMap::from(pairs));
        assert_eq!(done.warnings.len(), 1);
        assert!(done.warnings[0].starts_with("constraint instance-type=m5 is ignored: JACO knows"));
        let refused = sorted(&[("cpu", "many"), ("zome", "a"), ("ram", "1"), ("mem", "2")]);
        assert_eq!(
            refused.unwrap_err(),
            "constraint cpu=many: write a number of cores, as 0.5 or 2, or max; constraint ram is \
             given twice, also as ram; constraint zome=a: did you mean zone?"
        );
        assert_eq!(sorted(&[]).unwrap_err(), "no constraint is given: write KEY=VALUE");
    }
}
