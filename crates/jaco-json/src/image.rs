//! Pushed images.

use jaco_proto::v1::PushedImageInfo;
use serde_json::{Value, json};

use crate::fields::without_null;
use crate::time::rfc3339;

/// A pushed image as JSON.
#[must_use]
pub fn json(image: &PushedImageInfo) -> Value {
    let expires = (image.expires_at_ms > 0).then(|| rfc3339(image.expires_at_ms));
    without_null(json!({
        "id": image.id,
        "names": image.names,
        "bytes": image.bytes,
        "layers": image.layers,
        "copies": image.copies,
        "nodes": image.nodes,
        "awaited": image.awaited,
        "used_by": image.used_by,
        "pushed_at": rfc3339(image.pushed_at_ms),
        "by": image.by,
        "expires_at": expires,
    }))
}
