//! Allocations of services on nodes.

use jaco_proto::v1::AllocationInfo;
use serde_json::{Value, json};

use crate::fields::{non_empty, without_null};
use crate::time::rfc3339;

/// An allocation as JSON.
#[must_use]
pub fn json(allocation: &AllocationInfo) -> Value {
    without_null(json!({
        "alloc_id": allocation.alloc_id,
        "deployment": allocation.deployment,
        "service": allocation.service,
        "node": allocation.node,
        "zone": allocation.zone,
        "disabled": allocation.disabled,
        "removed": allocation.removed,
        "replicas": allocation.replicas,
        "spec_hash": allocation.spec_hash,
        "revision": allocation.revision,
        "version": allocation.version,
        "disabled_with": non_empty(&allocation.disabled_with),
        "disabled_by": non_empty(&allocation.disabled_by),
        "disabled_at": rfc3339(allocation.disabled_at_ms),
        "removed_at": rfc3339(allocation.removed_at_ms),
        "log_bytes": allocation.removed.then_some(allocation.log_bytes),
        "volumes": allocation.removed.then_some(&allocation.volumes),
    }))
}
