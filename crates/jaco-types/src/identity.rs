//! The author of a change. Every log entry carries one, and the audit log shows it.

use std::fmt;

use crate::id::{NodeId, TokenId};

/// The author of a log entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// A user of the machine itself, trusted by the permissions of the unix socket.
    Local {
        /// The numeric user id that the kernel reported for the connection.
        uid: u32,
    },
    /// The holder of an operator token.
    Operator {
        /// The token's public id.
        token: TokenId,
    },
    /// A member of the cluster, by its certificate.
    Node {
        /// The member.
        id: NodeId,
    },
    /// The planner on the leader.
    Scheduler,
    /// A client that is not authenticated, for example with a wrong token.
    Anonymous,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { uid } => write!(f, "local:{uid}"),
            Self::Operator { token } => write!(f, "operator:{token}"),
            Self::Node { id } => write!(f, "node:{id}"),
            Self::Scheduler => f.write_str("scheduler"),
            Self::Anonymous => f.write_str("anonymous"),
        }
    }
}
