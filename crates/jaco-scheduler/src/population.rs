//! Which replicas there are, and on which nodes: those whose node cannot keep them move, and those
//! that are missing are made.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::command::ReplaceCause;
use jaco_types::slot::Exhausted;
use jaco_types::spec::{Placement, ServiceSpec, Storage};
use jaco_types::{Hostname, Ordinal, ReplicaId};

use crate::dependency;
use crate::draft::{Draft, Handover, Pass, ServiceDraft, SlotDraft, Successor};
use crate::eligibility::{Stay, stay};
use crate::mend::is_own_kind;
use crate::placement::{Chooser, global, hosts};

/// Something that is wanted and cannot be done now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Waiting<'a> {
    /// What the service depends on is not there yet.
    Dependency { missing: u32, unmet: BTreeMap<String, String> },
    /// Fewer pinned hosts can take a replica than there are replicas.
    PinnedHosts { missing: u32, hosts: BTreeSet<Hostname> },
    /// No node takes these.
    NoNode { missing: u32, spec: &'a ServiceSpec },
    /// Global replicas that their nodes have no room for.
    NoRoomOnNode { hosts: BTreeSet<Hostname>, spec: &'a ServiceSpec },
    /// Its data is on a node that does not answer or left.
    DataOnLostNode { replica: ReplicaId, node: String },
    /// Its data is on a node that should be left.
    DataOnLeavingNode { replica: ReplicaId, node: String },
    /// It should leave its node and no other takes it.
    NowhereToGo { replica: ReplicaId, node: String, spec: &'a ServiceSpec },
    /// No node has room for a successor.
    NoRoomToRoll { replica: ReplicaId },
}

/// Places the replicas again that their nodes cannot keep, or should not (R-NODE-1, R-NODE-2).
pub(crate) fn relocate(draft: &mut Draft<'_>) {
    for service in &mut draft.services {
        service.waiting.clear();
        if service.goal.spec.placement == Placement::Global {
            adopt_returned_hosts(service, &mut draft.pass);
        } else {
            relocate_service(service, &mut draft.pass);
        }
    }
}

fn relocate_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let placement = &service.goal.spec.placement;
    let stays = |slot: &SlotDraft<'_>, pass: &Pass<'_>| {
        stay(slot.current.at.map(|at| pass.nodes.row(at)), placement)
    };
    if service.slots.iter().all(|slot| stays(slot, pass) == Stay::Keeps) {
        return;
    }
    let short = hosts::shortage(service, pass);
    for at in 0..service.slots.len() {
        let slot = &service.slots[at];
        if !is_own_kind(slot, placement) {
            continue;
        }
        let verdict = stays(slot, pass);
        let waiting = match verdict {
            Stay::Keeps => None,
            Stay::Lost | Stay::Leaves if service.goal.spec.storage == Storage::Stateful => {
                Some(wait_for_data(slot, pass, verdict))
            }
            Stay::Lost | Stay::Leaves if short.is_some() => None,
            Stay::Lost
                if slot.restarts.exhausted == Exhausted::Yes && slot.current.at.is_some() =>
            {
                None
            }
            Stay::Lost | Stay::Leaves => relocate_slot(service, pass, at, verdict),
        };
        service.waiting.extend(waiting);
    }
}

fn wait_for_data<'a>(slot: &SlotDraft<'a>, pass: &Pass<'a>, verdict: Stay) -> Waiting<'a> {
    let (replica, node) = (slot.id.clone(), node_name(slot, pass));
    match verdict {
        Stay::Leaves => Waiting::DataOnLeavingNode { replica, node },
        Stay::Lost | Stay::Keeps => Waiting::DataOnLostNode { replica, node },
    }
}

fn node_name(slot: &SlotDraft<'_>, pass: &Pass<'_>) -> String {
    let row = slot.current.at.map(|at| pass.nodes.row(at));
    row.map_or_else(|| format!("node {}", slot.current.node), |row| row.node.hostname.to_string())
}

/// Moves one replica: it runs there what it ran here, because only a rollout changes that.
fn relocate_slot<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    at: usize,
    verdict: Stay,
) -> Option<Waiting<'a>> {
    let slot = &service.slots[at];
    let (revision, spec) = match slot.current.spec {
        Some(spec) => (slot.current.revision, spec),
        None => (service.goal.revision, service.goal.spec),
    };
    let mut chooser = Chooser::new(&pass.nodes, service);
    let Some(node) = chooser.choose(&pass.nodes, spec, &slot.ordinal) else {
        let (replica, node) = (slot.id.clone(), node_name(slot, pass));
        return Some(Waiting::NowhereToGo { replica, node, spec });
    };
    let (cause, handover) = match verdict {
        Stay::Lost => (ReplaceCause::NodeLost, Handover::Abandon),
        Stay::Leaves | Stay::Keeps => (ReplaceCause::Moved, Handover::StartFirst),
    };
    let consecutive_failures = slot.restarts.consecutive;
    let successor = Successor { at: node, revision, spec, cause, handover, consecutive_failures };
    service.slots[at].succeed(pass, successor);
    let replica = service.slots[at].id.clone();
    pass.report.place(replica, pass.nodes.row(node).node.id, cause.as_str());
    None
}

