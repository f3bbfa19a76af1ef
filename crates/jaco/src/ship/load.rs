//! Reads what goes with a project: bounded, each byte once, and with every fault at its place.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use jaco_compose::tree::{FileTree, TREE_BYTES_MAX, TreeEntry};
use jaco_compose::{
    Access, Contents, Fault, FaultKind, Problems, Project, Severity, Shipment, ShipmentKind,
    ShipmentSource,
};
use jaco_types::{ContentId, ErrorCode};
use sha2::{Digest, Sha256};

use super::walk::{Listed, is_empty, unreadable, walk};
use crate::error::CliError;

/// The most bytes of files of a deployment, unless its user asks for more.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;

/// The most bytes of one piece; a larger file is several.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// The mode of a config or secret, where a service asks for none.
const PLAIN_MODE: u32 = 0o444;

/// How many of the largest files a refusal names.
const NAMED_MAX: usize = 5;

/// What goes with a project, read.
#[derive(Default)]
pub(crate) struct Freight {
    /// By the path in the sent model: the id of its list of files.
    pub(super) binds: BTreeMap<String, ContentId>,
    /// By the config's key.
    pub(super) configs: BTreeMap<String, ContentId>,
    /// By the secret's key: its content, which is named by the cluster only.
    pub(super) secrets: BTreeMap<String, Vec<u8>>,
    /// All that is not secret.
    pub(super) pieces: BTreeMap<ContentId, Vec<u8>>,
}

/// Sizes only: contents are nobody's to print.
impl std::fmt::Debug for Freight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Freight");
        out.field("binds", &self.binds).field("configs", &self.configs);
        out.field("secrets", &self.secrets.keys()).field("pieces", &self.pieces.len()).finish()
    }
}

impl Freight {
    /// Reads everything that `project` refers to below `dir`, at most `limit` bytes of it; and what
    /// is worth a warning.
    ///
    /// # Errors
    /// Every fault with its place, or `too_large` with the largest files.
    pub(crate) fn load(
        project: &Project,
        dir: &Path,
        limit: u64,
    ) -> Result<(Self, Problems), CliError> {
        let mut faults = Vec::new();
        let mut found = Vec::new();
        for shipment in project.shipments() {
            match list(&shipment, dir) {
                Ok((goods, told)) => {
                    faults.extend(told.map(|fault| (shipment.clone(), fault)));
                    found.push((shipment, goods));
                }
                Err(fault) => faults.push((shipment, fault)),
            }
        }
        check_size(&found, limit)?;
        let mut freight = Self::default();
        for (shipment, goods) in found {
            if let Err(fault) = freight.add(&shipment, goods) {
                faults.push((shipment, fault));
            }
        }
        let problems = project.shipping_problems(&faults);
        if problems.list.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(CliError::Manifest { problems });
        }
        Ok((freight, problems))
    }

    /// Whether nothing goes with the project.
    pub(crate) fn is_empty(&self) -> bool {
        self.binds.is_empty() && self.configs.is_empty() && self.secrets.is_empty()
    }

    /// The versions of all that is not secret, as the hashes of services count them.
    pub(crate) fn versions(&self) -> Contents {
        let versions = |ids: &BTreeMap<String, ContentId>| {
            ids.iter().map(|(name, id)| (name.clone(), id.to_string())).collect()
        };
        Contents {
            binds: versions(&self.binds),
            configs: versions(&self.configs),
            ..Contents::default()
        }
    }

    fn add(&mut self, shipment: &Shipment, goods: Goods) -> Result<(), Fault> {
        let name = shipment.name.clone();
        match goods {
            Goods::KeptOnNode | Goods::KeptByCluster => {}
            Goods::Secret(content) => drop(self.secrets.insert(name, content)),
            Goods::Files(listed) => {
                let tree = self.tree(listed, shipment.kind)?;
                let text = tree.text().into_bytes();
                if text.len() > TREE_BYTES_MAX {
                    return Err(Fault {
                        kind: FaultKind::Refused,
                        message: format!("{name} has too many files to be sent"),
                        suggestion: "mount the folders that are needed, one by one".to_owned(),
                    });
                }
                let id = self.piece(text);
                match shipment.kind {
                    ShipmentKind::Bind(_) => self.binds.insert(name, id),
                    ShipmentKind::Config | ShipmentKind::Secret => self.configs.insert(name, id),
                };
            }
        }
        Ok(())
    }

    fn tree(
        &mut self,
        listed: BTreeMap<String, Listed>,
        kind: ShipmentKind,
    ) -> Result<FileTree, Fault> {
        let mut entries = BTreeMap::new();
        for (path, listed) in listed {
            let entry = match listed {
                Listed::Folder(mode) => TreeEntry::Folder { mode },
                Listed::Link(target) => TreeEntry::Link { target },
                Listed::File { mode, at, .. } => {
                    let (size, pieces) = self.file(&at)?;
                    let mode = match kind {
                        ShipmentKind::Bind(_) => mode,
                        // As on every machine, whoever checked the file out.
                        ShipmentKind::Config | ShipmentKind::Secret => PLAIN_MODE,
                    };
                    TreeEntry::File { mode, size, pieces }
                }
            };
            entries.insert(path, entry);
        }
        FileTree::new(entries).map_err(|error| Fault {
            kind: FaultKind::Refused,
            message: error.to_string(),
            suggestion: "give the file another name".to_owned(),
        })
    }

    fn file(&mut self, at: &Path) -> Result<(u64, Vec<ContentId>), Fault> {
        let failed = |error: io::Error| unreadable(at, &error);
        let mut file = File::open(at).map_err(failed)?;
        let (mut size, mut pieces) = (0, Vec::new());
        loop {
            let mut piece = Vec::new();
            file.by_ref().take(PIECE_BYTES_MAX as u64).read_to_end(&mut piece).map_err(failed)?;
            if piece.is_empty() {
                return Ok((size, pieces));
            }
            size += piece.len() as u64;
            pieces.push(self.piece(piece));
        }
    }

    fn piece(&mut self, bytes: Vec<u8>) -> ContentId {
        let id = ContentId(Sha256::digest(&bytes).into());
        self.pieces.entry(id).or_insert(bytes);
        id
    }
}

