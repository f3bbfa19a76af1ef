//! `global`: one replica on each node that takes any, named after it (R-PLACE-4).

use std::collections::BTreeSet;

use jaco_types::{Hostname, Ordinal, ReplicaId};

use crate::draft::{Pass, ServiceDraft};
use crate::node_table::NodeIx;
use crate::population::Waiting;

/// Makes the replicas that are missing.
pub(crate) fn fill<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let spec = service.goal.spec;
    let present: BTreeSet<NodeIx> = service
        .slots
        .iter()
        .filter(|slot| matches!(slot.ordinal, Ordinal::Host(_)))
        .filter_map(|slot| slot.current.at)
        .collect();
    if present.len() == pass.nodes.open().len()
        && pass.nodes.open().iter().all(|n| present.contains(n))
    {
        return;
    }
    let missing: Vec<NodeIx> =
        pass.nodes.open().iter().filter(|node| !present.contains(node)).copied().collect();
    let mut full: BTreeSet<Hostname> = BTreeSet::new();
    for node in missing {
        let row = pass.nodes.row(node);
        let host = row.node.hostname.clone();
        let ordinal = Ordinal::Host(host.clone());
        let is_taken = pass.input.state.slots.contains(&ReplicaId::new(&service.key, &ordinal));
        if is_taken || !row.fits(spec) {
            full.insert(host);
            continue;
        }
        let id = row.node.id;
        service.create(pass, ordinal, node);
        let slot = service.slots.last().expect("a slot was just created");
        pass.report.place(slot.id.clone(), id, "global");
    }
    if !full.is_empty() {
        service.waiting.push(Waiting::NoRoomOnNode { hosts: full, spec });
    }
}
