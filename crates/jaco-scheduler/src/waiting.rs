//! What is wanted and cannot be done now. Asked once, at the end of a pass, of the draft as it will
//! be: so the same pass made again says the same, and nothing is written twice (R-LOOP-4).

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::slot::Exhausted;
use jaco_types::spec::{OnNodeLoss, Placement, ServiceSpec, Storage};
use jaco_types::{Hostname, NodeStatus, Ordinal, ReplicaId};

use crate::company::{InCompany, in_order, meet};
use crate::dependency;
use crate::draft::{Draft, Pass, ServiceDraft, SlotDraft};
use crate::eligibility::{Stay, is_misplaced, loss_policy, where_it_is};
use crate::mend::is_own_kind;
use crate::node_table::NodeIx;
use crate::placement::{candidates, hosts};
use crate::resting::is_to_start;
use crate::rollout;

/// Something that is wanted and cannot be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waiting<'a> {
    /// What the service depends on is not there yet.
    Dependency { missing: u32, unmet: BTreeMap<String, String> },
    /// Fewer pinned hosts can take a replica than there are replicas.
    PinnedHosts { missing: u32, hosts: BTreeSet<Hostname> },
    /// No node takes these.
    NoNode { missing: u32 },
    /// Global replicas that their nodes have no room for.
    NoRoomOnNode { hosts: BTreeSet<Hostname> },
    /// Its data is on a node that does not answer or left.
    DataOnLostNode { replica: ReplicaId, node: String },
    /// Its node is silent, and its policy does not let it be placed elsewhere, or not yet.
    ForLostNode { replica: ReplicaId, node: String, policy: OnNodeLoss },
    /// Its data is on a node that should be left.
    DataOnLeavingNode { replica: ReplicaId, node: String },
    /// It should leave its node and no other takes it.
    NowhereToGo { replica: ReplicaId, node: String, spec: &'a ServiceSpec },
    /// What it cannot do without is being replaced on its node; then it is replaced too.
    ForCompany { replica: ReplicaId, beside: String },
    /// No node has room for a successor.
    NoRoomToRoll { replica: ReplicaId },
    /// It was disabled and is not any more, and the node that has its data has no room.
    NoRoomToStart { replica: ReplicaId, node: String },
}

/// Notes what each service waits for.
pub(crate) fn note(draft: &mut Draft<'_>) {
    for at in in_order(&draft.services) {
        meet(&mut draft.services, at);
        let unmet = dependency::unmet(&draft.services, at);
        let service = &mut draft.services[at];
        match unmet {
            Some(unmet) => {
                let missing = wanted(service, &draft.pass);
                let waiting = (missing > 0).then_some(Waiting::Dependency { missing, unmet });
                service.waiting.extend(waiting);
            }
            None => note_missing(service, &draft.pass),
        }
        note_stuck(service, &draft.pass);
        let held = rollout::held(service, &mut draft.pass);
        service.waiting.extend(held);
        let unrollable = rollout::stuck(service, &mut draft.pass);
        for replica in unrollable {
            note_unrollable(service, replica, &draft.pass);
        }
    }
}

fn wanted<'a>(service: &ServiceDraft<'a>, pass: &Pass<'a>) -> u32 {
    match service.goal.spec.placement {
        Placement::Global => {
            let allowed = candidates(&pass.nodes, service.goal.spec, &service.company);
            u32::try_from(allowed.len()).unwrap_or(u32::MAX)
        }
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => service.goal.spec.replicas,
    }
}

/// Replicas that should be made.
fn note_missing<'a>(service: &mut ServiceDraft<'a>, pass: &Pass<'a>) {
    if service.goal.spec.placement == Placement::Global {
        let present: BTreeSet<NodeIx> = global_nodes(service).collect();
        let allowed = candidates(&pass.nodes, service.goal.spec, &service.company);
        let missing = allowed.iter().filter(|node| !present.contains(node));
        let missing = missing.map(|at| pass.nodes.row(*at).node.hostname.clone());
        let hosts: BTreeSet<_> = missing.chain(hosts_to_start(service, pass)).collect();
        let waiting = (!hosts.is_empty()).then_some(Waiting::NoRoomOnNode { hosts });
        return service.waiting.extend(waiting);
    }
    let placement = &service.goal.spec.placement;
    let present = service.slots.iter().filter(|slot| is_own_kind(slot, placement)).count();
    let present = u32::try_from(present).unwrap_or(u32::MAX);
    let missing = service.goal.spec.replicas.saturating_sub(present);
    if let Some(shortage) = hosts::shortage(service, pass) {
        let missing = shortage.replicas_without_host.max(missing);
        service.waiting.push(Waiting::PinnedHosts { missing, hosts: shortage.missing });
    } else if missing > 0 {
        service.waiting.push(Waiting::NoNode { missing });
    }
}

