//! The replicated state itself: plain tables, and nothing that could not be sent to another node.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_types::spec::{DeploymentSpec, ServiceSpec};
use jaco_types::{
    ClusterId, Consumer, ConsumerName, ContentId, DeploymentName, Hostname, Identity, ImageDigest,
    InstanceId, InstanceObserved, Leaving, NamedKey, Node, NodeId, RegistryName, ReplicaId,
    Revision, Scheduling, ServiceKey, ServiceName, Slot, StateIndex, Timestamp, TokenId,
};

use crate::audit::AuditLog;
use crate::contents::{Content, NamedContent};
use crate::disabled::DisabledSet;
use crate::registries::RegistryLogin;
use crate::requests::RequestLog;
use crate::table::Table;
use crate::token::{JoinToken, OperatorToken};

/// All that survives a leader. A clone is a cheap snapshot.
///
/// Who writes what (one writer each): people write `deployments`, `disabled`, `availability` and tokens; the
/// planner writes `slots`, `scheduling`, `leaving` and a node's status; a node writes its facts and its
/// `observed`; [`crate::apply`] itself writes `audit` and `requests`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// The last entry that was applied.
    pub index: StateIndex,
    /// What the cluster is; absent before `cluster init`.
    pub meta: Option<ClusterMeta>,
    /// What is asked of nodes for every service that says nothing about the same key itself
    /// (R-CONS-1): pairs that [`jaco_types::demand::Demand::parse`] takes, none of them empty.
    pub constraints: BTreeMap<String, String>,
    /// The members.
    pub nodes: Table<NodeId, Node>,
    /// What people want to rest.
    pub disabled: DisabledSet,
    /// What people asked for.
    pub deployments: Table<DeploymentName, Deployment>,
    /// What the planner keeps about each service.
    pub scheduling: Table<ServiceKey, Scheduling>,
    /// The replicas that should exist.
    pub slots: Table<ReplicaId, Slot>,
    /// What the nodes saw of their instances.
    pub observed: Table<InstanceId, InstanceObserved>,
    /// Who follows the endpoints, and is waited for before a replica stops.
    pub consumers: Table<ConsumerName, Consumer>,
    /// Instances that are out of the endpoints and run until all consumers know.
    pub leaving: Table<InstanceId, Leaving>,
    /// Who may operate the cluster from afar.
    pub operator_tokens: Table<TokenId, OperatorToken>,
    /// Who may join.
    pub join_tokens: Table<TokenId, JoinToken>,
    /// Outcomes of recent writes, by request id.
    pub requests: RequestLog,
    /// What happened, and who asked for it.
    pub audit: AuditLog,
    /// The contents of files that revisions refer to.
    pub contents: Table<ContentId, Content>,
    /// The configs and secrets that people gave a name.
    pub named: Table<NamedKey, NamedContent>,
    /// Who the cluster is at image registries.
    pub registries: Table<RegistryName, RegistryLogin>,
}

/// What a cluster is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterMeta {
    /// Its identity.
    pub id: ClusterId,
    /// What people call it.
    pub name: String,
    /// The certificate of its authority, PEM.
    pub ca_certificate: String,
    /// The authority's private key, sealed; no node stores the key to it beside it.
    pub sealed_ca_key: Vec<u8>,
    /// When it was created.
    pub created_at: Timestamp,
}

/// What people asked for under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// Its name.
    pub name: DeploymentName,
    /// The revision that is wanted.
    pub revision: Revision,
    /// The revisions that can be rolled back to or that some replica still runs; always contains
    /// `revision`.
    pub revisions: BTreeMap<Revision, Arc<RevisionRecord>>,
    /// The last entry that changed what is wanted.
    pub modified: StateIndex,
}

/// One revision, kept whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionRecord {
    /// What was asked for.
    pub spec: DeploymentSpec,
    /// When.
    pub applied_at: Timestamp,
    /// By whom.
    pub applied_by: Identity,
    /// The revision whose spec this is, where somebody went back to one.
    pub restores: Option<Revision>,
    /// Whether it is kept however many follow.
    pub pin: Pin,
    /// Why its rollout was given up; empty where it was not.
    pub failure: String,
    /// What the image of a service was when it was first looked for under this revision, or under an
    /// earlier one that this one goes on from: every replica of the revision runs exactly that
    /// (R-ROLL-5). A service that is not here runs what its image's name leads each node to.
    pub digests: BTreeMap<ServiceName, ImageDigest>,
}

/// Whether a revision is kept however many follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pin {
    /// It goes when it is old.
    #[default]
    No,
    /// It stays.
    Yes,
}

impl Pin {
    /// The answer as the audit log has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Yes => "yes",
        }
    }
}

impl Deployment {
    /// The spec of the wanted revision.
    ///
    /// # Panics
    /// Never: `revisions` always contains `revision` (invariant ST-5).
    #[must_use]
    pub fn spec(&self) -> &DeploymentSpec {
        &self.revisions.get(&self.revision).expect("the wanted revision is kept").spec
    }
}

impl ClusterState {
    /// A cheap copy of what decisions depend on: all but the audit log and the outcomes of requests.
    /// Those change with every write, so that a copy of them would have to be paid for by the next
    /// one.
    #[must_use]
    pub fn for_decisions(&self) -> Self {
        Self {
            index: self.index,
            meta: self.meta.clone(),
            constraints: self.constraints.clone(),
            nodes: self.nodes.clone(),
            disabled: self.disabled.clone(),
            deployments: self.deployments.clone(),
            scheduling: self.scheduling.clone(),
            slots: self.slots.clone(),
            observed: self.observed.clone(),
            consumers: self.consumers.clone(),
            leaving: self.leaving.clone(),
            operator_tokens: self.operator_tokens.clone(),
            join_tokens: self.join_tokens.clone(),
            requests: RequestLog::default(),
            audit: AuditLog { retention: self.audit.retention, ..AuditLog::default() },
            contents: self.contents.clone(),
            named: self.named.clone(),
            registries: self.registries.clone(),
        }
    }

    /// The member of this name.
    #[must_use]
    pub fn node_by_hostname(&self, hostname: &Hostname) -> Option<&Node> {
        self.nodes.values().find(|node| node.hostname == *hostname)
    }

    /// The spec that a replica of `service` runs at `revision`, if it is still kept.
    #[must_use]
    pub fn service_spec(
        &self,
        service: &ServiceKey,
        revision: Revision,
    ) -> Option<&Arc<ServiceSpec>> {
        let record = self.deployments.get(&service.deployment)?.revisions.get(&revision)?;
        record.spec.services.get(&service.service)
    }

    /// What the image of `service` is at `revision`, where that is known.
    #[must_use]
    pub fn image_digest(&self, service: &ServiceKey, revision: Revision) -> Option<&ImageDigest> {
        let record = self.deployments.get(&service.deployment)?.revisions.get(&revision)?;
        record.digests.get(&service.service)
    }
}