/// What a shipment is, before it is read.
enum Goods {
    /// Files, and what is above them.
    Files(BTreeMap<String, Listed>),
    /// The content of a secret.
    Secret(Vec<u8>),
    /// A folder for data, which the node makes and keeps.
    KeptOnNode,
    /// A config or secret that the cluster has under a name.
    KeptByCluster,
}

/// Finds what a shipment is, and what should be told about it.
fn list(shipment: &Shipment, dir: &Path) -> Result<(Goods, Option<Fault>), Fault> {
    match (&shipment.source, shipment.kind) {
        (ShipmentSource::Path(path), ShipmentKind::Bind(access)) => {
            bind(Path::new(path), &shipment.name, access, dir)
        }
        (ShipmentSource::Path(path), ShipmentKind::Config) => {
            let at = Path::new(path);
            Ok((Goods::Files(one_file(at)?), None))
        }
        (ShipmentSource::Path(path), ShipmentKind::Secret) => {
            let at = Path::new(path);
            one_file(at)?;
            let content = fs::read(at).map_err(|error| unreadable(at, &error))?;
            secret(&shipment.name, content)
        }
        (ShipmentSource::Variable(_, Some(text)), ShipmentKind::Secret) => {
            secret(&shipment.name, text.reveal().as_bytes().to_vec())
        }
        (ShipmentSource::Variable(variable, _), _) => Err(Fault {
            kind: FaultKind::Absent,
            message: format!("`{}` is the variable {variable}, which is not set", shipment.name),
            suggestion: format!("set {variable}, or name a file"),
        }),
        (ShipmentSource::External(_), _) => Ok((Goods::KeptByCluster, None)),
    }
}

