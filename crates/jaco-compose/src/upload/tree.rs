//! The content of an uploaded file or folder: names, modes, and the chunks that hold its bytes
//! (R-IN-4). Canonical text, so that equal folders have equal texts, and the text's own id is the
//! version that the spec hash counts.
//!
//! Reads what a client sent: nothing in a tree may lead out of it.

use std::collections::BTreeMap;

use jaco_types::ContentId;
use serde_json::{Value, json};

/// The most bytes of a tree's text: one piece. About 8,000 files.
pub const TREE_BYTES_MAX: usize = 1 << 20;

const FORMAT: u64 = 1;

/// A file, or a folder with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTree {
    /// By path below the root, whose own path is empty. Each comes after the folder that it is in.
    entries: BTreeMap<String, TreeEntry>,
}

/// One file, folder or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeEntry {
    /// A folder.
    Folder {
        /// Its permission bits.
        mode: u32,
    },
    /// A file.
    File {
        /// Its permission bits.
        mode: u32,
        /// Its size in bytes.
        size: u64,
        /// What its bytes are put together from, in order.
        pieces: Vec<ContentId>,
    },
    /// A symbolic link.
    Link {
        /// Where it leads, as it is written; below the root.
        target: String,
    },
}

/// Why a tree is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The text is not what [`FileTree::text`] writes.
    #[error("the list of files is not in its canonical form")]
    Form,
    /// It was written by a newer program.
    #[error("the list of files has the unknown format {0}")]
    Format(u64),
    /// There are more files than one list holds.
    #[error(
        "the list of files has {0} bytes, and {TREE_BYTES_MAX} are the most: about 8,000 files"
    )]
    TooLarge(usize),
    /// A path that is not valid, or not in a folder of the tree.
    #[error("{0:?} is not a path below the uploaded folder")]
    Path(String),
    /// Permission bits that do not exist.
    #[error("{path:?} has the invalid mode {mode:o}")]
    Mode {
        /// Whose.
        path: String,
        /// Which.
        mode: u32,
    },
    /// A link that leads out of the tree.
    #[error("the link {path:?} points to {target:?}, outside of the uploaded folder")]
    Link {
        /// The link.
        path: String,
        /// Where it leads.
        target: String,
    },
}

impl FileTree {
    /// A tree of these entries.
    ///
    /// # Errors
    /// When a path is none, an entry is in no folder, or a link leads out.
    pub fn new(entries: BTreeMap<String, TreeEntry>) -> Result<Self, TreeError> {
        let root = entries.get("").ok_or_else(|| TreeError::Path(String::new()))?;
        if matches!(root, TreeEntry::Link { .. }) {
            return Err(TreeError::Path(String::new()));
        }
        for (path, entry) in &entries {
            if !path.is_empty() {
                check_path(&entries, path)?;
            }
            check_entry(path, entry)?;
        }
        Ok(Self { entries })
    }

    /// A tree that is one file.
    #[must_use]
    pub fn of_file(mode: u32, size: u64, pieces: Vec<ContentId>) -> Self {
        let file = TreeEntry::File { mode: mode & 0o7777, size, pieces };
        Self { entries: [(String::new(), file)].into() }
    }

    /// The entries by path, each after the folder that it is in.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &TreeEntry)> {
        self.entries.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The pieces of all files.
    pub fn pieces(&self) -> impl Iterator<Item = ContentId> {
        self.entries
            .values()
            .flat_map(|entry| match entry {
                TreeEntry::File { pieces, .. } => pieces.as_slice(),
                TreeEntry::Folder { .. } | TreeEntry::Link { .. } => &[],
            })
            .copied()
    }

    /// The bytes of all files.
    #[must_use]
    pub fn size(&self) -> u64 {
        let sizes = self.entries.values().map(|entry| match entry {
            TreeEntry::File { size, .. } => *size,
            TreeEntry::Folder { .. } | TreeEntry::Link { .. } => 0,
        });
        sizes.fold(0, u64::saturating_add)
    }

