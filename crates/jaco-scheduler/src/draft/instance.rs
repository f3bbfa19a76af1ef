//! A live instance of a slot, as a pass sees it.

use std::sync::Arc;

use jaco_state::NewInstance;
use jaco_types::spec::ServiceSpec;
use jaco_types::{InstanceObserved, NodeId, ReplicaState, Revision, SpecHash, StateIndex};

use super::goal::ServiceRole;
use super::pass::Pass;
use crate::nodes::gpu::Held;
use crate::nodes::{NodeIx, NodeTable};

/// One container incarnation of a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InstanceDraft<'a> {
    pub(crate) node: NodeId,
    /// The node's row; none when it is no member any more.
    pub(crate) at: Option<NodeIx>,
    /// The entry that asked for it; none for one that is new in this pass.
    pub(crate) since: Option<StateIndex>,
    pub(crate) revision: Revision,
    pub(crate) hash: SpecHash,
    /// The spec it was made from; none when that revision is no longer kept.
    pub(crate) spec: Option<&'a ServiceSpec>,
    /// What its node reported of it.
    pub(crate) observed: Option<&'a InstanceObserved>,
    /// The GPUs that are reserved for it.
    pub(crate) gpus: Held<'a>,
}

impl<'a> InstanceDraft<'a> {
    pub(crate) fn state(&self) -> Option<ReplicaState> {
        self.observed.map(|observed| observed.state)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state() == Some(ReplicaState::Running)
    }

    /// Whether it serves, or has completed what it was for.
    pub(crate) fn is_up(&self, role: ServiceRole) -> bool {
        self.is_running() || self.has_completed(role)
    }

    /// Whether an exit with 0 is what it is for: it is a job's, or its restart policy says so (R-JOB-1).
    pub(crate) fn may_complete(&self, role: ServiceRole) -> bool {
        role == ServiceRole::Job || self.spec.is_some_and(|spec| spec.restart.may_complete())
    }

    /// Whether it ended without an error, and that is what it is for.
    pub(crate) fn has_completed(&self, role: ServiceRole) -> bool {
        self.may_complete(role)
            && self.observed.is_some_and(|observed| {
                observed.state == ReplicaState::Stopped
                    && observed.exit.is_none_or(|exit| exit.code == 0)
            })
    }

    /// Reserves what it needs of its node.
    pub(super) fn reserve(&self, nodes: &mut NodeTable<'a>) {
        if let (Some(at), Some(spec)) = (self.at, self.spec) {
            let row = nodes.row_mut(at);
            row.usage.take(spec, self.gpus.ids(row.node));
        }
    }

    /// Ends it: what it reserves is free again, unless it leaves the endpoints first and runs on
    /// meanwhile; says which.
    pub(super) fn end(&self, pass: &mut Pass<'a>) -> bool {
        let terminates = self.leaves_endpoints_first(pass);
        if !terminates && let (Some(at), Some(spec)) = (self.at, self.spec) {
            let row = pass.nodes.row_mut(at);
            row.usage.release(spec, self.gpus.ids(row.node));
        }
        terminates
    }

    /// Whether the instance, if it is ended now, leaves the endpoints first, and so keeps what it
    /// reserves: the same question that `apply` asks.
    fn leaves_endpoints_first(&self, pass: &Pass<'_>) -> bool {
        let row = self.at.map(|at| pass.nodes.row(at));
        let is_reachable = row.is_some_and(|row| row.status.is_working());
        !pass.consumers.is_empty() && is_reachable && self.is_running()
    }

    pub(super) fn as_new(&self, nodes: &NodeTable<'_>) -> NewInstance {
        let node = self.at.map(|at| nodes.row(at).node);
        let gpus = node.map(|node| self.gpus.ids(node).map(Arc::clone).collect());
        NewInstance {
            node: self.node,
            revision: self.revision,
            spec_hash: self.hash,
            gpus: gpus.unwrap_or_default(),
        }
    }
}
