//! `hosts`: only the named hosts, and nothing at all when they are too few (R-PLACE-3).

use std::collections::BTreeSet;
use std::rc::Rc;

use jaco_types::spec::Placement;
use jaco_types::{Availability, Hostname, NodeStatus};

use crate::draft::{Pass, ServiceDraft};
use crate::nodes::{NodeIx, NodeTable};

/// Too few of the named hosts can have a replica.
pub(crate) struct Shortage {
    /// Those that cannot.
    pub(crate) missing: BTreeSet<Hostname>,
    /// By how many they are too few.
    pub(crate) replicas_without_host: u32,
}

/// Those of `nodes` that are named, in order.
pub(crate) fn among(
    nodes: &NodeTable<'_>,
    allowed: &[NodeIx],
    hosts: &BTreeSet<Hostname>,
) -> Rc<[NodeIx]> {
    let is_named = |at: &&NodeIx| hosts.contains(&nodes.row(**at).node.hostname);
    allowed.iter().filter(is_named).copied().collect()
}

/// Whether the service is pinned to fewer usable hosts than it has replicas. A cordoned host that
/// has a replica of it already is one that it can use.
pub(crate) fn shortage(service: &ServiceDraft<'_>, pass: &Pass<'_>) -> Option<Shortage> {
    let Placement::Hosts(hosts) = &service.goal().spec.placement else { return None };
    let gate = pass.nodes.gate(&service.goal().spec.scheduling);
    let is_usable = |host: &&Hostname| {
        let Some(at) = pass.nodes.find_host(host) else { return false };
        let row = pass.nodes.row(at);
        let has_one = || service.slots.iter().any(|slot| slot.current.at == Some(at));
        match (row.status, row.availability) {
            (NodeStatus::Ready, Availability::Active) => {
                has_one() || (gate.admits(row.node) && !service.disabled_on.contains(&at))
            }
            (NodeStatus::DiskFull, Availability::Active)
            | (NodeStatus::Ready | NodeStatus::DiskFull, Availability::Cordoned) => has_one(),
            (NodeStatus::Ready | NodeStatus::DiskFull, Availability::Draining)
            | (NodeStatus::Joining | NodeStatus::Down | NodeStatus::EngineDown, _) => false,
        }
    };
    let (usable, missing): (Vec<_>, Vec<_>) = hosts.iter().partition(is_usable);
    let usable = u32::try_from(usable.len()).unwrap_or(u32::MAX);
    let replicas_without_host = service.goal().spec.replicas.saturating_sub(usable);
    let missing = missing.into_iter().cloned().collect();
    (replicas_without_host > 0).then_some(Shortage { missing, replicas_without_host })
}
