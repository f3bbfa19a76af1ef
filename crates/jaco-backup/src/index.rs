//! The index of the parts of a backup, which is built while the file is verified.

use std::collections::BTreeMap;

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{
    AllocationRef, BackupEnd, BackupGrants, BackupHeader, BackupNetwork, BackupNode, BackupPair,
    BackupPart,
};
use jaco_types::{ContentId, NamedKind};
use prost::Message;
use prost::bytes::{Buf as _, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use sha2::{Digest, Sha256};

use super::damage::Damage;
use super::format::FORMAT;
use super::parts::Position;

/// The maximum of memory for what is kept of all parts but contents: positions by name, nodes, constraints, networks,
/// disabled allocations.
const MEMORY_BYTES_MAX: usize = 64 << 20;

/// What a row of the index takes besides its bytes in the file, at most.
const ROW_BYTES: usize = 128;

/// The maximum number of contents in a cluster: each counts for 256 bytes and its own of 256 MiB.
const CONTENTS_MAX: usize = 1 << 20;

/// The maximum number of fields in a part. Empty ones have two bytes in the file and up to a hundred in memory; a part
/// of the cluster has a thousand at most.
const FIELDS_MAX: usize = 100_000;

/// A stored config or secret in a backup.
#[derive(Debug)]
pub struct NamedPart {
    pub kind: NamedKind,
    pub name: String,
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
    pub(super) notify_targets: Vec<Position>,
    pub(super) deployments: BTreeMap<String, Position>,
    pub(super) pieces: Contents,
    pub(super) secrets: Contents,
}

/// Where contents are, by id. A list that is sorted once all are there: there are a million in a large backup.
#[derive(Debug, Default)]
pub(super) struct Contents(Vec<(ContentId, Position)>);

impl Contents {
    /// Of several with one id, the last one in the file counts.
    fn sort(&mut self) {
        self.0.sort_unstable_by_key(|(id, at)| (*id, std::cmp::Reverse(at.offset)));
        self.0.dedup_by_key(|(id, _)| *id);
    }

    pub(super) fn get(&self, id: ContentId) -> Option<Position> {
        let at = self.0.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        Some(self.0[at].1)
    }
}

impl Index {
    pub(super) fn add(&mut self, at: Position, bytes: &Bytes) -> Result<(), Damage> {
        let fields = fields(bytes).ok_or(Damage::NewerPart)?;
        if fields > FIELDS_MAX {
            return Err(inconsistent("a part has more fields than one can have"));
        }
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
                self.count_memory(bytes.len() + (1 + fields) * ROW_BYTES)?;
                self.constraints.extend(constraints.pairs);
            }
            Kind::Node(node) => {
                self.count_memory(bytes.len() + (1 + fields) * ROW_BYTES)?;
                self.nodes.push(node);
            }
            Kind::Network(network) => {
                self.count_memory(bytes.len() + (1 + fields) * ROW_BYTES)?;
                self.networks.push(network);
            }
            Kind::Policy(policy) => {
                if self.policy.replace(policy.mode).is_some() {
                    return Err(inconsistent("its policy occurs twice"));
                }
            }
            Kind::Grants(grants) => {
                self.count_memory(bytes.len() + (1 + fields) * ROW_BYTES)?;
                self.grants.push(grants);
            }
            Kind::Disabled(disabled) => {
                self.count_memory(bytes.len() + (1 + fields) * ROW_BYTES)?;
                self.disabled.extend(disabled.allocations);
            }
            Kind::Named(named) => {
                let kind = NamedKind::parse(&named.kind).ok_or(Damage::NewerPart)?;
                self.count_memory(ROW_BYTES + named.name.len())?;
                self.named.push(NamedPart { kind, name: named.name, position: at });
            }
            Kind::Registry(_) => {
                self.count_memory(ROW_BYTES)?;
                self.registries.push(at);
            }
            Kind::NotifyTarget(_) => {
                self.count_memory(ROW_BYTES)?;
                self.notify_targets.push(at);
            }
            Kind::Piece(piece) => {
                self.count_content()?;
                let id = ContentId(Sha256::digest(&piece.content).into());
                self.pieces.0.push((id, at));
            }
            Kind::Secret(secret) => {
                let id = <[u8; 32]>::try_from(&secret.id[..]);
                let id = id.map_err(|_| inconsistent("the id of a secret has not 32 bytes"))?;
                self.count_content()?;
                self.secrets.0.push((ContentId(id), at));
            }
            Kind::Deployment(deployment) => {
                self.count_memory(ROW_BYTES + deployment.name.len())?;
                if self.deployments.insert(deployment.name, at).is_some() {
                    return Err(inconsistent("a deployment occurs twice"));
                }
            }
            Kind::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    fn count_memory(&mut self, bytes: usize) -> Result<(), Damage> {
        self.memory_bytes += bytes;
        if self.memory_bytes > MEMORY_BYTES_MAX {
            return Err(inconsistent("it has more parts than a cluster can have"));
        }
        Ok(())
    }

    fn count_content(&self) -> Result<(), Damage> {
        if self.pieces.0.len() + self.secrets.0.len() >= CONTENTS_MAX {
            return Err(inconsistent("it has more contents than a cluster can have"));
        }
        Ok(())
    }

    /// Checks that all parts are there; returns the header.
    pub(super) fn check(&mut self) -> Result<BackupHeader, Damage> {
        self.pieces.sort();
        self.secrets.sort();
        let (Some(header), Some(end)) = (&self.header, &self.end) else {
            return Err(inconsistent("the header or the end is missing"));
        };
        let contents = self.pieces.0.len() + self.secrets.0.len();
        let (named, registries, networks) =
            (self.named.len(), self.registries.len(), self.networks.len());
        let (deployments, grants) = (self.deployments.len(), self.grants.len());
        let targets = self.notify_targets.len();
        let counted = [deployments, named, contents, registries, networks, grants, targets];
        let BackupEnd {
            deployments,
            named,
            contents,
            registries,
            networks,
            grants,
            notify_targets,
        } = *end;
        let declared = [deployments, named, contents, registries, networks, grants, notify_targets];
        if counted.map(|count| count as u64) != declared {
            return Err(inconsistent("the number of parts is wrong"));
        }
        Ok(header.clone())
    }
}

/// How many fields the message in a part has; `None` if it is none. Looked at before the part is decoded, which takes
/// memory for each.
fn fields(part: &Bytes) -> Option<usize> {
    let (mut part, mut fields) = (part.clone(), 0);
    while part.has_remaining() {
        let (tag, wire_type) = decode_key(&mut part).ok()?;
        if wire_type != WireType::LengthDelimited {
            skip_field(wire_type, tag, &mut part, DecodeContext::default()).ok()?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut part).ok()?).ok()?;
        let mut inner = (length <= part.len()).then(|| part.split_to(length))?;
        while inner.has_remaining() {
            let (tag, wire_type) = decode_key(&mut inner).ok()?;
            skip_field(wire_type, tag, &mut inner, DecodeContext::default()).ok()?;
            fields += 1;
        }
    }
    Some(fields)
}

fn inconsistent(what: &str) -> Damage {
    Damage::Contradiction(what.to_owned())
}
