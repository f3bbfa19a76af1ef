//! The content of a folder in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What has a name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    Folder,
    File(Vec<u8>),
}

/// Everything under one folder, by path relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Folder {
    pub nodes: BTreeMap<PathBuf, Node>,
}

impl Folder {
    /// Reads a folder.
    ///
    /// # Errors
    /// As the file system says.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        let mut rest = vec![PathBuf::new()];
        while let Some(folder) = rest.pop() {
            for entry in fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let path = folder.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    rest.push(path.clone());
                    found.nodes.insert(path, Node::Folder);
                } else {
                    found.nodes.insert(path, Node::File(fs::read(entry.path())?));
                }
            }
        }
        Ok(found)
    }

    /// Which paths differ, and of files from which byte on.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let paths: BTreeSet<&PathBuf> = self.nodes.keys().chain(other.nodes.keys()).collect();
        let differing = paths.into_iter().filter_map(|path| {
            let (name, nodes) = (path.display(), (self.nodes.get(path), other.nodes.get(path)));
            match nodes {
                (one, another) if one == another => None,
                (Some(Node::File(one)), Some(Node::File(another))) => {
                    let alike = one.iter().zip(another).take_while(|(one, another)| one == another);
                    let (alike, one, another) = (alike.count(), one.len(), another.len());
                    Some(format!("{name} from byte {alike} on, of {one} and {another} bytes"))
                }
                _ => Some(name.to_string()),
            }
        });
        differing.collect::<Vec<_>>().join(", ")
    }

    /// Writes everything into `root`, which is created if need be.
    ///
    /// # Errors
    /// As the file system says.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        fs::create_dir_all(root)?;
        // A folder sorts before what is in it.
        for (path, node) in &self.nodes {
            match node {
                Node::Folder => fs::create_dir(root.join(path))?,
                Node::File(bytes) => fs::write(root.join(path), bytes)?,
            }
        }
        Ok(())
    }
}
