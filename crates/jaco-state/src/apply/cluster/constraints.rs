//! What the cluster asks of nodes for everybody (R-CONS-1).

use std::collections::BTreeMap;

use jaco_types::demand::{Demand, canonical_key};
use jaco_types::{ErrorCode, Rejection};

use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{ConstraintsSet, Outcome};
use crate::state::ClusterState;

/// Sets some keys, all or none. It moves no replica (R-CONS-4).
pub(in crate::apply) fn set(
    state: &mut ClusterState,
    command: &ConstraintsSet,
    audit: &mut Audit<'_>,
) -> Outcome {
    let ConstraintsSet { pairs } = command;
    let problems: Vec<String> = pairs
        .iter()
        .filter_map(|(key, value)| {
            let problem = match Demand::parse(key, value) {
                Ok(Demand::PlaceWith(_) | Demand::ScaleWith(_)) => {
                    "a cluster has no services by that name, its deployments have".to_owned()
                }
                Ok(
                    Demand::Nothing
                    | Demand::Cpu(_)
                    | Demand::Memory(_)
                    | Demand::Rules(_)
                    | Demand::MaxPerNode(_),
                ) => return None,
                Err(problem) => problem.to_string(),
            };
            Some(format!("constraint {key}={value}: {problem}"))
        })
        .collect();
    if !problems.is_empty() {
        return Outcome::Rejected(Rejection::new(ErrorCode::InvalidRequest, problems.join("; ")));
    }
    let mut wanted = state.constraints.clone();
    for (key, value) in pairs {
        let key = canonical_key(key);
        wanted.retain(|known, _| canonical_key(known) != key);
        if !value.is_empty() {
            wanted.insert(key.to_owned(), value.clone());
        }
    }
    if wanted != state.constraints {
        let facts = [("from", show(&state.constraints)), ("to", show(&wanted))];
        audit.event(AuditKind::ConstraintsSet, facts);
        state.constraints = wanted;
    }
    Outcome::Done
}

fn show(pairs: &BTreeMap<String, String>) -> String {
    let pairs = pairs.iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" ")
}
