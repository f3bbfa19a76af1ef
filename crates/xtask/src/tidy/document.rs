//! Documents that must keep step with something else: error pages with codes, the index with the decisions.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::tree::Tree;

const PAGES: &str = "docs/errors/";
const MANIFEST_CODES: &str = "crates/jaco-compose/src/diagnostics/code.rs";
const DECISIONS: &str = "ADR/";
const INDEX: &str = "ADR/README.md";

/// The codes of problems in manifests, which are listed as `Variant => "code",`.
pub(super) fn manifest_codes(tree: &Tree) -> impl Iterator<Item = &str> {
    let lines = tree.get(MANIFEST_CODES).unwrap_or_default().lines();
    lines.filter_map(|line| line.split_once(" => \"")?.1.trim_end().strip_suffix("\","))
}

/// Each code has a page that has something to say, and each page has a code.
pub(super) fn error_pages<'a>(
    tree: &Tree,
    codes: impl IntoIterator<Item = &'a str>,
) -> Vec<Finding> {
    let codes: BTreeSet<String> = codes.into_iter().map(page_of).collect();
    let pages: BTreeSet<String> = tree
        .files(PAGES, ".md")
        .filter(|(path, text)| *path != "docs/errors/README.md" && !text.trim().is_empty())
        .map(|(path, _)| path.to_owned())
        .collect();
    let missing = codes.difference(&pages).map(|page| (page, "has nothing to say about its code"));
    let orphaned =
        pages.difference(&codes).map(|page| (page, "is about a code that does not exist"));
    missing.chain(orphaned).map(|(page, what)| Finding::new(page, what)).collect()
}

fn page_of(code: &str) -> String {
    format!("{PAGES}{code}.md")
}

/// The index of decisions links every decision. The template begins with no number and is none.
pub(super) fn decision_index(tree: &Tree) -> Vec<Finding> {
    let index = tree.get(INDEX).unwrap_or_default();
    let name_of = |path: &str| path[DECISIONS.len()..].to_owned();
    let decisions = tree
        .files(DECISIONS, ".md")
        .map(|(path, _)| name_of(path))
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()));
    let unlisted = decisions.filter(|name| !index.contains(&format!("({name})")));
    unlisted.map(|name| Finding::new(INDEX, format!("does not link {name}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_manifests_are_read_from_their_list() {
        let text = "codes! {\n    /// Why.\n    A => \"a_code\",\n    B => \"b\",\n}\n";
        let tree = Tree::from([(MANIFEST_CODES, text)]);
        assert_eq!(manifest_codes(&tree).collect::<Vec<_>>(), ["a_code", "b"]);
    }

    #[test]
    fn codes_and_pages_must_match() {
        let tree = Tree::from([
            ("docs/errors/README.md", "index"),
            ("docs/errors/no_leader.md", "advice"),
            ("docs/errors/old.md", "advice"),
            ("docs/errors/empty.md", "\n"),
        ]);
        let found = error_pages(&tree, ["no_leader", "empty", "new"]);
        let expected = [
            ("docs/errors/empty.md", "has nothing to say about its code"),
            ("docs/errors/new.md", "has nothing to say about its code"),
            ("docs/errors/old.md", "is about a code that does not exist"),
        ];
        assert_eq!(found, expected.map(|(place, what)| Finding::new(place, what)));
    }

    #[test]
    fn an_unlisted_decision_is_found() {
        let tree = Tree::from([
            ("ADR/README.md", "- [One](0001-one.md)\n"),
            ("ADR/0001-one.md", ""),
            ("ADR/0002-two.md", ""),
            ("ADR/template.md", ""),
        ]);
        let expected = [Finding::new("ADR/README.md", "does not link 0002-two.md")];
        assert_eq!(decision_index(&tree), expected);
    }
}
