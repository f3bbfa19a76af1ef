//! Laws about nodes and registry credentials (ST-9, ST-17).

use jaco_types::StateIndex;

use super::{Law, Violations};
use crate::registries::REGISTRIES_MAX;
use crate::state::ClusterState;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    for node in state.nodes.values() {
        if StateIndex(node.id.0) > state.index {
            found.add(Law::NodeAdmitted, format!("node {} was not admitted", node.id));
        }
    }
    let count = state.registries.len();
    if count > REGISTRIES_MAX {
        found.add(Law::RegistryBounds, format!("{count} registries have credentials"));
    }
    for (name, login) in state.registries.iter().filter(|(_, login)| !login.password.fits()) {
        let bytes = login.password.0.len();
        let subject = format!("the sealed password of {name} has {bytes} bytes");
        found.add(Law::RegistryBounds, subject);
    }
}
