//! Reads a backup file: all of it once, before any of it is believed, and then single parts of it by
//! where they are. Nothing that a file says makes it take more memory than an index of its parts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::FileExt;

use jaco_proto::v1::backup_part::Kind;
use jaco_proto::v1::{
    AllocationRef, BackupDeployment, BackupEnd, BackupHeader, BackupNode, BackupPair, BackupPart,
    BackupRegistry,
};
use jaco_types::{ContentId, NamedKind};
use prost::Message;
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{FORMAT, MAGIC, PART_BYTES_MAX};

/// The most parts: four times as many as a cluster can have pieces of contents.
const PARTS_MAX: u64 = 1 << 22;

/// The most bytes of parts that are kept in memory: what is said of nodes, constraints, and what rests.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// Why a file is no backup that can be restored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    /// It begins as no backup does.
    #[error("it is no backup: it does not begin as one")]
    Foreign,
    /// A later version wrote it.
    #[error("it has format {0}, and this jaco reads {FORMAT}: a newer jaco wrote it")]
    Newer(u32),
    /// It is whole, and says what this version knows nothing of.
    #[error("it holds what this jaco does not know: a newer jaco wrote it")]
    NewerPart,
    /// It ends too early.
    #[error("it was cut off after {0} bytes")]
    Truncated(u64),
    /// It is not what was written.
    #[error("it was altered: its checksum is another one")]
    Altered,
    /// The checksum is right, and what it says cannot be.
    #[error("it contradicts itself: {0}")]
    Contradiction(String),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Where the content of a part is.
#[derive(Debug, Clone, Copy)]
struct At {
    offset: u64,
    length: usize,
}

/// A config or secret with a name, in a file.
#[derive(Debug)]
pub(crate) struct NamedAt {
    pub(crate) kind: NamedKind,
    pub(crate) name: String,
    at: At,
}

/// A backup that is whole and as it was written. Contents stay in the file until they are asked for.
#[derive(Debug)]
pub(crate) struct Backup {
    file: File,
    pub(crate) header: BackupHeader,
    pub(crate) retention_ms: Option<u64>,
    pub(crate) constraints: Vec<BackupPair>,
    pub(crate) nodes: Vec<BackupNode>,
    pub(crate) named: Vec<NamedAt>,
    pub(crate) disabled: Vec<AllocationRef>,
    registries: Vec<At>,
    deployments: BTreeMap<String, At>,
    pieces: BTreeMap<ContentId, At>,
    secrets: BTreeMap<ContentId, At>,
}

