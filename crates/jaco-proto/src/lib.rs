//! The messages on the wire and on disk.
//!
//! [`v1`] is the public and the peer interface, [`rpc`] lists its rpcs; [`storage`] is the format of log
//! entries, outcomes and snapshots. Domain types are converted here and nowhere else: they cannot be serialised.

/// The generated interface, `jaco.v1`.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::clone_on_ref_ptr,
    clippy::use_self,
    clippy::allow_attributes_without_reason,
    clippy::wildcard_enum_match_arm,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    reason = "generated from proto/jaco/v1"
)]
pub mod v1 {
    tonic::include_proto!("jaco.v1");
}

mod redacted;
pub mod rpc;
pub mod storage;
