//! Who the cluster is at image registries, without passwords.

use jaco_proto::v1::RegistryInfo;
use serde_json::{Value, json};

use super::without_null;
use crate::table::Table;
use crate::ui::Frame;
use crate::when;

/// For programs.
#[must_use]
pub fn json(registry: &RegistryInfo) -> Value {
    without_null(json!({
        "registry": registry.registry,
        "username": registry.username,
        "stored_at": when::rfc3339(registry.stored_at_ms),
        "by": registry.by,
    }))
}

/// For people.
#[must_use]
pub fn table(registries: &[RegistryInfo], frame: &Frame) -> String {
    let mut table = Table::new(&["REGISTRY", "USERNAME", "STORED", "BY"]);
    for registry in registries {
        table.row([
            registry.registry.clone(),
            registry.username.clone(),
            when::ago(registry.stored_at_ms, frame.now_ms),
            registry.by.clone(),
        ]);
    }
    table.render()
}