impl Backup {
    /// Reads a file from its beginning to its end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn open(mut file: File) -> Result<Self, Damage> {
        file.rewind()?;
        let mut index = Index::default();
        // What is not understood is newer only if it is what was written.
        let mut first_fault = None;
        let mut reader = Reader::new(BufReader::new(&file))?;
        while let Some((at, bytes)) = reader.next()? {
            if first_fault.is_none() {
                first_fault = index.add(at, &bytes).err();
            }
        }
        match first_fault {
            Some(fault) => Err(fault),
            None => index.finish(file),
        }
    }

    /// The names of all deployments.
    pub(crate) fn deployments(&self) -> impl Iterator<Item = &str> {
        self.deployments.keys().map(String::as_str)
    }

    /// A deployment, if there is one of this name.
    ///
    /// # Errors
    /// If the file cannot be read any more.
    pub(crate) fn deployment(&self, name: &str) -> Result<Option<BackupDeployment>, Damage> {
        let Some(at) = self.deployments.get(name) else { return Ok(None) };
        let Kind::Deployment(deployment) = self.part(*at)? else { return Err(Damage::Altered) };
        Ok(Some(deployment))
    }

    /// The content of a config or secret with a name.
    ///
    /// # Errors
    /// If the file cannot be read any more.
    pub(crate) fn named(&self, named: &NamedAt) -> Result<Bytes, Damage> {
        let Kind::Named(named) = self.part(named.at)? else { return Err(Damage::Altered) };
        Ok(named.content)
    }

    /// Who the cluster was at each registry, one after the other.
    pub(crate) fn registries(&self) -> impl Iterator<Item = Result<BackupRegistry, Damage>> {
        self.registries.iter().map(|at| {
            let Kind::Registry(registry) = self.part(*at)? else { return Err(Damage::Altered) };
            Ok(registry)
        })
    }

    /// Whether a piece of files that are no secrets is there.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn holds(&self, id: ContentId) -> Result<(), Damage> {
        found(&self.pieces, id).map(|_| ())
    }

    /// A piece of files that are no secrets.
    ///
    /// # Errors
    /// If it is not in the file, or that cannot be read any more.
    pub(crate) fn piece(&self, id: ContentId) -> Result<Bytes, Damage> {
        let part = self.part(found(&self.pieces, id)?)?;
        let Kind::Piece(piece) = part else { return Err(Damage::Altered) };
        Ok(piece.content)
    }

    /// A piece of a secret, by what it is called in the file.
    ///
    /// # Errors
    /// If it is not in the file, or that cannot be read any more.
    pub(crate) fn secret(&self, id: ContentId) -> Result<Bytes, Damage> {
        let part = self.part(found(&self.secrets, id)?)?;
        let Kind::Secret(secret) = part else { return Err(Damage::Altered) };
        Ok(secret.content)
    }

    fn part(&self, at: At) -> Result<Kind, Damage> {
        let mut bytes = vec![0; at.length];
        self.file.read_exact_at(&mut bytes, at.offset)?;
        let part = BackupPart::decode(Bytes::from(bytes)).map_err(|_| Damage::Altered)?;
        part.kind.ok_or(Damage::Altered)
    }
}

fn found(index: &BTreeMap<ContentId, At>, id: ContentId) -> Result<At, Damage> {
    let missing = || Damage::Contradiction(format!("content {id} is named and not there"));
    index.get(&id).copied().ok_or_else(missing)
}

/// The parts of a file in order; after the last one it is known that they are as they were written.
struct Reader<R> {
    input: R,
    hash: Sha256,
    offset: u64,
    parts: u64,
}

impl<R: Read> Reader<R> {
    fn new(input: R) -> Result<Self, Damage> {
        let mut reader = Self { input, hash: Sha256::new(), offset: 0, parts: 0 };
        let mut magic = [0; MAGIC.len()];
        let got = reader.some(&mut magic)?;
        if magic[..got] != MAGIC[..got] {
            return Err(Damage::Foreign);
        }
        if got < magic.len() {
            return Err(Damage::Truncated(reader.offset));
        }
        let format = reader.number()?;
        if format != FORMAT {
            return Err(Damage::Newer(format));
        }
        Ok(reader)
    }

    fn next(&mut self) -> Result<Option<(At, Bytes)>, Damage> {
        let length = self.number()? as usize;
        if length == 0 {
            return self.check_end().map(|()| None);
        }
        self.parts += 1;
        if length > PART_BYTES_MAX || self.parts > PARTS_MAX {
            return Err(Damage::Altered);
        }
        let at = At { offset: self.offset, length };
        let mut bytes = vec![0; length];
        self.exact(&mut bytes)?;
        Ok(Some((at, bytes.into())))
    }

    fn check_end(&mut self) -> Result<(), Damage> {
        let expected: [u8; 32] = self.hash.clone().finalize().into();
        let mut sum = [0; 32];
        self.exact(&mut sum)?;
        let more = self.some(&mut [0])?;
        if sum != expected || more > 0 {
            return Err(Damage::Altered);
        }
        Ok(())
    }