/// A host that left and joined again is another node of the same name; its replica goes on there.
fn adopt_returned_hosts<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let goal = service.goal;
    for slot in &mut service.slots {
        let Ordinal::Host(host) = &slot.ordinal else { continue };
        let Some(at) = pass.nodes.find_host(host).filter(|at| slot.current.at != Some(*at)) else {
            continue;
        };
        let (cause, handover) = (ReplaceCause::NodeLost, Handover::Abandon);
        let (revision, spec, consecutive_failures) =
            (goal.revision, goal.spec, slot.restarts.consecutive);
        slot.succeed(pass, Successor { at, revision, spec, cause, handover, consecutive_failures });
    }
}

/// Makes the replicas that are missing (R-LOOP-3).
pub(crate) fn fill(draft: &mut Draft<'_>) {
    for at in 0..draft.services.len() {
        let Some(unmet) = dependency::unmet(&draft.services, at) else {
            fill_service(&mut draft.services[at], &mut draft.pass);
            continue;
        };
        let service = &mut draft.services[at];
        let missing = match service.goal.spec.placement {
            Placement::Global => u32::try_from(draft.pass.nodes.open().len()).unwrap_or(u32::MAX),
            Placement::Spread | Placement::Pack | Placement::Hosts(_) => service.goal.spec.replicas,
        };
        service.waiting.push(Waiting::Dependency { missing, unmet });
    }
}

fn fill_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    if service.goal.spec.placement == Placement::Global {
        return global::fill(service, pass);
    }
    let placement = &service.goal.spec.placement;
    let present = service.slots.iter().filter(|slot| is_own_kind(slot, placement)).count();
    let present = u32::try_from(present).unwrap_or(u32::MAX);
    let missing = service.goal.spec.replicas.saturating_sub(present);
    if let Some(hosts) = hosts::shortage(service, pass) {
        let missing = hosts.replicas_without_host.max(missing);
        service.waiting.push(Waiting::PinnedHosts { missing, hosts: hosts.missing });
        return;
    }
    if missing == 0 {
        return;
    }
    let spec = service.goal.spec;
    let mut chooser = Chooser::new(&pass.nodes, service);
    for made in 0..missing {
        let (index, ordinal) = next_ordinal(service, pass);
        let Some(node) = chooser.choose(&pass.nodes, spec, &ordinal) else {
            service.waiting.push(Waiting::NoNode { missing: missing - made, spec });
            return;
        };
        service.record.next_index = index.saturating_add(1);
        service.create(pass, ordinal, node);
        let slot = service.slots.last().expect("a slot was just created");
        pass.report.place(slot.id.clone(), slot.current.node, spec.placement.as_str());
    }
}

/// The next index whose name nobody has. Two services can only share a name if an older version
/// admitted them; skipping is what keeps such a cluster alive.
fn next_ordinal(service: &ServiceDraft<'_>, pass: &Pass<'_>) -> (u64, Ordinal) {
    let mut index = service.record.next_index;
    loop {
        let ordinal = Ordinal::Index(index);
        let id = ReplicaId::new(&service.key, &ordinal);
        if index == u64::MAX || !pass.input.state.slots.contains(&id) {
            return (index, ordinal);
        }
        index += 1;
    }
}
