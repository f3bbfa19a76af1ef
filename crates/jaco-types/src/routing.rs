//! Who sends traffic to replicas, and which replicas are leaving it.
//!
//! A consumer is whatever follows the list of endpoints and sends traffic there: a proxy, a name
//! server. A replica leaves the list first and is stopped once every consumer has said that it knows
//! (or did not say so in time).

use std::sync::Arc;

use crate::id::{ConsumerName, InstanceId, NodeId, Revision, ServiceKey, SpecHash, StateIndex};
use crate::time::{Millis, Timestamp};

/// The shortest lease that a consumer may have.
pub const LEASE_MIN: Millis = Millis(1000);

/// The longest: nothing waits longer than this for a consumer that died.
pub const LEASE_MAX: Millis = Millis(60_000);

/// How many consumers there may be.
pub const CONSUMERS_MAX: usize = 256;

/// Somebody who follows the endpoints and is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// What it calls itself.
    pub name: ConsumerName,
    /// The node that it is attached to, which speaks for it.
    pub node: NodeId,
    /// How long its silence is borne.
    pub lease: Millis,
    /// The entry that attached it. One that attaches again under the same name is another: what the
    /// earlier one acknowledged does not count for it.
    pub session: StateIndex,
    /// When that was.
    pub attached_at: Timestamp,
}

/// An instance that no slot names any more and that traffic may still reach: out of the endpoints,
/// running until it may stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// The instance.
    pub id: InstanceId,
    /// The service it belonged to.
    pub service: ServiceKey,
    /// The node that runs it.
    pub node: NodeId,
    /// The revision whose spec it runs.
    pub revision: Revision,
    /// The hash of that spec.
    pub spec_hash: SpecHash,
    /// The ids of the GPUs that it still has.
    pub gpus: Vec<Arc<str>>,
    /// The entry that took it out of the endpoints: a consumer that has acknowledged this much sends
    /// nothing there any more.
    pub left_at: StateIndex,
    /// When that was.
    pub since: Timestamp,
}
