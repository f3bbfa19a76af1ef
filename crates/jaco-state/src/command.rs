//! What can be written to the log, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::slot::Exhausted;
use jaco_types::spec::DeploymentSpec;
use jaco_types::{
    AllocationScope, Availability, ConsumerName, ContentId, DeploymentName, Hostname, Identity,
    ImageDigest, InstanceId, InstanceObserved, Millis, NamedKey, Node, NodeFacts, NodeId,
    NodeStatus, Ordinal, Origin, RegistryName, RegistryUsername, Rejection, ReplicaId, RequestId,
    Revision, Scheduling, ServiceKey, SpecHash, Standing, StateIndex, Timestamp, TokenId,
};

use crate::audit::AuditKind;
use crate::contents::Piece;
use crate::registries::SealedPassword;
use crate::state::{ClusterMeta, Pin};
use crate::token::{JoinToken, OperatorToken};

/// One entry of the log. All that `apply` may know of the outside comes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the log.
    pub index: StateIndex,
    /// When its leader proposed it, by that leader's clock.
    pub at: Timestamp,
    /// Who asked for it.
    pub by: Identity,
    /// From where; absent in entries of older versions.
    pub origin: Option<Origin>,
    /// The sender's name for it; a second entry of the same name does nothing.
    pub request: Option<RequestId>,
    /// What to do.
    pub command: Command,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Creates the cluster with its first node and first operator token.
    ClusterInit {
        /// What the cluster is.
        meta: ClusterMeta,
        /// The first node; its id and times are stamped by `apply`.
        node: NewNode,
        /// The first operator token.
        token: OperatorToken,
    },
    /// Makes a node a member. Its id is the index of this entry.
    NodeAdmit {
        /// The node.
        node: NewNode,
        /// The join token it showed.
        token: TokenId,
    },
    /// A node says something new about itself.
    NodeReport {
        /// The node.
        node: NodeId,
        /// Where its peers reach it.
        address: String,
        /// What it says.
        facts: NodeFacts,
    },
    /// People change whether a node takes replicas.
    NodeSetAvailability {
        /// The node.
        node: NodeId,
        /// From now on.
        availability: Availability,
    },
    /// People want a node empty: what it has moves away.
    NodeDrain {
        /// The node.
        node: NodeId,
        /// How long each next replica may take to leave; then the node is again what it was.
        patience: Millis,
    },
    /// People give a node labels, or take back some that they gave.
    NodeSetLabels {
        /// The node.
        node: NodeId,
        /// Labels with their values, from now on.
        set: BTreeMap<String, String>,
        /// Labels that people say nothing about any more.
        unset: BTreeSet<String>,
    },
    /// A node stops being a member.
    NodeRemove {
        /// The node.
        node: NodeId,
    },
    /// People want these constraints for every service that says nothing about the same keys.
    ConstraintsSet {
        /// By key; an empty value takes the key back. Keys that are not named stay as they are.
        pairs: BTreeMap<String, String>,
    },
    /// People want some allocations to rest, or to run again.
    DisabledSet {
        /// What is done with them.
        change: Disabling,
        /// Which ones.
        scopes: BTreeSet<AllocationScope>,
    },
    /// People want this of a deployment from now on.
    DeploymentApply {
        /// Its name.
        name: DeploymentName,
        /// What is wanted.
        spec: DeploymentSpec,
        /// The wanted revision that it was made from: refused as stale if there is another by now.
        based_on: Option<Revision>,
    },
    /// People want what an earlier revision of a deployment said.
    DeploymentRollback {
        /// Its name.
        name: DeploymentName,
        /// The revision; where none is named, the newest that served and that differs.
        to: Option<Revision>,
    },
    /// People want a revision kept, or do not any more.
    RevisionPin {
        /// The deployment.
        name: DeploymentName,
        /// The revision.
        revision: Revision,
        /// From now on.
        pin: Pin,
    },
    /// People do not want a deployment any more.
    DeploymentDelete {
        /// Its name.
        name: DeploymentName,
    },
    /// Contents of files, for an apply that is about to refer to them.
    ContentPut {
        /// The pieces.
        pieces: Vec<Piece>,
    },
    /// People give a config or secret of the cluster its content, for the first time or anew.
    NamedContentPut {
        /// Which one.
        key: NamedKey,
        /// The list of files that stands for it.
        tree: ContentId,
        /// The list, and what it is made of.
        pieces: Vec<Piece>,
        /// How many bytes it has, as people count them.
        size: u64,
    },
    /// People want no config or secret of this name any more.
    NamedContentRemove {
        /// Which one.
        key: NamedKey,
    },
    /// People say who the cluster is at an image registry, for the first time or anew.
    RegistryStore {
        /// Which one.
        registry: RegistryName,
        /// The name that it knows.
        username: RegistryUsername,
        /// The password, sealed for the two.
        password: SealedPassword,
    },
    /// People want the cluster to be nobody there.
    RegistryRemove {
        /// Which one.
        registry: RegistryName,
    },
    /// The planner's changes, all or none.
    Batch {
        /// The state that they were planned from.
        based_on: StateIndex,
        /// The changes, in order.
        changes: Vec<Change>,
    },
    /// Replicas leave a hot node, or stay on it for reasons that were not given before.
    Rebalance {
        /// The state that it was decided on.
        based_on: StateIndex,
        /// What moves; all of it or none.
        moves: Vec<RebalanceMove>,
        /// The facts of what stays, its reason among them.
        kept: Vec<BTreeMap<String, String>>,
    },
    /// Moves off hot nodes whose successors did not run in time are taken back.
    RebalanceRevert {
        /// The state that it was decided on.
        based_on: StateIndex,
        /// What stays where it serves; all of it or none.
        reverts: Vec<RebalanceRevert>,
    },
    /// A node saw something new of its instances.
    Observe {
        /// The node.
        node: NodeId,
        /// What it saw.
        observed: Vec<InstanceObserved>,
        /// Instances that it has nothing of any more.
        gone: Vec<InstanceId>,
    },
    /// Lets a person operate the cluster.
    OperatorTokenIssue {
        /// The token.
        token: OperatorToken,
    },
    /// Ends that.
    OperatorTokenRevoke {
        /// The token.
        id: TokenId,
    },
    /// Lets nodes join.
    JoinTokenIssue {
        /// The token.
        token: JoinToken,
    },
    /// Somebody follows the endpoints from now on, and is waited for.
    ConsumerAttach {
        /// What it calls itself; one that has the name already is replaced.
        name: ConsumerName,
        /// The node that it is attached to.
        node: NodeId,
        /// How long its silence is borne.
        lease: Millis,
    },
    /// It does not any more.
    ConsumerDetach {
        /// Its name.
        name: ConsumerName,
        /// Which attachment ends: a newer one under the same name goes on.
        session: StateIndex,
    },
    /// Begins the chain of audit events, over all that are kept. The leader writes it once, when all
    /// members understand it.
    AuditBegin,
    /// How old events may get before they are let go of. The leader writes the default once, when all
    /// members understand it; from then on refusals are counted as well.
    AuditRetention {
        /// The age.
        age: Millis,
    },
    /// Writes an event that comes with no change of state, for example a refusal.
    AuditNote {
        /// Its kind.
        kind: AuditKind,
        /// Its facts.
        payload: BTreeMap<String, String>,
    },
}

