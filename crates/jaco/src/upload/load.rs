//! Reads the files of a project: bounded, each byte once, and with every problem at its position.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use jaco_compose::tree::{FileTree, TREE_BYTES_MAX, TreeEntry};
use jaco_compose::{
    Access, Contents, Problems, Project, Severity, UploadItem, UploadKind, UploadProblem,
    UploadProblemKind, UploadSource,
};
use jaco_types::{ContentId, ErrorCode};
use sha2::{Digest, Sha256};

use super::walk::{Listed, check_inside, is_empty, unreadable, walk};
use crate::error::CliError;
use crate::format::quantity::size;
use crate::opening::Opening;

/// The default limit of the files of a deployment, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;

/// The maximum size of a piece; a larger file has several.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// The default mode of a config or secret.
const PLAIN_MODE: u32 = 0o444;

/// The number of largest files that a refusal lists.
const LISTED_MAX: usize = 5;

/// The files of a project, read.
#[derive(Default)]
pub(crate) struct Upload {
    /// The ids of lists of files by the path in the sent model.
    pub(super) binds: BTreeMap<String, ContentId>,
    /// The ids of lists of files by the config's key.
    pub(super) configs: BTreeMap<String, ContentId>,
    /// Contents by the secret's key; only the cluster can compute their ids.
    pub(super) secrets: BTreeMap<String, Vec<u8>>,
    /// The pieces of all files except secrets.
    pub(super) pieces: BTreeMap<ContentId, Vec<u8>>,
}

/// Prints no contents.
impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Upload");
        out.field("binds", &self.binds).field("configs", &self.configs);
        out.field("secrets", &self.secrets.keys()).field("pieces", &self.pieces.len()).finish()
    }
}

impl Upload {
    /// Reads all files that `project` refers to below `dir`, at most `limit` bytes. Returns warnings as
    /// well.
    ///
    /// # Errors
    /// Every problem with its position, or `too_large` with the largest files.
    pub(crate) fn load(
        project: &Project,
        dir: &Path,
        limit: u64,
        opening: &Opening,
    ) -> Result<(Self, Problems), CliError> {
        let mut problems = Vec::new();
        let mut found = Vec::new();
        for item in project.upload_items() {
            match list(&item, dir, opening) {
                Ok((source, warning)) => {
                    problems.extend(warning.map(|problem| (item.clone(), problem)));
                    found.push((item, source));
                }
                Err(problem) => problems.push((item, problem)),
            }
        }
        check_size(&found, limit)?;
        let mut upload = Self::default();
        for (item, source) in found {
            if let Err(problem) = upload.add(&item, source) {
                problems.push((item, problem));
            }
        }
        let problems = project.upload_problems(&problems);
        if problems.list.iter().any(|problem| problem.severity == Severity::Error) {
            return Err(CliError::Manifest { problems });
        }
        Ok((upload, problems))
    }

    /// Whether the project has no files.
    pub(crate) fn is_empty(&self) -> bool {
        self.binds.is_empty() && self.configs.is_empty() && self.secrets.is_empty()
    }

    /// The versions of all files except secrets, which are part of the hashes of services.
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

    fn add(&mut self, item: &UploadItem, source: Source) -> Result<(), UploadProblem> {
        let name = item.name.clone();
        match source {
            Source::NodeFolder | Source::External => {}
            Source::Secret(content) => drop(self.secrets.insert(name, content)),
            Source::Files(listed) => {
                let tree = self.tree(listed, item.kind)?;
                let text = tree.text().into_bytes();
                if text.len() > TREE_BYTES_MAX {
                    return Err(UploadProblem {
                        kind: UploadProblemKind::Refused,
                        message: format!("{name} has too many files to be uploaded"),
                        suggestion: "mount only the folders that are needed".to_owned(),
                    });
                }
                let id = self.piece(text);
                match item.kind {
                    UploadKind::Bind(_) => self.binds.insert(name, id),
                    UploadKind::Config | UploadKind::Secret => self.configs.insert(name, id),
                };
            }
        }
        Ok(())
    }

