//! The names a certificate carries: cluster, node, and both in the forms X.509 wants them.
//!
//! Parsing is strict: there is exactly one spelling of each name, so two names are equal when
//! their texts are.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::ServerName;

/// The longest cluster id. A DNS label may have 63 characters and a common name 64; this leaves room
/// for the words around it in the CA's common name.
pub const CLUSTER_ID_CHARS_MAX: usize = 48;

const SCHEME: &str = "cluster://";
const DOMAIN: &str = "internal";

/// The name of a cluster: a DNS label of lower-case letters, digits and inner hyphens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(String);

/// The number of a node: the log index that admitted it. Never reused, so a removed node's
/// certificate can never come to name somebody else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// Which node of which cluster. This is all that a node certificate says.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName {
    pub cluster: ClusterId,
    pub node: NodeId,
}

/// Why a text is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a cluster id has 1 to {CLUSTER_ID_CHARS_MAX} characters")]
    Length,
    #[error("a cluster id is lower-case letters, digits and inner hyphens")]
    Character,
    #[error("a node id is a decimal number without leading zeros")]
    NodeId,
    #[error("a node name has the form cluster://<cluster>/node/<id>")]
    Form,
}

impl ClusterId {
    /// Checks the spelling.
    pub fn new(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > CLUSTER_ID_CHARS_MAX {
            return Err(NameError::Length);
        }
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let inside = text.bytes().all(|byte| letters(byte) || byte == b'-');
        if !inside || text.starts_with('-') || text.ends_with('-') {
            return Err(NameError::Character);
        }
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
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

    /// Reads the form of [`NodeName::uri`].
    pub fn parse_uri(text: &str) -> Result<Self, NameError> {
        let rest = text.strip_prefix(SCHEME).ok_or(NameError::Form)?;
        let (cluster, rest) = rest.split_once('/').ok_or(NameError::Form)?;
        let node = rest.strip_prefix("node/").ok_or(NameError::Form)?;
        Ok(Self { cluster: ClusterId::new(cluster)?, node: node.parse()? })
    }

    pub(crate) fn server_name(&self) -> ServerName<'static> {
        ServerName::try_from(self.dns())
            .expect("a number, a checked label and a constant make a name")
    }
}

impl FromStr for ClusterId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl FromStr for NodeId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let number: u64 = text.parse().map_err(|_| NameError::NodeId)?;
        // `parse` also takes "007" and "+7"; one node must not have two names.
        (number.to_string() == text).then_some(Self(number)).ok_or(NameError::NodeId)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterId({})", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({})", self.0)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri())
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeName({self})")
    }
}