/// A node before it has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNode {
    /// What people call it.
    pub hostname: Hostname,
    /// Where its peers reach it.
    pub address: String,
    /// SHA-256 of its public key.
    pub key_fingerprint: [u8; 32],
    /// What it says about itself.
    pub facts: NodeFacts,
}

/// One change of the planner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new slot with its first instance.
    SlotCreate {
        /// Its name.
        id: ReplicaId,
        /// The service it belongs to.
        service: ServiceKey,
        /// What tells it apart.
        ordinal: Ordinal,
        /// Its first instance; of one that is disabled, what it would run.
        instance: NewInstance,
        /// Whether it runs that.
        standing: Standing,
    },
    /// A new instance in an existing slot.
    SlotReplace {
        /// The slot.
        id: ReplicaId,
        /// The new instance.
        instance: NewInstance,
        /// What becomes of the instance that it follows.
        previous: Previous,
        /// Why.
        cause: ReplaceCause,
        /// The failures in a row, from now on.
        consecutive_failures: u32,
    },
    /// The handover is over: the retiring instance may stop.
    SlotSettle {
        /// The slot.
        id: ReplicaId,
    },
    /// The handover is given up: the retiring instance is the current one again.
    SlotRevert {
        /// The slot.
        id: ReplicaId,
    },
    /// The failures in a row, without a new instance.
    SlotSetRestarts {
        /// The slot.
        id: ReplicaId,
        /// How many.
        consecutive: u32,
        /// Whether the budget is spent.
        exhausted: Exhausted,
    },
    /// The slot runs nothing from now on: what it has stops as what is replaced does, and its
    /// failures are forgotten. Or, where it is disabled already, what it would run is something else.
    SlotDisable {
        /// The slot.
        id: ReplicaId,
        /// What it would run, and where.
        instance: NewInstance,
    },
    /// The slot is not wanted any more; its instances stop.
    SlotRemove {
        /// The slot.
        id: ReplicaId,
    },
    /// What the planner keeps about a service. `modified` is stamped by `apply`.
    SchedulingSet {
        /// The service.
        service: ServiceKey,
        /// The record, whole. Boxed: it is far larger than what most changes say.
        record: Box<Scheduling>,
    },
    /// All consumers know that this instance is out of the endpoints, or had their time: it stops.
    LeavingEnd {
        /// The instance.
        id: InstanceId,
    },
    /// A consumer was silent for longer than its lease.
    ConsumerExpire {
        /// Its name.
        name: ConsumerName,
    },
    /// Whether a node takes part.
    NodeStatusSet {
        /// The node.
        node: NodeId,
        /// From now on.
        status: NodeStatus,
        /// Why, for people.
        reason: String,
    },
    /// What the image of a service is at a revision, from now on and for good.
    ImageResolve {
        /// The service.
        service: ServiceKey,
        /// The revision.
        revision: Revision,
        /// What the first node that has it found.
        digest: ImageDigest,
    },
    /// A drain has taken too long: the node is again what it was.
    DrainGiveUp {
        /// The node.
        node: NodeId,
        /// Some of what did not leave, for people.
        left: String,
    },
}

