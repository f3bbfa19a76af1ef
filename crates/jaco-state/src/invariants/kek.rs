//! Laws about the rotation of the key-encryption key (ST-21, ST-22).

use jaco_types::KekId;

use super::{Law, Violations};
use crate::kek::{KekPhase, KekStep};
use crate::state::ClusterState;
use crate::view::envelopes;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let Some(rotation) = &state.sealing.rotation else { return };
    let passed = match rotation.phase {
        KekPhase::HandingOut | KekPhase::Abandoned => None,
        KekPhase::Resealing | KekPhase::Settled => Some(KekStep::Holds),
    };
    // A node's id is the entry that admitted it: one that joined later was not there to report.
    let was_there = |id: jaco_types::NodeId| id.0 < rotation.entered.0;
    for node in state.nodes.values().filter(|node| was_there(node.id)) {
        if rotation.reports.get(&node.id).copied() < passed {
            let phase = rotation.phase.as_str();
            let subject = format!("the phase before {phase} was left without {}", node.hostname);
            found.add(Law::KekPhaseLeftByReports, subject);
        }
    }
    for node in rotation.reports.keys().filter(|node| !state.nodes.contains(node)) {
        let subject = format!("node {node} has reported and is no member");
        found.add(Law::KekPhaseLeftByReports, subject);
    }
    let opens = rotation.opens();
    for (place, envelope) in envelopes(state) {
        let sealed_by = KekId::of_envelope(envelope);
        if !sealed_by.is_some_and(|sealed_by| opens.contains(&sealed_by)) {
            let phase = rotation.phase.as_str();
            let subject = format!("{place} is sealed with {sealed_by:?} in the phase {phase}");
            found.add(Law::EnvelopesOpen, subject);
        }
    }
}
