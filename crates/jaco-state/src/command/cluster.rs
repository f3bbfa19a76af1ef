//! Commands about members, their tokens and the cluster's defaults.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::{
    AllocationScope, Availability, Hostname, Millis, Node, NodeFacts, NodeId, NodeStatus,
    ReplicaId, StateIndex, Timestamp, TokenId,
};

use super::Entry;
use crate::ClusterMeta;
use crate::token::{JoinToken, OperatorToken};

/// Creates the cluster with its first node and first operator token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterInit {
    /// The cluster's identity.
    pub meta: ClusterMeta,
    /// The first node; `apply` stamps its id and times.
    pub node: NewNode,
    /// The first operator token. Boxed, because every command is as large as the largest one, and this one is rare.
    pub token: Box<OperatorToken>,
}

impl ClusterInit {
    /// Creates the command.
    #[must_use]
    pub fn new(meta: ClusterMeta, node: NewNode, token: OperatorToken) -> Self {
        Self { meta, node, token: Box::new(token) }
    }
}

/// Makes a node a member. Its id is the index of this entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAdmit {
    /// The node.
    pub node: NewNode,
    /// The join token that it presented.
    pub token: TokenId,
}

impl NodeAdmit {
    /// Creates the command.
    #[must_use]
    pub fn new(node: NewNode, token: TokenId) -> Self {
        Self { node, token }
    }
}

/// A node reports its address and facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// Where its peers reach it.
    pub address: String,
    /// Its capacity, version and labels.
    pub facts: NodeFacts,
}

impl NodeReport {
    /// Creates the command.
    #[must_use]
    pub fn new(node: NodeId, address: String, facts: NodeFacts) -> Self {
        Self { node, address, facts }
    }
}

/// Sets whether a node accepts new replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSetAvailability {
    /// The node.
    pub node: NodeId,
    /// The new availability.
    pub availability: Availability,
}

impl NodeSetAvailability {
    /// Creates the command.
    #[must_use]
    pub fn new(node: NodeId, availability: Availability) -> Self {
        Self { node, availability }
    }
}

/// Drains a node: its replicas move to other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeDrain {
    /// The node.
    pub node: NodeId,
    /// The longest time without a replica leaving; after it the drain is cancelled and the node
    /// returns to its previous availability.
    pub timeout: Millis,
}

impl NodeDrain {
    /// Creates the command.
    #[must_use]
    pub fn new(node: NodeId, timeout: Millis) -> Self {
        Self { node, timeout }
    }
}

/// Changes the labels that operators gave a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSetLabels {
    /// The node.
    pub node: NodeId,
    /// Labels to set, with their values.
    pub set: BTreeMap<String, String>,
    /// Labels to remove.
    pub unset: BTreeSet<String>,
}

impl NodeSetLabels {
    /// Creates the command, with every option at its default.
    #[must_use]
    pub fn new(node: NodeId) -> Self {
        Self { node, set: BTreeMap::new(), unset: BTreeSet::new() }
    }

    /// Sets [`Self::set`].
    #[must_use]
    pub fn set(mut self, set: BTreeMap<String, String>) -> Self {
        self.set = set;
        self
    }

    /// Sets [`Self::unset`].
    #[must_use]
    pub fn unset(mut self, unset: BTreeSet<String>) -> Self {
        self.unset = unset;
        self
    }
}

/// Ends the membership of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRemove {
    /// The node.
    pub node: NodeId,
}

impl NodeRemove {
    /// Creates the command.
    #[must_use]
    pub fn new(node: NodeId) -> Self {
        Self { node }
    }
}

/// Sets default placement constraints, for every service without a value of its own for the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConstraintsSet {
    /// By key. An empty value deletes the key; keys that are not listed keep their value.
    pub pairs: BTreeMap<String, String>,
}

impl ConstraintsSet {
    /// Creates the command.
    #[must_use]
    pub fn new(pairs: BTreeMap<String, String>) -> Self {
        Self { pairs }
    }
}

