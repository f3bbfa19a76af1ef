//! The envelopes that a command brings. Each command is named here, so that the compiler asks about a new one.

use crate::acme::AcmeAccount;
use crate::command::{
    AcmeNote, BackupScheduleStore, CertificateIssue, CertificateStore, Command, KekRotate,
    NotifyStore, RegistryStore,
};
use crate::contents::{Form, Piece};

/// The envelopes that a command brings into the state, but for those that replace others there.
pub(super) fn brought(command: &Command) -> Vec<&[u8]> {
    let of_pieces = |pieces| -> Vec<&[u8]> { sealed_pieces(pieces).collect() };
    match command {
        Command::ContentPut(command) => of_pieces(&command.pieces),
        Command::NamedContentPut(command) => of_pieces(&command.pieces),
        Command::RegistryStore(RegistryStore { registry: _, username: _, password }) => {
            vec![&password.0]
        }
        Command::CertificateStore(CertificateStore { key, .. }) => vec![&key.0],
        Command::BackupScheduleStore(BackupScheduleStore { credentials, .. }) => {
            credentials.iter().map(|credentials| &*credentials.0).collect()
        }
        Command::NotifyStore(NotifyStore { endpoint, .. }) => vec![&endpoint.0],
        Command::AcmeNote(AcmeNote::Account(AcmeAccount { key, .. })) => vec![&key.0],
        Command::AcmeNote(AcmeNote::Issued(CertificateIssue { key, .. })) => vec![&key.0],
        Command::AcmeNote(
            AcmeNote::Challenge { .. } | AcmeNote::Failed { .. } | AcmeNote::Window { .. },
        ) => Vec::new(),
        Command::AuthorityRotate(command) => vec![&command.new.sealed_key],
        Command::KekRotate(KekRotate { naming_key, .. }) => {
            naming_key.iter().map(|key| &*key.0).collect()
        }
        Command::ClusterInit(_)
        | Command::NodeAdmit(_)
        | Command::NodeReport(_)
        | Command::NodeSetAvailability(_)
        | Command::NodeDrain(_)
        | Command::NodeSetLabels(_)
        | Command::NodeRemove(_)
        | Command::ConstraintsSet(_)
        | Command::DisabledSet(_)
        | Command::DataMove(_)
        | Command::DeploymentApply(_)
        | Command::DeploymentRollback(_)
        | Command::RevisionPin(_)
        | Command::DeploymentDelete(_)
        | Command::NamedContentRemove(_)
        | Command::RegistryRemove(_)
        | Command::Batch(_)
        | Command::Rebalance(_)
        | Command::RebalanceRevert(_)
        | Command::Observe(_)
        | Command::OperatorTokenIssue(_)
        | Command::OperatorTokenRevoke(_)
        | Command::OperatorTokenRotate(_)
        | Command::TokensUsed(_)
        | Command::JoinTokenIssue(_)
        | Command::JoinTokenRevoke(_)
        | Command::ConsumerAttach(_)
        | Command::ConsumerDetach(_)
        | Command::AuditBegin
        | Command::AuditRetention(_)
        | Command::AuditNote(_)
        | Command::NetworkBegin(_)
        | Command::NetworkCreate(_)
        | Command::NetworkRemove(_)
        | Command::NetworkResize(_)
        | Command::EdgeBegin(_)
        | Command::CertificateRemove(_)
        | Command::PolicySet(_)
        | Command::PolicyAllow(_)
        | Command::PolicyRevoke(_)
        | Command::AuthorityReport(_)
        | Command::AuthorityContinue(_)
        | Command::AuthoritySettle(_)
        | Command::AuthorityAbandon(_)
        | Command::KekReport(_)
        | Command::KekAdvance(_)
        | Command::KekReseal(_)
        | Command::KekAbandon(_)
        | Command::JobDue(_)
        | Command::JobRewind(_)
        | Command::JobStart(_)
        | Command::ImagePush(_)
        | Command::ImageTagSet(_)
        | Command::ImageRemove(_)
        | Command::ImagesHeld(_)
        | Command::BackupScheduleRemove(_)
        | Command::BackupBegin(_)
        | Command::BackupReport(_)
        | Command::NotifyRemove(_)
        | Command::NotifyPause(_)
        | Command::NotifyProgress(_)
        | Command::UndeliveredSettle(_) => Vec::new(),
    }
}

fn sealed_pieces(pieces: &[Piece]) -> impl Iterator<Item = &[u8]> {
    pieces.iter().filter_map(|piece| match piece.form {
        Form::Sealed => Some(&*piece.bytes.0),
        Form::Plain => None,
    })
}
