//! Consensus for JACO: a replicated log and the state machine it drives.
//!
//! The crate moves bytes. It knows nothing of JACO's commands, of gRPC or of TLS: commands come in
//! as bytes through [`Raft::propose`], reach the [`StateMachine`] in the same order on every node,
//! and messages between nodes go through a [`Transport`]. No type of openraft or sled is part of
//! the API, and none of their serialised forms is part of a file or a message.
//!
//! See `README.md` for what it promises and how that is tested.

mod addresses;
mod codec;
mod commit_notice;
mod disk;
mod engine;
mod error;
#[cfg(test)]
mod frozen;
mod identity;
mod kept;
mod log_store;
mod machine;
mod membership;
mod network;
mod node;
mod pipe;
mod progress;
mod reconciler;
mod reconnect;
mod renewal;
mod reversion;
mod server;
mod snapshot;
mod status;
#[cfg(test)]
mod suite;
mod takeover;
#[cfg(feature = "testing")]
pub mod testing;
mod ticker;
mod timing;
mod types;
mod wire;

pub use error::{
    HandleError, Member, MembershipError, OpenError, ProposeError, ReadError, TransportError,
};
pub use machine::StateMachine;
pub use membership::{
    JOINT_TIMEOUT, MembershipDecision, MembershipStep, MembershipView, MembershipWait,
    next_membership_step,
};
pub use network::Transport;
pub use node::{
    Applied, Damage, Examined, Offline, Options, PastBase, PastEntry, Position, PositionError,
    Raft, Severity, examine,
};
pub use pipe::{FRAME_BYTES_MAX, Pipe, framed};
pub use progress::Progress;
pub use reconciler::Reconciler;
pub use renewal::StreamRenewal;
pub use snapshot::SnapshotSource;
pub use status::{Contact, Quorum, Role, Status};
pub use timing::{ProposalLimits, SnapshotLimits, Timing};
pub use wire::{RpcKind, claimed_sender};
