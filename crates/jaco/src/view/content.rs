//! Stored configs and secrets, without their contents.

use jaco_proto::v1::{ContentInfo, ContentUsers};
use serde_json::{Value, json};

use super::json::without_null;
use crate::format::table::Table;
use crate::format::time;
use crate::output::Frame;

/// A config or secret as JSON.
pub(crate) fn json(content: &ContentInfo) -> Value {
    without_null(json!({
        "name": content.name,
        "version": content.version,
        "bytes": content.bytes,
        "stored_at": time::rfc3339(content.stored_at_ms),
        "used_by": content.used_by,
        "for": content.users.as_ref().map(users_json),
    }))
}

/// Which deployments may use a secret: `all`, or their names.
pub(crate) fn users_json(users: &ContentUsers) -> Value {
    match users.all {
        true => json!("all"),
        false => json!(users.deployments),
    }
}

/// As [`users_json`], for people.
pub(crate) fn users_text(users: &ContentUsers) -> String {
    if users.all {
        return "all".to_owned();
    }
    if users.deployments.is_empty() { "none".to_owned() } else { users.deployments.join(", ") }
}

/// Configs or secrets as a table.
pub(crate) fn table(contents: &[ContentInfo], frame: &Frame) -> String {
    let mut head = vec!["NAME", "VERSION", "BYTES", "STORED", "USED BY"];
    // Configs are for all.
    let has_users = contents.iter().any(|content| content.users.is_some());
    head.extend(has_users.then_some("FOR"));
    let mut table = Table::new(&head);
    for content in contents {
        let mut row = vec![
            content.name.clone(),
            content.version.to_string(),
            content.bytes.to_string(),
            time::ago(content.stored_at_ms, frame.now_ms),
            content.used_by.join(", "),
        ];
        row.extend(content.users.as_ref().map(users_text));
        table.row(row);
    }
    table.render()
}
