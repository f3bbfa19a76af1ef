//! The replicated state itself: plain tables, and nothing that could not be sent to another node.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_types::spec::{NetworkRef, ServiceSpec};
use jaco_types::{
    BackupScheduleName, Consumer, ConsumerName, ContentId, DeploymentName, Hostname, ImageDigest,
    InstanceId, InstanceObserved, NamedKey, Node, NodeId, RegistryName, ReplicaId, Revision,
    Scheduling, ServiceKey, Slot, StateIndex, TerminatingInstance, TokenId,
};

use crate::ClusterMeta;
use crate::DisabledAllocations;
use crate::audit::AuditLog;
use crate::backup::BackupSchedule;
use crate::contents::{Content, NamedContent};
use crate::deployment::Deployment;
use crate::edge::Edges;
use crate::images::Images;
use crate::job::JobRecord;
use crate::kek::Sealing;
use crate::network::{Network, Networks};
use crate::notify::Notifications;
use crate::policy::Policy;
use crate::registries::RegistryLogin;
use crate::requests::RequestLog;
use crate::rotation::AuthorityRotation;
use crate::table::Table;
use crate::token::{JoinToken, OperatorToken};

/// All that survives a leader. A clone is a cheap snapshot.
///
/// Each part has one writer: operators write `deployments`, `disabled`, `availability` and tokens; the
/// planner writes `slots`, `scheduling`, `terminating` and a node's status; a node writes its facts and its
/// `observed`; [`crate::apply`] itself writes `audit` and `requests`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// The last entry that was applied.
    pub index: StateIndex,
    /// The cluster's identity; absent before `cluster init`.
    pub meta: Option<ClusterMeta>,
    /// Default placement constraints, for every service without a value of its own for the key
    /// (R-CONS-1): pairs that [`jaco_types::demand::Demand::parse`] takes, none of them empty.
    pub constraints: BTreeMap<String, String>,
    /// The members.
    pub nodes: Table<NodeId, Node>,
    /// Disabled allocations.
    pub disabled: DisabledAllocations,
    /// The desired state of users.
    pub deployments: Table<DeploymentName, Deployment>,
    /// The planner's record of each service.
    pub scheduling: Table<ServiceKey, Scheduling>,
    /// The replicas that should exist.
    pub slots: Table<ReplicaId, Slot>,
    /// The observed state of instances.
    pub observed: Table<InstanceId, InstanceObserved>,
    /// Endpoint consumers: a replica is not stopped before they acknowledge that it left.
    pub consumers: Table<ConsumerName, Consumer>,
    /// Instances that are out of the endpoints and run until all consumers have acknowledged that.
    pub terminating: Table<InstanceId, TerminatingInstance>,
    /// Tokens of operators who connect over the network.
    pub operator_tokens: Table<TokenId, OperatorToken>,
    /// Tokens for joining the cluster.
    pub join_tokens: Table<TokenId, JoinToken>,
    /// Outcomes of recent writes, by request id.
    pub requests: RequestLog,
    /// The audit log.
    pub audit: AuditLog,
    /// The contents of files that revisions refer to.
    pub contents: Table<ContentId, Content>,
    /// Named configs and secrets.
    pub named: Table<NamedKey, NamedContent>,
    /// Credentials of image registries.
    pub registries: Table<RegistryName, RegistryLogin>,
    /// Networks of the cluster, and the addresses that nobody may have.
    pub networks: Networks,
    /// Routes and certificates.
    pub edges: Edges,
    /// What deployments may reach of the nodes.
    pub policy: Policy,
    /// The last rotation of the authority; absent if it was never rotated.
    pub rotation: Option<AuthorityRotation>,
    /// The keys that seal.
    pub sealing: Sealing,
    /// Runs of jobs with a schedule, and of those that a user ran.
    pub jobs: Table<ServiceKey, JobRecord>,
    /// Images that users pushed.
    pub images: Images,
    /// Whom notifications of audit events go to, and how far they are.
    pub notify: Notifications,
    /// Schedules of backups.
    pub backups: Table<BackupScheduleName, BackupSchedule>,
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
            terminating: self.terminating.clone(),
            operator_tokens: self.operator_tokens.clone(),
            join_tokens: self.join_tokens.clone(),
            requests: RequestLog::default(),
            audit: AuditLog { retention: self.audit.retention, ..AuditLog::default() },
            contents: self.contents.clone(),
            named: self.named.clone(),
            registries: self.registries.clone(),
            networks: self.networks.clone(),
            edges: self.edges.clone(),
            policy: self.policy.clone(),
            rotation: self.rotation.clone(),
            sealing: self.sealing.clone(),
            jobs: self.jobs.clone(),
            images: self.images.clone(),
            notify: self.notify.clone(),
            backups: self.backups.clone(),
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

    /// The networks that replicas of `service` are attached to at `revision`, in order; none where the
    /// revision is not kept. `None` where one of them is not there.
    #[must_use]
    pub fn networks_of(&self, service: &ServiceKey, revision: Revision) -> Option<Vec<&Network>> {
        let deployment = self.deployments.get(&service.deployment);
        let record = deployment.and_then(|deployment| deployment.revisions.get(&revision));
        let spec = record.map(|record| &record.spec);
        let wanted = spec.and_then(|spec| Some((spec, spec.services.get(&service.service)?)));
        let Some((spec, wanted)) = wanted else { return Some(Vec::new()) };
        let networks = wanted.networks.iter().map(|attachment| {
            let reach = match &attachment.network {
                NetworkRef::Own(key) => Some(spec.networks.get(key)?.reach),
                NetworkRef::Shared(_) => None,
            };
            self.networks.find(&attachment.network.scope(&service.deployment), reach)
        });
        networks.collect()
    }

    /// What the image of `service` is at `revision`, where that is known.
    #[must_use]
    pub fn image_digest(&self, service: &ServiceKey, revision: Revision) -> Option<&ImageDigest> {
        let record = self.deployments.get(&service.deployment)?.revisions.get(&revision)?;
        record.digests.get(&service.service)
    }
}
