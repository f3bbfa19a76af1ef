//! Frozen instances of stored and exchanged formats: locked by their hashes, because old bytes must stay readable.
//!
//! An instance is a whole file, or one hexadecimal literal in a source file, wherever in its crate that is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::finding::Finding;
use crate::tree::Tree;
use crate::workspace::Workspace;

/// A line for each instance: its hash, and where it is.
const LOCK: &str = "crates/xtask/src/tidy/frozen.sha256";
/// Folders whose every file is an instance.
const FOLDERS: [&str; 2] = ["crates/jaco-pki/tests/it/frozen", "crates/jaco-backup/src/frozen"];
/// Crates with instances in their sources: the files that speak of what is frozen.
const CRATES: [&str; 2] = ["crates/jaco-proto", "crates/jaco-raft"];
/// Shortest literal that is an instance.
const LITERAL_MIN: usize = 16;

/// Hashes and where each instance is.
type Instances = BTreeSet<(String, String)>;

/// Compares the instances with the lock; with `write`, first adds those that are new.
///
/// # Errors
/// If an instance or the lock cannot be read or written.
pub(super) fn run(workspace: &Workspace, tree: &Tree, write: bool) -> Result<Vec<Finding>> {
    let path = workspace.root.join(LOCK);
    let mut locked = parse(&std::fs::read_to_string(&path).unwrap_or_default());
    let present: Instances = files(&workspace.root)?.into_iter().chain(literals(tree)).collect();
    if write {
        let whole: BTreeMap<_, _> = locked.iter().map(|(hash, place)| (place, hash)).collect();
        let is_changed = |place: &String| !is_crate(place) && whole.contains_key(place);
        let new: Vec<_> = present.iter().filter(|(_, place)| !is_changed(place)).cloned().collect();
        locked.extend(new);
        let mut lines: Vec<_> =
            locked.iter().map(|(hash, place)| format!("{place}  {hash}\n")).collect();
        lines.sort();
        std::fs::write(&path, lines.concat()).with_context(|| format!("cannot write {path:?}"))?;
    }
    Ok(compare(&locked, &present))
}

fn compare(locked: &Instances, present: &Instances) -> Vec<Finding> {
    let gone = locked.difference(present).map(|(hash, place)| {
        let what = format!("the frozen instance {hash:.12} is missing or changed: put it back, and add a new one beside it");
        Finding::new(place, what)
    });
    let new = present.difference(locked);
    let new = new.map(|(hash, place)| {
        Finding::new(
            place,
            format!("the frozen instance {hash:.12} is new: lock it with tidy --write"),
        )
    });
    gone.chain(new).collect()
}

fn is_crate(place: &str) -> bool {
    CRATES.contains(&place)
}

fn parse(lock: &str) -> Instances {
    let entry =
        |line: &str| line.split_once("  ").map(|(place, hash)| (hash.to_owned(), place.to_owned()));
    lock.lines().filter_map(entry).collect()
}

fn files(root: &Path) -> Result<Instances> {
    let mut instances = Instances::new();
    for folder in FOLDERS {
        let path = root.join(folder);
        for entry in std::fs::read_dir(&path).with_context(|| format!("cannot list {path:?}"))? {
            let entry = entry?;
            let bytes =
                std::fs::read(entry.path()).with_context(|| format!("cannot read {entry:?}"))?;
            instances.insert((
                hash(&bytes),
                format!("{folder}/{}", entry.file_name().to_string_lossy()),
            ));
        }
    }
    Ok(instances)
}

fn literals(tree: &Tree) -> Instances {
    let mut instances = Instances::new();
    for folder in CRATES {
        let prefix = format!("{folder}/");
        let sources = tree
            .files(&prefix, ".rs")
            .filter(|(path, text)| path.contains("frozen") || text.contains("frozen"));
        let found = sources.flat_map(|(_, text)| literals_of(text));
        instances.extend(found.map(|literal| (hash(literal.as_bytes()), folder.to_owned())));
    }
    instances
}

/// Hexadecimal literals of a source file, those over several lines as one.
fn literals_of(text: &str) -> Vec<String> {
    let parts: Vec<&str> = text.split('"').collect();
    let whole = |part: &&str| -> String {
        part.chars().filter(|c| !c.is_whitespace() && *c != '\\').collect()
    };
    let is_hex = |literal: &String| {
        literal.len() >= LITERAL_MIN && literal.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    parts.iter().map(whole).filter(is_hex).collect()
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_missing_and_new_instances_are_found() {
        let (locked, present) = (parse("a  11\nb  22\nc  33\n"), parse("a  11\nb  99\nd  44\n"));
        let places: Vec<_> =
            compare(&locked, &present).into_iter().map(|found| found.place).collect();
        assert_eq!(places, ["b", "c", "d", "b"]);
    }

    #[test]
    fn a_literal_over_lines_is_one_instance() {
        let text = "f(\"0011223344556677\\\n     8899\"); g(\"00\", \"not hex, but long enough\")";
        assert_eq!(literals_of(text), ["00112233445566778899"]);
    }
}