/// Disables or enables allocations (R-SEL-4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisabledSet {
    /// What to do with the scopes.
    pub change: Disabling,
    /// The allocations.
    pub scopes: BTreeSet<AllocationScope>,
}

impl DisabledSet {
    /// Creates the command.
    #[must_use]
    pub fn new(change: Disabling, scopes: BTreeSet<AllocationScope>) -> Self {
        Self { change, scopes }
    }
}

/// Has disabled replicas start on another node from now on: what was in their volumes was copied there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataMove {
    /// The replicas, each with the index of the instance that it had when the copy began. One that ran meanwhile has another
    /// one, and stays.
    pub replicas: BTreeMap<ReplicaId, StateIndex>,
    /// The node that has the copy.
    pub to: NodeId,
}

impl DataMove {
    /// Creates the command.
    #[must_use]
    pub fn new(replicas: BTreeMap<ReplicaId, StateIndex>, to: NodeId) -> Self {
        Self { replicas, to }
    }
}

/// Issues an operator token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorTokenIssue {
    /// The token.
    pub token: OperatorToken,
}

impl OperatorTokenIssue {
    /// Creates the command.
    #[must_use]
    pub fn new(token: OperatorToken) -> Self {
        Self { token }
    }
}

/// Replaces the secret of an operator token. Its name and its rights stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorTokenRotate {
    /// The token.
    pub id: TokenId,
    /// The SHA-256 of the new secret.
    pub secret_hash: [u8; 32],
    /// Until when the present secret counts; `None` if it ends at once.
    pub former_until: Option<Timestamp>,
}

impl OperatorTokenRotate {
    /// Creates the command. The present secret ends at once.
    #[must_use]
    pub fn new(id: TokenId, secret_hash: [u8; 32]) -> Self {
        Self { id, secret_hash, former_until: None }
    }

    /// Lets the present secret count until this moment.
    #[must_use]
    pub fn former_until(mut self, until: Option<Timestamp>) -> Self {
        self.former_until = until;
        self
    }
}

/// Revokes an operator token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorTokenRevoke {
    /// The token.
    pub id: TokenId,
}

impl OperatorTokenRevoke {
    /// Creates the command.
    #[must_use]
    pub fn new(id: TokenId) -> Self {
        Self { id }
    }
}

/// Notes when operator tokens were last used, as a node saw it. Written at most once in an hour for each token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokensUsed {
    /// The last use of each token.
    pub uses: BTreeMap<TokenId, Timestamp>,
}

impl TokensUsed {
    /// Creates the command.
    #[must_use]
    pub fn new(uses: BTreeMap<TokenId, Timestamp>) -> Self {
        Self { uses }
    }
}

/// Issues a join token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTokenIssue {
    /// The token.
    pub token: JoinToken,
}

impl JoinTokenIssue {
    /// Creates the command.
    #[must_use]
    pub fn new(token: JoinToken) -> Self {
        Self { token }
    }
}

/// Revokes a join token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinTokenRevoke {
    /// The token.
    pub id: TokenId,
}

impl JoinTokenRevoke {
    /// Creates the command.
    #[must_use]
    pub fn new(id: TokenId) -> Self {
        Self { id }
    }
}

/// A node before it has an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNode {
    /// Its name in the cluster.
    pub hostname: Hostname,
    /// Where its peers reach it.
    pub address: String,
    /// SHA-256 of its public key.
    pub key_fingerprint: [u8; 32],
    /// Its capacity, version and labels.
    pub facts: NodeFacts,
}

impl NewNode {
    /// Returns the member, as the entry that admits it stores it.
    pub(crate) fn into_member(self, id: NodeId, entry: &Entry) -> Node {
        Node {
            id,
            hostname: self.hostname,
            address: self.address,
            mesh_address: None,
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
/// How [`DisabledSet`] combines its scopes with those that are disabled already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Disabling {
    /// Adds them.
    Disable,
    /// Removes them, and every scope that lies inside one of them.
    Enable,
    /// Makes them the only ones.
    Replace,
}
