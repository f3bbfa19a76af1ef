//! Configs and secrets of the cluster, without their contents.

use jaco_proto::v1::ContentInfo;
use serde_json::{Value, json};

use super::without_null;
use crate::table::Table;
use crate::ui::Frame;
use crate::when;

/// For programs.
#[must_use]
pub fn json(content: &ContentInfo) -> Value {
    without_null(json!({
        "name": content.name,
        "version": content.version,
        "bytes": content.bytes,
        "stored_at": when::rfc3339(content.stored_at_ms),
        "used_by": content.used_by,
    }))
}

/// For people.
#[must_use]
pub fn table(contents: &[ContentInfo], frame: &Frame) -> String {
    let mut table = Table::new(&["NAME", "VERSION", "BYTES", "STORED", "USED BY"]);
    for content in contents {
        table.row([
            content.name.clone(),
            content.version.to_string(),
            content.bytes.to_string(),
            when::ago(content.stored_at_ms, frame.now_ms),
            content.used_by.join(", "),
        ]);
    }
    table.render()
}
