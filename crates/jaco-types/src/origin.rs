//! Where a request came from. The audit log shows it beside the author.

use std::fmt;
use std::net::SocketAddr;

use crate::id::NodeId;
use crate::identity::Identity;

/// The author of a change, and where the request came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    /// The author.
    pub by: Identity,
    /// The origin; absent if a member of an older version forwarded the request.
    pub origin: Option<Origin>,
}

/// Where a request came from, as the member saw it that took the request. A member that forwards
/// a request to the leader forwards this with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The unix socket of a member's machine.
    Socket {
        /// The numeric user id that the kernel reported for the connection.
        uid: u32,
        /// The member.
        node: NodeId,
    },
    /// The network.
    Address {
        /// The other end of the connection.
        address: SocketAddr,
        /// The member that it is connected to.
        node: NodeId,
    },
    /// A member itself: its planner or its agent.
    Member {
        /// The member.
        node: NodeId,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { uid, node } => write!(f, "unix:{uid}@node:{node}"),
            Self::Address { address, node } => write!(f, "{address}@node:{node}"),
            Self::Member { node } => write!(f, "node:{node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text is hashed into the audit chain: it stays as it is.
    #[test]
    fn origins_are_written_as_they_were() {
        let node = NodeId(7);
        let address = "[2001:db8::1]:41234".parse().unwrap();
        let written = [
            Origin::Socket { uid: 1000, node },
            Origin::Address { address, node },
            Origin::Member { node },
        ]
        .map(|origin| origin.to_string());
        assert_eq!(written, ["unix:1000@node:7", "[2001:db8::1]:41234@node:7", "node:7"]);
    }
}
