//! Private words and phrases that no text may contain: what a reader of the field would not grep for.
//!
//! The list is `terms.txt`. Words are compared, not bytes: `InCompany`, `in_company` and "in company" are the same, and
//! so is a phrase that a line end divides.

mod pattern;
mod words;

use crate::finding::Finding;
use crate::tree::Tree;
use pattern::Patterns;

const TERMS: &str = include_str!("terms.txt");

/// Texts that quote: old names in the list itself and in a record's comparison, the promises as they were made.
const QUOTING: [&str; 5] = [
    "ADR/0068-judge-each-slot-once.md",
    "crates/xtask/src/tidy/language/",
    "crates/xtask/src/requirements/rows.tsv",
    "docs/requirements.md",
    "Cargo.lock",
];

/// All places with a refused word.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let patterns = Patterns::parse(TERMS);
    let quoting = |path: &str| {
        QUOTING.iter().any(|quoting| path.starts_with(quoting)) || path.contains("/frozen/")
    };
    let files = tree.files("", "").filter(|(path, _)| !quoting(path));
    files.flat_map(|(path, text)| check_file(&patterns, path, text)).collect()
}

fn check_file(patterns: &Patterns<'_>, path: &str, text: &str) -> Vec<Finding> {
    let is_source = path.ends_with(".rs") || path.ends_with(".proto");
    let text = if path == "CHANGELOG.md" { without_renamed(text) } else { text.to_owned() };
    let mut findings: Vec<Finding> = patterns
        .find(&words::of(&text), is_source)
        .into_iter()
        .map(|hit| {
            let what =
                format!("\"{}\" is not a term of the field: write {}", hit.found, hit.instead);
            Finding::new(format!("{path}:{}", hit.line), what)
        })
        .collect();
    let stem = path.rsplit('/').next().unwrap_or(path);
    findings.extend(patterns.find(&words::of(stem), is_source).into_iter().map(|hit| {
        Finding::new(path, format!("a file is named \"{}\": write {}", hit.found, hit.instead))
    }));
    findings
}

/// The changelog without the lines that list old names: they are `old → new`.
fn without_renamed(text: &str) -> String {
    let keep = |line: &str| if line.contains(" → ") { String::new() } else { line.to_owned() };
    text.lines().map(keep).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &'static str, text: &'static str) -> Vec<String> {
        check(&Tree::from([(path, text)])).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn a_planted_phrase_is_found_with_its_line_and_term() {
        let tree =
            Tree::from([("crates/a/src/a.rs", "//! A.\n/// Keeps what people\n/// said.\n")]);
        let what = "\"what people said\" is not a term of the field: write the desired state";
        assert!(check(&tree).contains(&Finding::new("crates/a/src/a.rs:2", what)));
    }

    #[test]
    fn identifiers_and_file_names_are_read_as_words() {
        assert_eq!(found("a.rs", "struct InCompany;\nfn in_company() {}\n"), ["a.rs:1", "a.rs:2"]);
        assert_eq!(found("src/company.rs", ""), ["src/company.rs"]);
        assert_eq!(found("a.rs", "enum Snug {}\nlet Snugly = 1;\n"), ["a.rs:1"]);
    }

    #[test]
    fn plain_english_is_accepted() {
        for text in [
            "the rest of the file",
            "data encrypted at rest",
            "what goes here",
            "it stands in the table",
            "CHANGELOG: companyish",
        ] {
            assert_eq!(found("docs/a.md", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_changelog_may_name_what_was_renamed() {
        assert_eq!(found("CHANGELOG.md", "- `company` → `colocation`\n"), [""; 0]);
        assert_eq!(found("CHANGELOG.md", "- company\n"), ["CHANGELOG.md:1"]);
    }
}