fn secret(name: &str, content: Vec<u8>) -> Result<(Goods, Option<Fault>), Fault> {
    if content.len() > PIECE_BYTES_MAX {
        return Err(Fault {
            kind: FaultKind::Refused,
            message: format!("secret `{name}` has {} bytes, and 1 MiB is the most", content.len()),
            suggestion: "keep only what is secret in it".to_owned(),
        });
    }
    Ok((Goods::Secret(content), None))
}

/// A config or secret is one file, wherever the user says that it is.
fn one_file(at: &Path) -> Result<BTreeMap<String, Listed>, Fault> {
    let metadata = fs::metadata(at).map_err(|error| unreadable(at, &error))?;
    if !metadata.is_file() {
        return Err(Fault {
            kind: FaultKind::Refused,
            message: format!("{} is not a file", at.display()),
            suggestion: "mount a folder as a volume, by its relative path".to_owned(),
        });
    }
    let file = Listed::File { mode: PLAIN_MODE, size: metadata.len(), at: at.to_owned() };
    Ok([(String::new(), file)].into())
}

fn bind(
    at: &Path,
    name: &str,
    access: Access,
    dir: &Path,
) -> Result<(Goods, Option<Fault>), Fault> {
    let absent = fs::symlink_metadata(at).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    // `docker compose` makes a folder for every path that is not there. For one that looks like a
    // file's, that is never what was meant.
    let looks_like_file = at.extension().is_some();
    if absent && access == Access::Write && !looks_like_file {
        return Ok((Goods::KeptOnNode, Some(kept(name, "is not here"))));
    }
    let listed = walk(at, dir)?;
    let is_folder = matches!(listed.get(""), Some(Listed::Folder(_)));
    match access {
        Access::Write if is_folder && is_empty(&listed) => {
            Ok((Goods::KeptOnNode, Some(kept(name, "has no files"))))
        }
        Access::Write if is_folder => {
            let fault = Fault {
                kind: FaultKind::Differs,
                message: format!(
                    "`{name}` can be written to: each replica writes into a copy of its own, which \
                     goes with it"
                ),
                suggestion: "add `:ro`; what has to stay belongs into a named volume".to_owned(),
            };
            Ok((Goods::Files(listed), Some(fault)))
        }
        Access::Read | Access::Write => Ok((Goods::Files(listed), None)),
    }
}

fn kept(name: &str, why: &str) -> Fault {
    Fault {
        kind: FaultKind::Differs,
        message: format!(
            "`{name}` {why}: each node that runs the service keeps a folder of its own for it"
        ),
        suggestion: "a named volume says the same; `:ro` says that it is sent as it is".to_owned(),
    }
}

fn check_size(found: &[(Shipment, Goods)], limit: u64) -> Result<(), CliError> {
    let mut files: Vec<(u64, String)> = Vec::new();
    for (shipment, goods) in found {
        match goods {
            Goods::KeptOnNode | Goods::KeptByCluster => {}
            Goods::Secret(content) => {
                files.push((content.len() as u64, format!("secret {}", shipment.name)));
            }
            Goods::Files(listed) => {
                let sizes = listed.values().filter_map(|listed| match listed {
                    Listed::File { size, at, .. } => Some((*size, at.display().to_string())),
                    Listed::Folder(_) | Listed::Link(_) => None,
                });
                files.extend(sizes);
            }
        }
    }
    let total = files.iter().fold(0_u64, |sum, (size, _)| sum.saturating_add(*size));
    if total <= limit {
        return Ok(());
    }
    files.sort_by(|a, b| b.cmp(a));
    let largest = files.iter().take(NAMED_MAX);
    Err(CliError::Outcome {
        code: ErrorCode::TooLarge,
        message: format!(
            "the files beside the compose file have {}, and {} are the most",
            amount(total),
            amount(limit)
        ),
        because: largest.map(|(size, path)| format!("{path}: {}", amount(*size))).collect(),
        help: vec![
            "put what is large into the image or a volume, or mount only the files that are needed"
                .to_owned(),
            "--max-files 64MB allows more; every node keeps all of it in memory".to_owned(),
        ],
    })
}

/// An amount of data for people.
pub(super) fn amount(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..MIB => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}
