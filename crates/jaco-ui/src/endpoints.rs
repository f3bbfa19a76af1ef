//! Where the ready replicas of a deployment are reached in the networks of the cluster.

use jaco_proto::v1::ReplicaInfo;

use crate::cells::{Table, section, sentence};
use crate::html::{Element, el};

/// Each address of each ready replica, with the names that answer with it. Under the name of the service all of them are
/// found.
pub(crate) fn section_of(replicas: &[&ReplicaInfo]) -> Element {
    let mut table = Table::new(
        "Addresses of ready replicas in networks of the cluster",
        &["Service", "Names", "Network", "Address", "Replica"],
    );
    for one in replicas.iter().filter(|one| one.in_routing) {
        for address in &one.addresses {
            // The names as docs/networking.md has them; aliases of the compose file are not in a status.
            let names = [
                one.service.clone(),
                format!("{}.{}", one.service, one.deployment),
                format!("{}.{}.jaco.internal", one.service, one.deployment),
            ];
            table.row(vec![
                one.service.clone().into(),
                names.join(", ").into(),
                address.network.clone().into(),
                el("code").with(address.address.clone()).into(),
                one.id.clone().into(),
            ]);
        }
    }
    let content = match table.is_empty() {
        true => sentence("No ready replica has an address in a network of the cluster."),
        false => table.element(),
    };
    section("endpoints", "Endpoints", vec![content])
}
