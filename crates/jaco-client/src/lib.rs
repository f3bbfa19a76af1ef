//! The client of a JACO cluster: over the unix socket of a daemon, or over TLS with the cluster's CA pinned.
//!
//! A [`Client`] has the endpoints of one or several nodes and uses the first that answers. Every call has
//! a deadline; refusals are typed; calls are retried across a change of leader. Callers never see gRPC.

mod call;
mod client;
mod connect;
mod copy;
pub mod error;
mod events;
mod exec;
mod forward;
mod members;
mod methods;
mod request_id;
mod retry;
mod routing;
#[cfg(feature = "scripted")]
pub mod scripted;
mod status;
mod stream;
mod target;
mod upload;
mod volume;

pub use client::{Client, Staleness};
pub use copy::{Copy, CopyInputs};
pub use error::{ClientError, ConnectError};
pub use events::Events;
pub use exec::{Exec, ExecInputs, Taken};
pub use forward::{Forward, ForwardInputs};
pub use request_id::fresh_request_id;
pub use retry::{Backoff, Patience};
pub use routing::Routes;
pub use status::Statuses;
pub use stream::Answers;
pub use target::{Credential, DEFAULT_SOCKET, Target, TargetError};
pub use upload::{Upload, UploadInputs};
pub use volume::{VolumeInputs, VolumeProgress, VolumeWrite};