    /// The canonical text.
    #[must_use]
    pub fn text(&self) -> String {
        let entries = self.entries.iter().map(|(path, entry)| match entry {
            TreeEntry::Folder { mode } => json!({"path": path, "type": "folder", "mode": mode}),
            TreeEntry::File { mode, size, pieces } => json!({
                "path": path,
                "type": "file",
                "mode": mode,
                "size": size,
                "pieces": pieces.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }),
            TreeEntry::Link { target } => json!({"path": path, "type": "link", "target": target}),
        });
        json!({"format": FORMAT, "entries": entries.collect::<Vec<_>>()}).to_string()
    }

    /// Reads the canonical text.
    ///
    /// # Errors
    /// When it is not one, or nothing that [`FileTree::new`] takes.
    pub fn parse(text: &[u8]) -> Result<Self, TreeError> {
        if text.len() > TREE_BYTES_MAX {
            return Err(TreeError::TooLarge(text.len()));
        }
        let json: Value = serde_json::from_slice(text).map_err(|_| TreeError::Form)?;
        match json["format"].as_u64() {
            Some(FORMAT) => {}
            Some(other) => return Err(TreeError::Format(other)),
            None => return Err(TreeError::Form),
        }
        let entries = json["entries"].as_array().ok_or(TreeError::Form)?;
        let entries = entries.iter().map(entry).collect::<Option<BTreeMap<_, _>>>();
        let tree = Self::new(entries.ok_or(TreeError::Form)?)?;
        // One text for each tree: what is left out, doubled or out of order shows here.
        if tree.text().as_bytes() == text { Ok(tree) } else { Err(TreeError::Form) }
    }
}

fn entry(json: &Value) -> Option<(String, TreeEntry)> {
    let path = json["path"].as_str()?.to_owned();
    let mode = || u32::try_from(json["mode"].as_u64()?).ok();
    let entry = match json["type"].as_str()? {
        "folder" => TreeEntry::Folder { mode: mode()? },
        "file" => {
            let pieces = json["pieces"].as_array()?.iter();
            let pieces =
                pieces.map(|id| ContentId::from_hex(id.as_str()?)).collect::<Option<_>>()?;
            TreeEntry::File { mode: mode()?, size: json["size"].as_u64()?, pieces }
        }
        "link" => TreeEntry::Link { target: json["target"].as_str()?.to_owned() },
        _ => return None,
    };
    Some((path, entry))
}

/// A path is names below folders of the tree.
fn check_path(entries: &BTreeMap<String, TreeEntry>, path: &str) -> Result<(), TreeError> {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let in_folder = matches!(entries.get(parent), Some(TreeEntry::Folder { .. }));
    if in_folder && path.split('/').all(is_name) {
        return Ok(());
    }
    Err(TreeError::Path(path.to_owned()))
}

fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains('\0')
}

fn check_entry(path: &str, entry: &TreeEntry) -> Result<(), TreeError> {
    match entry {
        TreeEntry::Folder { mode } | TreeEntry::File { mode, .. } if mode & !0o7777 != 0 => {
            Err(TreeError::Mode { path: path.to_owned(), mode: *mode })
        }
        TreeEntry::Link { target } if !stays_below(path, target) => {
            Err(TreeError::Link { path: path.to_owned(), target: target.clone() })
        }
        TreeEntry::Folder { .. } | TreeEntry::File { .. } | TreeEntry::Link { .. } => Ok(()),
    }
}

