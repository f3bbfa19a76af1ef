//! Endpoint consumers and terminating instances.
//!
//! A consumer watches the list of endpoints and sends traffic there: a proxy, a name server. A replica
//! leaves the list first and is stopped once every consumer has acknowledged that, or at a deadline.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::id::{ConsumerName, InstanceId, NodeId, Revision, ServiceKey, SpecHash, StateIndex};
use crate::network::InstanceAddress;
use crate::time::{Millis, Timestamp};

/// The shortest lease that a consumer may have.
pub const LEASE_MIN: Millis = Millis(1000);

/// The longest: nothing waits longer than this for a consumer that died.
pub const LEASE_MAX: Millis = Millis(60_000);

/// How many consumers there may be.
pub const CONSUMERS_MAX: usize = 256;

/// An endpoint consumer, whose acknowledgement is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: ConsumerName,
    /// The node that it is attached to, which reports its acknowledgements.
    pub node: NodeId,
    /// The lease duration: without a heartbeat for so long it is detached.
    pub lease: Millis,
    /// The entry that attached it. One that attaches again under the same name is another: what the
    /// earlier one acknowledged does not count for it.
    pub session: StateIndex,
    /// When that was.
    pub attached_at: Timestamp,
}

/// What an endpoint consumer says of its traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The newest state whose endpoints it follows: it sends nothing new to what was not among them.
    pub index: StateIndex,
    /// The instances that had left by then and still have something of it to finish: requests in flight,
    /// open connections.
    pub busy: BTreeSet<InstanceId>,
}

impl Acknowledgement {
    /// Follows the endpoints of a state, and has nothing to finish elsewhere.
    #[must_use]
    pub const fn of(index: StateIndex) -> Self {
        Self { index, busy: BTreeSet::new() }
    }

    /// Whether an instance that left the endpoints in this state has nothing more to do for the consumer.
    #[must_use]
    pub fn releases(&self, instance: &InstanceId, left_at: StateIndex) -> bool {
        self.index >= left_at && !self.busy.contains(instance)
    }
}

/// An instance that is in no slot any more and that traffic may still reach: out of the endpoints, running
/// until all consumers have acknowledged that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminatingInstance {
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
    /// The addresses that it still has.
    pub addresses: Vec<InstanceAddress>,
    /// The entry that took it out of the endpoints: a consumer that has acknowledged this much sends
    /// nothing there any more.
    pub left_at: StateIndex,
    /// When that was.
    pub since: Timestamp,
}