/// The nodes that have their replica of a global service.
pub(crate) fn global_nodes(service: &ServiceDraft<'_>) -> impl Iterator<Item = NodeIx> {
    let own = service.slots.iter().filter(|slot| matches!(slot.ordinal, Ordinal::Host(_)));
    own.filter_map(|slot| slot.current.at)
}

/// The hosts of global replicas that were disabled, and could start but for room.
fn hosts_to_start(service: &ServiceDraft<'_>, pass: &Pass<'_>) -> impl Iterator<Item = Hostname> {
    let waits = |slot: &&SlotDraft<'_>| {
        let node = slot.current.at.map(|at| pass.nodes.row(at).status);
        is_to_start(slot, service, pass) && node.is_none_or(NodeStatus::is_working)
    };
    service.slots.iter().filter(waits).filter_map(|slot| match &slot.ordinal {
        Ordinal::Host(host) => Some(host.clone()),
        Ordinal::Index(_) => None,
    })
}

/// Replicas that are where they cannot or should not be. Those of a global service go with their
/// node and wait for nothing.
fn note_stuck(service: &mut ServiceDraft<'_>, pass: &Pass<'_>) {
    let goal = service.goal;
    if goal.spec.placement == Placement::Global {
        return;
    }
    let is_short = || hosts::shortage(service, pass).is_some();
    let mut stuck = Vec::new();
    let own = service.slots.iter().filter(|slot| is_own_kind(slot, &goal.spec.placement));
    for slot in own.filter(|slot| slot.is_active() || is_to_start(slot, service, pass)) {
        let verdict = where_it_is(slot, &goal, pass);
        let (replica, node) = match verdict {
            Stay::Keeps if slot.is_active() => continue,
            Stay::Keeps | Stay::Lost | Stay::Waits | Stay::Leaves => {
                (slot.id.clone(), node_name(slot, pass))
            }
        };
        let is_data = goal.spec.storage == Storage::Stateful;
        stuck.extend(match verdict {
            Stay::Keeps if slot.company == InCompany::Soon => {
                Some(Waiting::ForCompany { replica, beside: rollout::companions(service) })
            }
            Stay::Keeps if is_data => Some(Waiting::NoRoomToStart { replica, node }),
            Stay::Leaves if is_data => Some(Waiting::DataOnLeavingNode { replica, node }),
            Stay::Lost | Stay::Waits if is_data => Some(Waiting::DataOnLostNode { replica, node }),
            // It is moved by the steps of a rollout, which say so if they have nowhere to move it to.
            Stay::Leaves if is_misplaced(slot, &goal, &pass.nodes) => None,
            // An earlier instance of it still leaves the endpoints: it moves once that is over.
            Stay::Lost | Stay::Leaves if slot.is_leaving => None,
            // What is pinned waits for its host, which is said once for all of them.
            Stay::Lost | Stay::Leaves | Stay::Waits if is_short() || is_given_up(slot) => None,
            Stay::Waits => {
                let policy = loss_policy(slot, &goal);
                Some(Waiting::ForLostNode { replica, node, policy })
            }
            Stay::Lost | Stay::Leaves | Stay::Keeps => {
                let spec = slot.current.spec.unwrap_or(goal.spec);
                Some(Waiting::NowhereToGo { replica, node, spec })
            }
        });
    }
    service.waiting.extend(stuck);
}

/// One that has nowhere to go has nowhere to be rolled to either, which is said once.
fn note_unrollable(service: &mut ServiceDraft<'_>, id: ReplicaId, pass: &Pass<'_>) {
    let misplaced = service
        .slots
        .iter()
        .find(|slot| slot.id == id && is_misplaced(slot, &service.goal, &pass.nodes));
    if let Some(slot) = misplaced {
        let (node, spec) = (node_name(slot, pass), service.goal.spec);
        return service.waiting.push(Waiting::NowhereToGo { replica: id, node, spec });
    }
    let is_known = service
        .waiting
        .iter()
        .any(|waiting| matches!(waiting, Waiting::NowhereToGo { replica, .. } if *replica == id));
    if !is_known {
        service.waiting.push(Waiting::NoRoomToRoll { replica: id });
    }
}

/// Whether it stays on its node although that is lost, because nothing more is tried with it.
pub(crate) fn is_given_up(slot: &SlotDraft<'_>) -> bool {
    slot.restarts.exhausted == Exhausted::Yes && slot.current.at.is_some()
}

fn node_name(slot: &SlotDraft<'_>, pass: &Pass<'_>) -> String {
    let row = slot.current.at.map(|at| pass.nodes.row(at));
    row.map_or_else(|| format!("node {}", slot.current.node), |row| row.node.hostname.to_string())
}
