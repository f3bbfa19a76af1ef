//! `global`: one replica on each node that takes any, named after it (R-PLACE-4).

use std::collections::BTreeSet;

use jaco_types::{Ordinal, ReplicaId, Standing};

use super::candidates;
use crate::draft::{Pass, ServiceDraft};
use crate::node_table::NodeIx;
use crate::waiting;

/// Makes the replicas that are missing and fit.
pub(crate) fn fill<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let present: BTreeSet<NodeIx> = waiting::global_nodes(service).collect();
    let allowed = candidates(&pass.nodes, service.goal.spec, &service.company);
    for node in allowed.iter().copied().filter(|node| !present.contains(node)) {
        let row = pass.nodes.row(node);
        let ordinal = Ordinal::Host(row.node.hostname.clone());
        // The host's replica of before it left is still there: it is adopted, or waits for room.
        let is_taken = pass.input.state.slots.contains(&ReplicaId::new(&service.key, &ordinal));
        // What rests takes no room.
        let rests = service.standing_of_new(pass, node) == Standing::Disabled;
        if is_taken || !(rests || row.fits(service.goal.spec)) {
            continue;
        }
        let id = row.id;
        service.create(pass, ordinal, node);
        let slot = service.slots.last().expect("a slot was just created");
        pass.report.place(slot.id.clone(), id, "global");
    }
}
