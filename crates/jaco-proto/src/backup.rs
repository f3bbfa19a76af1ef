//! What is shown of the parts of a backup that hold contents: how much, never what.

use std::fmt;

use crate::v1::{BackupDeployment, BackupNamed, BackupPiece, BackupSecret};

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
    use crate::v1::BackupPart;
    use crate::v1::backup_part::Kind;

    use super::*;

    /// R-IN-5, R-CLI-6: a part that ends in a log or a panic says nothing of what it holds.
    #[test]
    fn contents_are_never_printed() {
        let secret = || bytes::Bytes::from_static(b"hunter2");
        let parts = [
            Kind::Secret(BackupSecret { id: secret(), content: secret() }),
            Kind::Piece(BackupPiece { content: secret() }),
            Kind::Named(BackupNamed { content: secret(), ..BackupNamed::default() }),
            Kind::Deployment(BackupDeployment {
                compose_json: "hunter2".to_owned(),
                ..BackupDeployment::default()
            }),
        ];
        for kind in parts {
            let shown = format!("{:?}", BackupPart { kind: Some(kind) });
            let bytes = format!("{:?}", secret());
            assert!(!shown.contains("hunter2") && !shown.contains(&bytes), "{shown}");
        }
    }
}
