//! What a log entry does.

mod audit;
mod backup;
mod cluster;
mod content;
mod deployment;
mod edge;
mod image;
mod job;
mod kek;
mod network;
mod notify;
mod planner;
mod policy;
mod rotation;

use jaco_state::Command;

use super::convert::Wire;
use super::error::Problem;
use super::wire::{self, command::Kind};

macro_rules! commands {
    ($($payload:ident,)*) => {
        impl Wire for Command {
            type Message = wire::Command;

            fn to_wire(&self) -> wire::Command {
                let kind = match self {
                    $(Self::$payload(payload) => Kind::$payload(payload.to_wire()),)*
                    Self::AuditBegin => Kind::AuditBegin(wire::AuditBegin {}),
                };
                wire::Command { kind: Some(kind) }
            }

            fn from_wire(message: wire::Command) -> Result<Self, Problem> {
                Ok(match message.kind.ok_or(Problem::Missing("kind of command"))? {
                    $(Kind::$payload(payload) => Self::$payload(Wire::from_wire(payload)?),)*
                    Kind::AuditBegin(wire::AuditBegin {}) => Self::AuditBegin,
                })
            }
        }
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
    Observe,
    OperatorTokenIssue,
    OperatorTokenRevoke,
    OperatorTokenRotate,
    TokensUsed,
    JoinTokenIssue,
    JoinTokenRevoke,
    ConsumerAttach,
    ConsumerDetach,
    Rebalance,
    RebalanceRevert,
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
