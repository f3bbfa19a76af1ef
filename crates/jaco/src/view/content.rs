//! Stored configs and secrets, without their contents.

use jaco_proto::v1::ContentInfo;
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
    }))
}

/// Configs or secrets as a table.
pub(crate) fn table(contents: &[ContentInfo], frame: &Frame) -> String {
    let mut table = Table::new(&["NAME", "VERSION", "BYTES", "STORED", "USED BY"]);
    for content in contents {
        table.row([
            content.name.clone(),
            content.version.to_string(),
            content.bytes.to_string(),
            time::ago(content.stored_at_ms, frame.now_ms),
            content.used_by.join(", "),
        ]);
    }
    table.render()
}
