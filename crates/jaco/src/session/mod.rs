//! What a running command works with: its output and the connection to the cluster.

mod overtaken;
pub(crate) mod replica;
mod session_state;
pub(crate) mod wait;

pub(crate) use overtaken::unless_overtaken;
pub(crate) use session_state::{CommandResult, OwnCertificate, Session};