/// What people do with allocations (R-SEL-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disabling {
    /// These rest as well.
    Disable,
    /// These, and all that lies in them, do not rest any more.
    Enable,
    /// Exactly these rest.
    Replace,
}

/// A replica that leaves a hot node: its new instance starts first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebalanceMove {
    /// The slot.
    pub id: ReplicaId,
    /// The new instance.
    pub instance: NewInstance,
    /// Why, for the audit.
    pub facts: BTreeMap<String, String>,
}

/// A replica that does not leave its node after all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebalanceRevert {
    /// The slot.
    pub id: ReplicaId,
    /// Why, for the audit.
    pub facts: BTreeMap<String, String>,
}

/// An instance before `apply` stamps its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInstance {
    /// The node that shall run it.
    pub node: NodeId,
    /// The revision whose spec it runs.
    pub revision: Revision,
    /// The hash of that spec.
    pub spec_hash: SpecHash,
    /// The ids of the GPUs of the node that it has for itself.
    pub gpus: Vec<Arc<str>>,
}

/// What becomes of the instance that a new one follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Previous {
    /// It serves until its successor does (start-first).
    Retire,
    /// It stops now: it failed, its node is gone, or the two cannot run side by side.
    Drop,
}

/// Why a slot gets a new instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplaceCause {
    /// The spec changed.
    SpecChanged,
    /// The instance failed.
    Failed,
    /// The node cannot keep it.
    NodeLost,
    /// The slot goes to another node by choice.
    Moved,
    /// What it shares a namespace with was replaced.
    CompanyReplaced,
    /// It was disabled, and is not any more.
    Enabled,
}

impl ReplaceCause {
    /// The cause as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpecChanged => "spec_changed",
            Self::Failed => "failed",
            Self::NodeLost => "node_lost",
            Self::Moved => "moved",
            Self::CompanyReplaced => "company_replaced",
            Self::Enabled => "enabled",
        }
    }
}

/// What came of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done; there is nothing to tell.
    Done,
    /// The node is a member, under this id.
    NodeAdmitted {
        /// Its id.
        id: NodeId,
    },
    /// The deployment is wanted at this revision.
    Deployed {
        /// The revision.
        revision: Revision,
        /// Whether anything is different from before.
        change: SpecChange,
    },
    /// It was refused; nothing changed.
    Rejected(Rejection),
}

/// Whether an apply asked for anything new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SpecChange {
    /// There was no such deployment.
    Created,
    /// Something is different.
    Updated,
    /// All is as it was; the revision stays.
    Unchanged,
}

impl NewNode {
    /// The member that this becomes.
    pub(crate) fn into_member(self, id: NodeId, entry: &Entry) -> Node {
        Node {
            id,
            hostname: self.hostname,
            address: self.address,
            key_fingerprint: self.key_fingerprint,
            status: NodeStatus::Joining,
            status_reason: String::new(),
            availability: Availability::Active,
            availability_reason: String::new(),
            drain: None,
            facts: self.facts,
            labels: BTreeMap::new(),
            joined_at: entry.at,
            modified: entry.index,
        }
    }
}