    fn tree(
        &mut self,
        listed: BTreeMap<String, Listed>,
        kind: UploadKind,
    ) -> Result<FileTree, UploadProblem> {
        let mut entries = BTreeMap::new();
        for (path, listed) in listed {
            let entry = match listed {
                Listed::Folder(mode) => TreeEntry::Folder { mode },
                Listed::Link(target) => TreeEntry::Link { target },
                Listed::File { mode, at, .. } => {
                    let (size, pieces) = self.file(&at)?;
                    let mode = match kind {
                        UploadKind::Bind(_) => mode,
                        // Independent of the umask under which the file was checked out.
                        UploadKind::Config | UploadKind::Secret => PLAIN_MODE,
                    };
                    TreeEntry::File { mode, size, pieces }
                }
            };
            entries.insert(path, entry);
        }
        FileTree::new(entries).map_err(|error| UploadProblem {
            kind: UploadProblemKind::Refused,
            message: error.to_string(),
            suggestion: "rename the file".to_owned(),
        })
    }

    fn file(&mut self, at: &Path) -> Result<(u64, Vec<ContentId>), UploadProblem> {
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

/// The source of a file or folder of the manifest, before it is read.
enum Source {
    /// Files with their folders.
    Files(BTreeMap<String, Listed>),
    /// The content of a secret.
    Secret(Vec<u8>),
    /// A folder for data, which each node creates and keeps.
    NodeFolder,
    /// A config or secret that the cluster stores by name.
    External,
}

/// Finds the source, and a problem that is a warning.
fn list(
    item: &UploadItem,
    dir: &Path,
    opening: &Opening,
) -> Result<(Source, Option<UploadProblem>), UploadProblem> {
    match (&item.source, item.kind) {
        (UploadSource::Path(path), UploadKind::Bind(access)) => {
            bind(Path::new(path), &item.name, access, dir)
        }
        (UploadSource::Path(path), UploadKind::Config) => {
            let at = Path::new(path);
            Ok((Source::Files(one_file(at, dir)?), None))
        }
        (UploadSource::Path(path), UploadKind::Secret) => {
            let at = Path::new(path);
            one_file(at, dir)?;
            let content = fs::read(at).map_err(|error| unreadable(at, &error))?;
            match opening.open(at, content) {
                Ok(Some(content)) => secret(&item.name, content),
                Ok(None) => Ok((Source::External, Some(left_closed(&item.name, at)))),
                Err(unopened) => Err(UploadProblem {
                    kind: UploadProblemKind::Refused,
                    message: format!("{} cannot be opened: {}", at.display(), unopened.error),
                    suggestion: unopened.help.to_owned(),
                }),
            }
        }
        (UploadSource::Variable(_, Some(text)), UploadKind::Secret) => {
            secret(&item.name, text.reveal().as_bytes().to_vec())
        }
        (UploadSource::Variable(variable, _), _) => Err(UploadProblem {
            kind: UploadProblemKind::Missing,
            message: format!(
                "`{}` is read from the variable {variable}, which is not set",
                item.name
            ),
            suggestion: format!("set {variable}, or give a file"),
        }),
        (UploadSource::External(_), _) => Ok((Source::External, None)),
    }
}

fn left_closed(name: &str, at: &Path) -> UploadProblem {
    UploadProblem {
        kind: UploadProblemKind::Warning,
        message: format!("secret `{name}` was not opened: {} is encrypted", at.display()),
        suggestion: "`jaco apply --identity FILE` opens it; nothing is known of its value here"
            .to_owned(),
    }
}

fn secret(name: &str, content: Vec<u8>) -> Result<(Source, Option<UploadProblem>), UploadProblem> {
    if content.len() > PIECE_BYTES_MAX {
        return Err(UploadProblem {
            kind: UploadProblemKind::Refused,
            message: format!("secret `{name}` has {} bytes; the maximum is 1 MiB", content.len()),
            suggestion: "move data that is not secret to a config".to_owned(),
        });
    }
    Ok((Source::Secret(content), None))
}

/// The one file of a config or secret. It may be outside the project where its path says so, and not by a link: that
/// shows nobody what is uploaded.
fn one_file(at: &Path, dir: &Path) -> Result<BTreeMap<String, Listed>, UploadProblem> {
    let absolute = |path| std::path::absolute(path).map_err(|error| unreadable(path, &error));
    if absolute(at)?.starts_with(absolute(dir)?) {
        check_inside(at, dir)?;
    }
    let metadata = fs::metadata(at).map_err(|error| unreadable(at, &error))?;
    if !metadata.is_file() {
        return Err(UploadProblem {
            kind: UploadProblemKind::Refused,
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
) -> Result<(Source, Option<UploadProblem>), UploadProblem> {
    let absent = fs::symlink_metadata(at).is_err_and(|e| e.kind() == io::ErrorKind::NotFound);
    // `docker compose` creates a folder for every missing path. For the path of a file, that is never
    // intended.
    let looks_like_file = at.extension().is_some();
    if absent && access == Access::Write && !looks_like_file {
        return Ok((Source::NodeFolder, Some(node_folder_warning(name, "does not exist here"))));
    }
    let listed = walk(at, dir)?;
    let is_folder = matches!(listed.get(""), Some(Listed::Folder(_)));
    match access {
        Access::Write if is_folder && is_empty(&listed) => {
            Ok((Source::NodeFolder, Some(node_folder_warning(name, "is empty"))))
        }
        Access::Write if is_folder => {
            let problem = UploadProblem {
                kind: UploadProblemKind::Warning,
                message: format!(
                    "`{name}` is writable: each replica gets its own copy, which is removed with it"
                ),
                suggestion: "add `:ro`; data that must persist belongs in a named volume"
                    .to_owned(),
            };
            Ok((Source::Files(listed), Some(problem)))
        }
        Access::Read | Access::Write => Ok((Source::Files(listed), None)),
    }
}

fn node_folder_warning(name: &str, why: &str) -> UploadProblem {
    UploadProblem {
        kind: UploadProblemKind::Warning,
        message: format!("`{name}` {why}: each node that runs the service creates its own folder"),
        suggestion: "use a named volume for data, or add `:ro` to upload it as it is".to_owned(),
    }
}

fn check_size(found: &[(UploadItem, Source)], limit: u64) -> Result<(), CliError> {
    let mut files: Vec<(u64, String)> = Vec::new();
    for (item, source) in found {
        match source {
            Source::NodeFolder | Source::External => {}
            Source::Secret(content) => {
                files.push((content.len() as u64, format!("secret {}", item.name)));
            }
            Source::Files(listed) => {
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
    let largest = files.iter().take(LISTED_MAX);
    Err(CliError::Outcome {
        code: ErrorCode::TooLarge,
        message: format!(
            "the files beside the compose file have {}; the limit is {}",
            size(total),
            size(limit)
        ),
        because: largest.map(|(bytes, path)| format!("{path}: {}", size(*bytes))).collect(),
        help: vec![
            "put large files into the image or a volume, or mount only the files that are needed"
                .to_owned(),
            "--max-files 64MB raises the limit; every node keeps all files in memory".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-3, R-IN-4: a config or secret is no link out of the project's folder; a path that leads out of it says so.
    #[test]
    fn a_config_or_secret_is_no_link_out_of_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let (project, key) = (folder.path().join("p"), folder.path().join("tls.key"));
        fs::create_dir(&project).unwrap();
        fs::write(&key, "key").unwrap();
        fs::write(project.join("own.key"), "key").unwrap();
        std::os::unix::fs::symlink("/etc/shadow", project.join("shadow")).unwrap();
        std::os::unix::fs::symlink("own.key", project.join("current.key")).unwrap();
        let refused = one_file(&project.join("shadow"), &project).unwrap_err();
        let expected = "links to /etc/shadow, which is outside the project's folder";
        assert!(refused.message.contains(expected), "{}", refused.message);
        for fine in [project.join("own.key"), project.join("current.key"), key] {
            assert!(one_file(&fine, &project).is_ok(), "{}", fine.display());
        }
    }
}
