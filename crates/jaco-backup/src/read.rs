//! Reads a backup file: verifies all of it once, and then reads single parts by their offset. Memory is
//! bounded by the index of the parts, whatever the file contains.

use std::collections::BTreeMap;
use std::fs::File;

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{
    AllocationRef, BackupDeployment, BackupGrants, BackupHeader, BackupNamed, BackupNetwork,
    BackupNode, BackupNotifyTarget, BackupPair, BackupPart, BackupRegistry,
};
use jaco_types::ContentId;
use prost::Message;
use prost::bytes::Bytes;

use super::damage::Damage;
use super::index::{Contents, Index, NamedPart};
use super::parts::{Position, Reader};
use super::source::Source;
use super::unlock::Unlock;

/// A verified backup. Contents stay in the file until they are read.
#[derive(Debug)]
pub struct Backup {
    source: Source,
    pub header: BackupHeader,
    pub retention_ms: Option<u64>,
    pub constraints: Vec<BackupPair>,
    pub nodes: Vec<BackupNode>,
    /// Those that operators made.
    pub networks: Vec<BackupNetwork>,
    /// What happens without a grant, if that was ever set.
    pub policy: Option<String>,
    pub grants: Vec<BackupGrants>,
    pub named: Vec<NamedPart>,
    pub disabled: Vec<AllocationRef>,
    registries: Vec<Position>,
    notify_targets: Vec<Position>,
    deployments: BTreeMap<String, Position>,
    pieces: Contents,
    secrets: Contents,
}

impl Backup {
    /// Reads and verifies a whole file that is not encrypted.
    ///
    /// # Errors
    /// How it is damaged, or that it is encrypted.
    pub fn open(file: File) -> Result<Self, Damage> {
        Self::unlock(file, Unlock::Nothing)
    }

    /// Reads and verifies a whole file, encrypted or not.
    ///
    /// # Errors
    /// How it is damaged, or that it cannot be opened.
    pub fn unlock(file: File, unlock: Unlock<'_>) -> Result<Self, Damage> {
        let source = Source::new(file, unlock)?;
        let mut index = Index::default();
        // An unknown part comes from a newer version only if the checksum is right.
        let mut first_fault = None;
        let mut reader = Reader::new(source.read()?)?;
        while let Some((at, bytes)) = reader.next()? {
            if first_fault.is_none() {
                first_fault = index.add(at, &bytes).err();
            }
        }
        drop(reader);
        match first_fault {
            Some(fault) => Err(fault),
            None => Self::new(source, index),
        }
    }

    fn new(source: Source, mut index: Index) -> Result<Self, Damage> {
        Ok(Self {
            source,
            header: index.check()?,
            retention_ms: index.retention_ms,
            constraints: index.constraints,
            nodes: index.nodes,
            networks: index.networks,
            policy: index.policy,
            grants: index.grants,
            named: index.named,
            disabled: index.disabled,
            registries: index.registries,
            notify_targets: index.notify_targets,
            deployments: index.deployments,
            pieces: index.pieces,
            secrets: index.secrets,
        })
    }

    /// The names of all deployments.
    pub fn deployments(&self) -> impl Iterator<Item = &str> {
        self.deployments.keys().map(String::as_str)
    }

    /// The deployment with this name, if there is one.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn deployment(&self, name: &str) -> Result<Option<BackupDeployment>, Damage> {
        let Some(at) = self.deployments.get(name) else { return Ok(None) };
        let Kind::Deployment(deployment) = self.part(*at)? else { return Err(Damage::Altered) };
        Ok(Some(deployment))
    }

    /// A stored config or secret with its content.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn named(&self, named: &NamedPart) -> Result<BackupNamed, Damage> {
        let Kind::Named(named) = self.part(named.position)? else { return Err(Damage::Altered) };
        Ok(named)
    }

    /// The credentials of each registry.
    pub fn registries(&self) -> impl Iterator<Item = Result<BackupRegistry, Damage>> {
        self.registries.iter().map(|at| {
            let Kind::Registry(registry) = self.part(*at)? else { return Err(Damage::Altered) };
            Ok(registry)
        })
    }

    /// Each target of notifications, with its address.
    pub fn notify_targets(&self) -> impl Iterator<Item = Result<BackupNotifyTarget, Damage>> {
        self.notify_targets.iter().map(|at| {
            let Kind::NotifyTarget(target) = self.part(*at)? else { return Err(Damage::Altered) };
            Ok(target)
        })
    }

    /// Checks that a piece of a file that is no secret is in the backup.
    ///
    /// # Errors
    /// If it is not.
    pub fn check_piece(&self, id: ContentId) -> Result<(), Damage> {
        found(&self.pieces, id).map(|_| ())
    }

    /// Checks that a piece of a secret is in the backup.
    ///
    /// # Errors
    /// If it is not.
    pub fn check_secret(&self, id: ContentId) -> Result<(), Damage> {
        found(&self.secrets, id).map(|_| ())
    }

    /// A piece of a file that is no secret.
    ///
    /// # Errors
    /// If it is not in the backup, or the file can no longer be read.
    pub fn piece(&self, id: ContentId) -> Result<Bytes, Damage> {
        let part = self.part(found(&self.pieces, id)?)?;
        let Kind::Piece(piece) = part else { return Err(Damage::Altered) };
        Ok(piece.content)
    }

    /// A piece of a secret, by its id in the backup.
    ///
    /// # Errors
    /// If it is not in the backup, or the file can no longer be read.
    pub fn secret(&self, id: ContentId) -> Result<Bytes, Damage> {
        let part = self.part(found(&self.secrets, id)?)?;
        let Kind::Secret(secret) = part else { return Err(Damage::Altered) };
        Ok(secret.content)
    }

    fn part(&self, at: Position) -> Result<Kind, Damage> {
        let mut bytes = vec![0; at.length];
        self.source.read_exact_at(&mut bytes, at.offset)?;
        let part = BackupPart::decode(Bytes::from(bytes)).map_err(|_| Damage::Altered)?;
        part.kind.ok_or(Damage::Altered)
    }
}

fn found(index: &Contents, id: ContentId) -> Result<Position, Damage> {
    let missing = || Damage::Contradiction(format!("content {id} is referred to and missing"));
    index.get(id).ok_or_else(missing)
}
