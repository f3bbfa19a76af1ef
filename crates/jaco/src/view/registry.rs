//! Credentials of image registries, without passwords.

use jaco_proto::v1::RegistryInfo;
use serde_json::{Value, json};

use super::json::without_null;
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// The credentials of a registry as JSON.
pub(crate) fn json(registry: &RegistryInfo) -> Value {
    without_null(json!({
        "registry": registry.registry,
        "username": registry.username,
        "stored_at": time::rfc3339(registry.stored_at_ms),
        "by": registry.by,
    }))
}

/// The credentials of registries as a table.
pub(crate) fn table(registries: &[RegistryInfo], frame: &Frame) -> String {
    let mut table = Table::new(&["REGISTRY", "USERNAME", "STORED", "BY"]);
    for registry in registries {
        table.row([
            registry.registry.clone(),
            registry.username.clone(),
            time::ago(registry.stored_at_ms, frame.now_ms),
            registry.by.clone(),
        ]);
    }
    table.render()
}
