//! Laws about the rotation of the authority (ST-19, ST-20).

use super::{Law, Violations};
use crate::rotation::{RotationPhase, RotationStep};
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let Some(rotation) = &state.rotation else { return };
    let passed = match rotation.phase {
        RotationPhase::Trusting | RotationPhase::Abandoned => None,
        RotationPhase::Renewing => Some(RotationStep::Trusts),
        RotationPhase::Settled => Some(RotationStep::Reconnected),
    };
    for node in state.nodes.values() {
        if rotation.reports.get(&node.id).copied() < passed {
            let phase = rotation.phase.as_str();
            let subject = format!("the phase before {phase} was left without {}", node.hostname);
            found.add(Law::PhaseLeftByReports, subject);
        }
    }
    for node in rotation.reports.keys().filter(|node| !state.nodes.contains(node)) {
        let subject = format!("node {node} has reported and is no member");
        found.add(Law::PhaseLeftByReports, subject);
    }
    let Some(meta) = &state.meta else { return };
    if meta.ca_certificate != rotation.certificates()
        || meta.sealed_ca_key != rotation.signs().sealed_key
    {
        let subject = format!("what the phase {} trusts and signs with", rotation.phase.as_str());
        found.add(Law::PhaseTrusts, subject);
    }
}
