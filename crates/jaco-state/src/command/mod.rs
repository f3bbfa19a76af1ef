//! What can be written to the log, and the outcome of it.
//!
//! The payload of each command is a struct of the command's name, made by `new` from what the command
//! needs; what is optional has a setter. So a new option touches only the code that uses it.

mod audit;
mod backup;
mod change;
mod cluster;
mod content;
mod deployment;
mod edge;
mod image;
mod job;
mod kek;
mod network;
mod notify;
mod outcome;
mod planner;
mod policy;
mod rotation;

use jaco_types::{Identity, Origin, RequestId, StateIndex, Timestamp};

pub use audit::{AuditNote, AuditRetention, Jumps};
pub use backup::{
    AttemptEnd, BackupBegin, BackupReport, BackupScheduleRemove, BackupScheduleStore,
};
pub use change::{Change, NewInstance, Previous, ReplaceCause};
pub use cluster::{
    ClusterInit, ConstraintsSet, DataMove, DisabledSet, Disabling, JoinTokenIssue, JoinTokenRevoke,
    NewNode, NodeAdmit, NodeDrain, NodeRemove, NodeReport, NodeSetAvailability, NodeSetLabels,
    OperatorTokenIssue, OperatorTokenRevoke, OperatorTokenRotate, TokensUsed,
};
pub use content::{ContentPut, NamedContentPut, NamedContentRemove, RegistryRemove, RegistryStore};
pub use deployment::{DeploymentApply, DeploymentDelete, DeploymentRollback, RevisionPin, Running};
pub use edge::{AcmeNote, CertificateIssue, CertificateRemove, CertificateStore, EdgeBegin};
pub use image::{COPIES, ImagePush, ImageRemove, ImageTagSet, ImagesHeld, InUse, KEEP_UNUSED};
pub use job::{EarlierDues, JobDue, JobRewind, JobStart};
pub use kek::{KekAbandon, KekAdvance, KekReport, KekReseal, KekRotate, Resealed};
pub use network::{NetworkBegin, NetworkCreate, NetworkRemove, NetworkResize};
pub use notify::{
    Beginning, Existing, GivenUp, NotifyPause, NotifyProgress, NotifyRemove, NotifyStore,
    PauseChange, Retried, RetryEnd, TargetProgress, UndeliveredChange, UndeliveredSettle,
};
pub use outcome::{Outcome, SpecChange};
pub use planner::{
    Batch, ConsumerAttach, ConsumerDetach, Observe, Rebalance, RebalanceMove, RebalanceRevert,
    RevertedMove,
};
pub use policy::{PolicyAllow, PolicyRevoke, PolicySet};
pub use rotation::{
    AuthorityAbandon, AuthorityContinue, AuthorityReport, AuthorityRotate, AuthoritySettle,
    OpenJoinTokens,
};

/// One entry of the log. All that `apply` may know of the outside comes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its place in the log.
    pub index: StateIndex,
    /// When its leader proposed it, by that leader's clock.
    pub at: Timestamp,
    /// The author.
    pub by: Identity,
    /// Where the request came from; absent in entries of older versions.
    pub origin: Option<Origin>,
    /// The author's id for the request; a second entry of the same id does nothing.
    pub request: Option<RequestId>,
    /// What to do.
    pub command: Command,
}

macro_rules! commands {
    ($($payload:ident,)*) => {
        /// What an entry does. Each payload documents its command.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Command {
            $(
                #[doc = concat!("See [`", stringify!($payload), "`].")]
                $payload($payload),
            )*
            /// Starts the hash chain of audit events, over all that are kept. The leader writes it
            /// once, when all members understand it.
            AuditBegin,
        }

        impl Command {
            /// The name of the command, for people.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$payload(_) => stringify!($payload),)*
                    Self::AuditBegin => "AuditBegin",
                }
            }
        }

        $(
            impl From<$payload> for Command {
                fn from(payload: $payload) -> Self {
                    Self::$payload(payload)
                }
            }
        )*
    };
}

commands! {
    ClusterInit,
    NodeAdmit,
    NodeReport,
    NodeSetAvailability,
    NodeDrain,
    NodeSetLabels,
    NodeRemove,
    ConstraintsSet,
    DisabledSet,
    DataMove,
    DeploymentApply,
    DeploymentRollback,
    RevisionPin,
    DeploymentDelete,
    ContentPut,
    NamedContentPut,
    NamedContentRemove,
    RegistryStore,
    RegistryRemove,
    Batch,
    Rebalance,
    RebalanceRevert,
    Observe,
    OperatorTokenIssue,
    OperatorTokenRevoke,
    OperatorTokenRotate,
    TokensUsed,
    JoinTokenIssue,
    JoinTokenRevoke,
    ConsumerAttach,
    ConsumerDetach,
    AuditRetention,
    AuditNote,
    NetworkBegin,
    NetworkCreate,
    NetworkRemove,
    NetworkResize,
    EdgeBegin,
    CertificateStore,
    CertificateRemove,
    AcmeNote,
    PolicySet,
    PolicyAllow,
    PolicyRevoke,
    AuthorityRotate,
    AuthorityReport,
    AuthorityContinue,
    AuthoritySettle,
    AuthorityAbandon,
    KekRotate,
    KekReport,
    KekAdvance,
    KekReseal,
    KekAbandon,
    JobDue,
    JobRewind,
    JobStart,
    ImagePush,
    ImageTagSet,
    ImageRemove,
    ImagesHeld,
    NotifyStore,
    NotifyRemove,
    NotifyPause,
    NotifyProgress,
    UndeliveredSettle,
    BackupScheduleStore,
    BackupScheduleRemove,
    BackupBegin,
    BackupReport,
}
