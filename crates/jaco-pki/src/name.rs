//! The name a node certificate carries, in the forms X.509 wants it.
//!
//! Parsing is strict: there is exactly one spelling of each name, so two names are equal when
//! their texts are.

use std::fmt;

use rustls::pki_types::ServerName;

use jaco_types::{ClusterId, InvalidName, NodeId};

pub(crate) const SCHEME: &str = "cluster://";
const DOMAIN: &str = "internal";

/// Which node of which cluster. This is all that a node certificate says. Node ids are never reused,
/// so a removed node's certificate can never name another node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    pub cluster: ClusterId,
    pub node: NodeId,
}

/// Why a text is not an operator's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperatorNameError {
    #[error("an operator name has the form cluster://<cluster>/operator/<id>")]
    Form,
    #[error("operator name has no cluster")]
    Cluster(#[source] InvalidName),
    #[error("operator name has no id")]
    Id(#[source] InvalidName),
}

/// Why a text is not a node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a node name has the form cluster://<cluster>/node/<id>")]
    Form,
    #[error("node name has no cluster")]
    Cluster(#[source] InvalidName),
    #[error("a node id is a decimal number without leading zeros")]
    NodeId,
}

impl NodeName {
    #[must_use]
    pub fn new(cluster: ClusterId, node: NodeId) -> Self {
        Self { cluster, node }
    }

    /// `cluster://<cluster>/node/<id>`, the form that carries identity.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("{SCHEME}{}/node/{}", self.cluster, self.node)
    }

    /// `<id>.<cluster>.internal`, the form that a dialer demands. It is never resolved.
    #[must_use]
    pub fn dns(&self) -> String {
        format!("{}.{}.{DOMAIN}", self.node, self.cluster)
    }

    /// `<cluster>.internal`, which names all nodes of the cluster: for clients that take any of them. A dialer of one node
    /// never asks for it, and nobody's identity is read from it.
    #[must_use]
    pub fn any_node_dns(&self) -> String {
        format!("{}.{DOMAIN}", self.cluster)
    }

    /// Reads the form of [`NodeName::uri`].
    pub fn parse_uri(text: &str) -> Result<Self, NameError> {
        let rest = text.strip_prefix(SCHEME).ok_or(NameError::Form)?;
        let (cluster, rest) = rest.split_once('/').ok_or(NameError::Form)?;
        let node = rest.strip_prefix("node/").ok_or(NameError::Form)?;
        let cluster = ClusterId::new(cluster).map_err(NameError::Cluster)?;
        Ok(Self { cluster, node: parse_node(node)? })
    }

    pub(crate) fn server_name(&self) -> ServerName<'static> {
        let name = ServerName::try_from(self.dns());
        name.expect("a number, 32 hex digits and a constant are the labels of a name")
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri())
    }
}

fn parse_node(text: &str) -> Result<NodeId, NameError> {
    let number: u64 = text.parse().map_err(|_| NameError::NodeId)?;
    // `parse` also takes "007" and "+7"; one node must not have two names.
    (number.to_string() == text).then_some(NodeId(number)).ok_or(NameError::NodeId)
}
