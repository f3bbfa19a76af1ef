//! Asks a JACO daemon: over its unix socket, or over TLS with the cluster's CA pinned.
//!
//! A [`Client`] knows one or several nodes of a cluster and asks whichever answers. Every call has a
//! deadline; refusals arrive typed; a change of leader is waited out. Callers never see gRPC.

mod client;
mod connect;
pub mod error;
mod events;
mod exec;
mod request_id;
mod retry;
mod routing;
#[cfg(feature = "scripted")]
pub mod scripted;
mod stream;
mod target;

pub use client::Client;
pub use error::{ClientError, ConnectError};
pub use events::Events;
pub use exec::{Exec, ExecInputs, Taken};
pub use request_id::fresh_request_id;
pub use retry::{Backoff, Patience};
pub use routing::Routes;
pub use stream::Answers;
pub use target::{DEFAULT_SOCKET, Target, TargetError};
