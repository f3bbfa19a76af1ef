//! The client of a JACO cluster, as a library for programs. It decides nothing about the cluster.
//!
#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod call;
mod client;
mod connect;
pub mod contexts;
mod copy;
pub mod error;
mod events;
mod exec;
mod files;
mod forward;
mod log_lines;
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

/// What the methods of [`Client`] take and return.
pub use jaco_proto::v1;
/// What a [`Target`] shows and believes, and what refusals have.
pub use {
    jaco_pki::{OperatorToken, TrustBundle},
    jaco_types::{ErrorCode, Rejection},
};

pub use client::{Client, Staleness};
pub use copy::{Copy, CopyInputs};
pub use error::{ClientError, ConnectError};
pub use events::Events;
pub use exec::{Exec, ExecInputs, Taken};
pub use files::FileError;
pub use forward::{Forward, ForwardInputs};
pub use log_lines::LogLines;
pub use request_id::{fresh_request_id, fresh_secret};
pub use retry::{Backoff, Patience};
pub use routing::Routes;
pub use status::Statuses;
pub use stream::Answers;
pub use target::{Credential, DEFAULT_SOCKET, Target, TargetError};
pub use upload::{Upload, UploadInputs};
pub use volume::{VolumeInputs, VolumeProgress, VolumeWrite};