/// Whether a link at `path` that leads to `target` stays below the root.
///
/// `..` may only come first: the folders above a link are folders, so how far up it goes can be
/// counted, and what follows goes down, at worst through other links that stay below, too.
#[must_use]
pub fn stays_below(path: &str, target: &str) -> bool {
    if target.is_empty() || target.starts_with('/') || target.contains('\0') {
        return false;
    }
    let depth = path.matches('/').count();
    let parts = target.split('/').filter(|part| !matches!(*part, "" | "."));
    let up = parts.clone().take_while(|part| *part == "..").count();
    up <= depth && parts.skip(up).all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u8) -> TreeEntry {
        TreeEntry::File { mode: 0o644, size: 3, pieces: vec![ContentId([number; 32])] }
    }

    fn folder() -> TreeEntry {
        TreeEntry::Folder { mode: 0o755 }
    }

    fn link(target: &str) -> TreeEntry {
        TreeEntry::Link { target: target.to_owned() }
    }

    fn tree(entries: &[(&str, TreeEntry)]) -> Result<FileTree, TreeError> {
        let entry = |(path, entry): &(&str, TreeEntry)| ((*path).to_owned(), entry.clone());
        FileTree::new(entries.iter().map(entry).collect())
    }

    /// R-IN-4: stored bytes never change: this is format 1.
    #[test]
    fn the_text_is_as_it_was() {
        let tree = tree(&[
            ("", folder()),
            ("a", file(0xab)),
            ("sub", TreeEntry::Folder { mode: 0o1777 }),
            ("sub/l", link("../a")),
        ]);
        let tree = tree.unwrap();
        let id = "ab".repeat(32);
        let text = format!(
            r#"{{"entries":[{{"mode":493,"path":"","type":"folder"}},{{"mode":420,"path":"a","pieces":["{id}"],"size":3,"type":"file"}},{{"mode":1023,"path":"sub","type":"folder"}},{{"path":"sub/l","target":"../a","type":"link"}}],"format":1}}"#
        );
        assert_eq!(tree.text(), text);
        assert_eq!(FileTree::parse(text.as_bytes()), Ok(tree));
    }

    /// R-IN-3: a tree that a hostile client made leads nowhere else.
    #[test]
    fn nothing_leads_out_of_a_tree() {
        let refused = |path: &str, entry: TreeEntry| {
            tree(&[("", folder()), ("f", file(1)), ("d", folder()), (path, entry)]).unwrap_err()
        };
        for path in ["/etc", "../x", "d/../../x", "d//x", "./x", "d/", "f/x", "none/x", "a\0b"] {
            assert_eq!(refused(path, file(2)), TreeError::Path(path.to_owned()), "{path}");
        }
        for target in ["/etc/passwd", "..", "../x", "f/../../x", "d/..", "", "a\0"] {
            assert!(matches!(refused("l", link(target)), TreeError::Link { .. }), "{target}");
        }
        assert!(tree(&[("", folder()), ("d", folder()), ("d/l", link("./../f/g"))]).is_ok());
        assert!(tree(&[("", link("x"))]).is_err());
        assert!(tree(&[("", file(1)), ("x", file(1))]).is_err());
        assert!(tree(&[("", TreeEntry::Folder { mode: 0o10_000 })]).is_err());
        assert!(tree(&[]).is_err());
    }

    #[test]
    fn only_the_canonical_text_is_read() {
        let text = FileTree::of_file(0o600, 3, vec![ContentId([1; 32])]).text();
        assert!(FileTree::parse(text.as_bytes()).is_ok());
        let newer = text.replace("\"format\":1", "\"format\":2");
        assert_eq!(FileTree::parse(newer.as_bytes()), Err(TreeError::Format(2)));
        for other in [
            String::new(),
            "[]".to_owned(),
            format!(" {text}"),
            text.replace("\"size\":3", "\"size\":3.0"),
            text.replace("\"size\":3", "\"size\":3,\"x\":1"),
            text.replace("\"size\":3,", ""),
        ] {
            assert!(FileTree::parse(other.as_bytes()).is_err(), "{other}");
        }
        assert_eq!(
            FileTree::parse(&vec![b' '; TREE_BYTES_MAX + 1]),
            Err(TreeError::TooLarge(TREE_BYTES_MAX + 1))
        );
    }
}
