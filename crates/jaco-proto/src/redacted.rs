//! What is shown of messages that hold secrets, or whatever people wrote: never that itself.

use std::fmt;

use crate::v1::{
    BackupDeployment, BackupNamed, BackupNotifyTarget, BackupPiece, BackupRegistry, BackupSecret,
    ExecStart, ReadContentResponse, StoreBackupScheduleRequest, StoreCertificateRequest,
    StoreContentRequest, StoreNotifyTargetRequest, StoreRegistryRequest,
};

impl fmt::Debug for StoreRegistryRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("StoreRegistryRequest");
        out.field("registry", &self.registry).field("username", &self.username);
        out.field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for StoreCertificateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("StoreCertificateRequest");
        out.field("name", &self.name).field("chain_bytes", &self.chain.len());
        out.field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for StoreBackupScheduleRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("StoreBackupScheduleRequest");
        out.field("name", &self.name).field("target", &self.target);
        out.field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for StoreNotifyTargetRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("StoreNotifyTargetRequest");
        out.field("name", &self.name).field("form", &self.form).field("filter", &self.filter);
        out.field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for StoreContentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("StoreContentRequest");
        out.field("kind", &self.kind).field("name", &self.name);
        out.field("content_bytes", &self.content.len());
        out.field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReadContentResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (version, bytes) = (self.version, self.content.len());
        write!(f, "ReadContentResponse(version {version}, {bytes} bytes)")
    }
}

/// Arguments and variables may be secret.
impl fmt::Debug for ExecStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ExecStart");
        out.field("replica", &self.replica).field("program", &self.command.first());
        out.finish_non_exhaustive()
    }
}

impl fmt::Debug for BackupRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupRegistry({} at {})", self.username, self.registry)
    }
}

impl fmt::Debug for BackupNotifyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupNotifyTarget({} of the form {})", self.name, self.form)
    }
}

impl fmt::Debug for BackupNamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupNamed({} {:?}, {} bytes)", self.kind, self.name, self.content.len())
    }
}

impl fmt::Debug for BackupPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupPiece({} bytes)", self.content.len())
    }
}

impl fmt::Debug for BackupSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackupSecret({} bytes)", self.content.len())
    }
}

impl fmt::Debug for BackupDeployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.compose_json.len() + self.overlay_yaml.len() + self.environment_toml.len();
        write!(f, "BackupDeployment({:?} revision {}, {bytes} bytes)", self.name, self.revision)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use crate::v1::backup_part::Kind;
    use crate::v1::{BackupPart, ExecInput, exec_input};

    use super::*;

    /// R-IN-5, R-CLI-6: a message that ends in a log or a panic says nothing of what it holds.
    #[test]
    fn secrets_are_never_printed() {
        let bytes = || Bytes::from_static(b"hunter2");
        let text = || "hunter2".to_owned();
        let parts = [
            Kind::Secret(BackupSecret { id: bytes(), content: bytes() }),
            Kind::Piece(BackupPiece { content: bytes() }),
            Kind::Named(BackupNamed { content: bytes(), ..BackupNamed::default() }),
            Kind::Registry(BackupRegistry { password: text(), ..BackupRegistry::default() }),
            Kind::NotifyTarget(BackupNotifyTarget {
                url: text(),
                secret: text(),
                ..BackupNotifyTarget::default()
            }),
            Kind::Deployment(BackupDeployment {
                compose_json: text(),
                ..BackupDeployment::default()
            }),
        ];
        let mut shown = parts.map(|kind| format!("{:?}", BackupPart { kind: Some(kind) })).to_vec();
        let request = StoreRegistryRequest { password: text(), ..StoreRegistryRequest::default() };
        shown.push(format!("{request:?} {request:#?}"));
        let key = StoreCertificateRequest { key: bytes(), ..StoreCertificateRequest::default() };
        shown.push(format!("{key:?} {key:#?}"));
        let (url, secret) = (text(), text());
        let target =
            StoreNotifyTargetRequest { url, secret, ..StoreNotifyTargetRequest::default() };
        shown.push(format!("{target:?} {target:#?}"));
        let schedule = StoreBackupScheduleRequest {
            secret_access_key: text(),
            ..StoreBackupScheduleRequest::default()
        };
        shown.push(format!("{schedule:?} {schedule:#?}"));
        let set = StoreContentRequest { content: bytes(), ..StoreContentRequest::default() };
        shown.push(format!("{set:?} {set:#?}"));
        let read = ReadContentResponse { content: bytes(), version: 1 };
        shown.push(format!("{read:?} {read:#?}"));
        let start = ExecStart {
            command: vec!["login".to_owned(), text()],
            environment: vec![text()],
            ..ExecStart::default()
        };
        let input = ExecInput { input: Some(exec_input::Input::Start(start)) };
        shown.push(format!("{input:?} {input:#?}"));
        for shown in shown {
            let spelt = format!("{:?}", bytes());
            assert!(!shown.contains("hunter2") && !shown.contains(&spelt), "{shown}");
        }
    }
}
