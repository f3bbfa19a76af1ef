//! The index of the parts of a backup, which is built while the file is verified.

use std::collections::BTreeMap;

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{
    AllocationRef, BackupEnd, BackupGrants, BackupHeader, BackupNetwork, BackupNode, BackupPair,
    BackupPart,
};
use jaco_types::{ContentId, NamedKind};
use prost::Message;
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::damage::Damage;
use super::format::FORMAT;
use super::parts::Position;

/// The maximum size of parts that are kept in memory: nodes, constraints, networks, disabled
/// allocations.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// A stored config or secret in a backup.
#[derive(Debug)]
pub(crate) struct NamedPart {
    pub(crate) kind: NamedKind,
    pub(crate) name: String,
    pub(super) position: Position,
}

/// The index of the parts while the file is read.
#[derive(Debug, Default)]
pub(super) struct Index {
    header: Option<BackupHeader>,
    end: Option<BackupEnd>,
    memory_bytes: usize,
    pub(super) retention_ms: Option<u64>,
    pub(super) constraints: Vec<BackupPair>,
    pub(super) nodes: Vec<BackupNode>,
    pub(super) networks: Vec<BackupNetwork>,
    pub(super) policy: Option<String>,
    pub(super) grants: Vec<BackupGrants>,
    pub(super) named: Vec<NamedPart>,
    pub(super) disabled: Vec<AllocationRef>,
    pub(super) registries: Vec<Position>,
    pub(super) deployments: BTreeMap<String, Position>,
    pub(super) pieces: BTreeMap<ContentId, Position>,
    pub(super) secrets: BTreeMap<ContentId, Position>,
}

impl Index {
    pub(super) fn add(&mut self, at: Position, bytes: &Bytes) -> Result<(), Damage> {
        let part = BackupPart::decode(bytes.clone()).map_err(|_| Damage::NewerPart)?;
        // The decoder skips unknown fields; only the length shows them.
        let Some(kind) = part.kind.as_ref().filter(|_| part.encoded_len() == bytes.len()) else {
            return Err(Damage::NewerPart);
        };
        if self.header.is_none() != matches!(kind, Kind::Header(_)) || self.end.is_some() {
            return Err(inconsistent("its parts are out of order"));
        }
        match part.kind.ok_or(Damage::NewerPart)? {
            Kind::Header(header) if header.format != FORMAT => {
                return Err(Damage::Newer(header.format));
            }
            Kind::Header(header) => self.header = Some(header),
            Kind::Retention(retention) => self.retention_ms = Some(retention.age_ms),
            Kind::Constraints(constraints) => {
                self.count_memory(bytes)?;
                self.constraints.extend(constraints.pairs);
            }
            Kind::Node(node) => {
                self.count_memory(bytes)?;
                self.nodes.push(node);
            }
            Kind::Network(network) => {
                self.count_memory(bytes)?;
                self.networks.push(network);
            }
            Kind::Policy(policy) => {
                if self.policy.replace(policy.mode).is_some() {
                    return Err(inconsistent("its policy occurs twice"));
                }
            }
            Kind::Grants(grants) => {
                self.count_memory(bytes)?;
                self.grants.push(grants);
            }
            Kind::Disabled(disabled) => {
                self.count_memory(bytes)?;
                self.disabled.extend(disabled.allocations);
            }
            Kind::Named(named) => {
                let kind = NamedKind::parse(&named.kind).ok_or(Damage::NewerPart)?;
                self.named.push(NamedPart { kind, name: named.name, position: at });
            }
            Kind::Registry(_) => self.registries.push(at),
            Kind::Piece(piece) => {
                let id = ContentId(Sha256::digest(&piece.content).into());
                self.pieces.insert(id, at);
            }
            Kind::Secret(secret) => {
                let id = <[u8; 32]>::try_from(&secret.id[..]);
                let id = id.map_err(|_| inconsistent("the id of a secret has not 32 bytes"))?;
                self.secrets.insert(ContentId(id), at);
            }
            Kind::Deployment(deployment) => {
                if self.deployments.insert(deployment.name, at).is_some() {
                    return Err(inconsistent("a deployment occurs twice"));
                }
            }
            Kind::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    fn count_memory(&mut self, bytes: &Bytes) -> Result<(), Damage> {
        self.memory_bytes += bytes.len();
        if self.memory_bytes > MEMORY_BYTES_MAX {
            return Err(inconsistent("it has more nodes than a cluster can have"));
        }
        Ok(())
    }

    /// Checks that all parts are there; returns the header.
    pub(super) fn check(&self) -> Result<BackupHeader, Damage> {
        let (Some(header), Some(end)) = (&self.header, &self.end) else {
            return Err(inconsistent("the header or the end is missing"));
        };
        let contents = self.pieces.len() + self.secrets.len();
        let (named, registries, networks) =
            (self.named.len(), self.registries.len(), self.networks.len());
        let (deployments, grants) = (self.deployments.len(), self.grants.len());
        let counted = [deployments, named, contents, registries, networks, grants];
        let BackupEnd { deployments, named, contents, registries, networks, grants } = *end;
        let declared = [deployments, named, contents, registries, networks, grants];
        if counted.map(|count| count as u64) != declared {
            return Err(inconsistent("the number of parts is wrong"));
        }
        Ok(header.clone())
    }
}

fn inconsistent(what: &str) -> Damage {
    Damage::Contradiction(what.to_owned())
}