    fn number(&mut self) -> Result<u32, Damage> {
        let mut bytes = [0; 4];
        self.exact(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn exact(&mut self, bytes: &mut [u8]) -> Result<(), Damage> {
        let got = self.some(bytes)?;
        if got < bytes.len() {
            return Err(Damage::Truncated(self.offset));
        }
        Ok(())
    }

    /// As many bytes as there are, up to all that are wanted.
    fn some(&mut self, bytes: &mut [u8]) -> Result<usize, Damage> {
        let mut got = 0;
        while got < bytes.len() {
            match self.input.read(&mut bytes[got..]) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.hash.update(&bytes[..got]);
        self.offset += got as u64;
        Ok(got)
    }
}

/// What is known of a file while it is read.
#[derive(Debug, Default)]
struct Index {
    header: Option<BackupHeader>,
    end: Option<BackupEnd>,
    kept_bytes: usize,
    retention_ms: Option<u64>,
    constraints: Vec<BackupPair>,
    nodes: Vec<BackupNode>,
    named: Vec<NamedAt>,
    disabled: Vec<AllocationRef>,
    registries: Vec<At>,
    deployments: BTreeMap<String, At>,
    pieces: BTreeMap<ContentId, At>,
    secrets: BTreeMap<ContentId, At>,
}

impl Index {
    fn add(&mut self, at: At, bytes: &Bytes) -> Result<(), Damage> {
        let part = BackupPart::decode(bytes.clone()).map_err(|_| Damage::NewerPart)?;
        // Fields that are not known are skipped by the decoder, and show in the length only.
        let Some(kind) = part.kind.as_ref().filter(|_| part.encoded_len() == bytes.len()) else {
            return Err(Damage::NewerPart);
        };
        if self.header.is_none() != matches!(kind, Kind::Header(_)) || self.end.is_some() {
            return Err(contradiction("its parts are out of order"));
        }
        match part.kind.ok_or(Damage::NewerPart)? {
            Kind::Header(header) if header.format != FORMAT => {
                return Err(Damage::Newer(header.format));
            }
            Kind::Header(header) => self.header = Some(header),
            Kind::Retention(retention) => self.retention_ms = Some(retention.age_ms),
            Kind::Constraints(said) => {
                self.keep(bytes)?;
                self.constraints.extend(said.pairs);
            }
            Kind::Node(node) => {
                self.keep(bytes)?;
                self.nodes.push(node);
            }
            Kind::Disabled(said) => {
                self.keep(bytes)?;
                self.disabled.extend(said.allocations);
            }
            Kind::Named(named) => {
                let kind = NamedKind::parse(&named.kind).ok_or(Damage::NewerPart)?;
                self.named.push(NamedAt { kind, name: named.name, at });
            }
            Kind::Registry(_) => self.registries.push(at),
            Kind::Piece(piece) => {
                let id = ContentId(Sha256::digest(&piece.content).into());
                self.pieces.insert(id, at);
            }
            Kind::Secret(secret) => {
                let id = <[u8; 32]>::try_from(&secret.id[..]);
                let id = id.map_err(|_| contradiction("the id of a secret has not 32 bytes"))?;
                self.secrets.insert(ContentId(id), at);
            }
            Kind::Deployment(deployment) => {
                if self.deployments.insert(deployment.name, at).is_some() {
                    return Err(contradiction("a deployment is there twice"));
                }
            }
            Kind::End(end) => self.end = Some(end),
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &Bytes) -> Result<(), Damage> {
        self.kept_bytes += bytes.len();
        if self.kept_bytes > KEPT_BYTES_MAX {
            return Err(contradiction("it says more of nodes than a cluster can have"));
        }
        Ok(())
    }

    fn finish(self, file: File) -> Result<Backup, Damage> {
        let (Some(header), Some(end)) = (self.header, self.end) else {
            return Err(contradiction("it has no beginning or no end"));
        };
        let contents = self.pieces.len() + self.secrets.len();
        let counted = [self.deployments.len(), self.named.len(), contents, self.registries.len()];
        let said = [end.deployments, end.named, end.contents, end.registries];
        if counted.map(|count| count as u64) != said {
            return Err(contradiction("it does not hold as much as it says"));
        }
        Ok(Backup {
            file,
            header,
            retention_ms: self.retention_ms,
            constraints: self.constraints,
            nodes: self.nodes,
            named: self.named,
            disabled: self.disabled,
            registries: self.registries,
            deployments: self.deployments,
            pieces: self.pieces,
            secrets: self.secrets,
        })
    }
}

fn contradiction(what: &str) -> Damage {
    Damage::Contradiction(what.to_owned())
}
