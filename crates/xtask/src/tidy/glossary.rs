//! Names of types and files in documents: each must exist.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::tree::Tree;

const GLOSSARY: &str = "docs/glossary.md";
/// Documents whose source files are checked to exist.
const MAPS: [&str; 4] =
    ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/glossary.md", "docs/testing.md"];
const KINDS: [&str; 8] = ["struct", "enum", "trait", "type", "fn", "const", "mod", "message"];

/// Checks the glossary's rows `| term | also | meaning | type | file |`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (mut findings, mut terms) = (Vec::new(), BTreeSet::new());
    for (number, line) in (1..).zip(tree.get(GLOSSARY).unwrap_or_default().lines()) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, term, _, _, types, files, _] = cells[..] else { continue };
        if term == "Term" || term.starts_with("---") {
            continue;
        }
        let mut found = |what| findings.push(Finding::new(format!("{GLOSSARY}:{number}"), what));
        if !terms.insert(term.to_lowercase()) {
            found(format!("{term} is explained twice"));
        }
        let texts: Vec<&str> = ticked(files).filter_map(|file| tree.get(file)).collect();
        for file in ticked(files).filter(|file| tree.get(file).is_none()) {
            found(format!("there is no file {file}"));
        }
        for name in ticked(types).filter(|name| !texts.iter().any(|text| defines(text, name))) {
            found(format!("{name} is not in the file named beside it"));
        }
    }
    findings
}

/// Source files that a document names and that do not exist.
pub(super) fn missing_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (document, text) in MAPS.iter().filter_map(|path| Some((path, tree.get(path)?))) {
        for (number, line) in (1..).zip(text.lines()) {
            let named = ticked(line)
                .filter(|name| name.ends_with(".rs") && !name.contains(['*', ' ', '{']));
            for name in named.filter(|name| !exists(tree, name)) {
                let what = format!("names {name}, which does not exist");
                findings.push(Finding::new(format!("{document}:{number}"), what));
            }
        }
    }
    findings
}

fn exists(tree: &Tree, name: &str) -> bool {
    tree.files("", name).any(|(path, _)| path == name || path.ends_with(&format!("/{name}")))
}

/// What stands between backticks.
fn ticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a text defines `Type`, or defines `Type` and contains `field` of `Type::field` or `Type.field`.
fn defines(text: &str, name: &str) -> bool {
    let mut parts = name.split("::").flat_map(|part| part.split('.'));
    let first = parts.next().unwrap_or_default();
    let is_defined = KINDS.iter().any(|kind| contains_word(text, &format!("{kind} {first}")));
    is_defined && parts.all(|part| contains_word(text, part))
}

fn contains_word(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_name) && !text[at + word.len()..].starts_with(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_what_exists() {
        let tree = Tree::from([
            ("a.rs", "pub struct Slot { index: u64 }"),
            (
                GLOSSARY,
                "| Term | Also | Meaning | Type | File |\n| --- | --- | --- | --- | --- |\n\
                 | slot | – | a | `Slot.index` | `a.rs` |\n| Slot | – | b | `Slots` | `b.rs` |\n",
            ),
        ]);
        let what: Vec<String> = check(&tree).into_iter().map(|finding| finding.what).collect();
        assert_eq!(
            what,
            [
                "Slot is explained twice",
                "there is no file b.rs",
                "Slots is not in the file named beside it"
            ]
        );
    }

    #[test]
    fn a_file_that_is_gone_is_found() {
        let tree =
            Tree::from([("ARCHITECTURE.md", "see `a/b.rs`, `c.rs`\n"), ("crates/x/a/b.rs", "")]);
        let expected = Finding::new("ARCHITECTURE.md:1", "names c.rs, which does not exist");
        assert_eq!(missing_files(&tree), [expected]);
    }
}
