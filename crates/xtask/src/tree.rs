//! The texts of the repository, read once, so that rules are functions of data.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

/// Folders that hold no text of ours.
const SKIPPED: [&str; 3] = [".git", "target", "proptest-regressions"];
/// Longest file looked at; longer ones are data.
const TEXT_MAX: u64 = 1024 * 1024;

/// Files by their path from the root, with `/` between the parts.
#[derive(Debug, Default)]
pub(crate) struct Tree(pub(crate) BTreeMap<String, String>);

impl Tree {
    /// Reads all text files below `root`, except in `without`.
    ///
    /// # Errors
    /// If a folder or file cannot be read.
    pub(crate) fn read(root: &Path, without: &Path) -> Result<Self> {
        let mut tree = Self::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries =
                std::fs::read_dir(&folder).with_context(|| format!("cannot list {folder:?}"))?;
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if SKIPPED.contains(&name.as_ref()) || path == without || path.is_symlink() {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    tree.add(root, &path)?;
                }
            }
        }
        Ok(tree)
    }

    fn add(&mut self, root: &Path, path: &Path) -> Result<()> {
        let context = || format!("cannot read {path:?}");
        if std::fs::metadata(path).with_context(context)?.len() > TEXT_MAX {
            return Ok(());
        }
        let bytes = std::fs::read(path).with_context(context)?;
        let name = path.strip_prefix(root).expect("walked from the root").to_string_lossy();
        if let Ok(text) = String::from_utf8(bytes) {
            self.0.insert(name.into_owned(), text);
        }
        Ok(())
    }

    /// The files below a folder whose name ends with `suffix`.
    pub(crate) fn files<'a>(
        &'a self,
        folder: &'a str,
        suffix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .iter()
            .filter(move |(path, _)| path.starts_with(folder) && path.ends_with(suffix))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Tree {
    fn from(files: [(&str, &str); N]) -> Self {
        Self(files.map(|(path, text)| (path.to_owned(), text.to_owned())).into())
    }
}
