//! What every source file must have, and what no text of ours may contain.

use crate::finding::Finding;
use crate::tree::Tree;

/// What stands for work that was not done. Cut in two, so that this file does not find itself.
const UNFINISHED: [(&str, &str); 5] = [
    (concat!("TO", "DO"), "a promise to nobody: do it, or say why not"),
    (concat!("FIX", "ME"), "a promise to nobody: do it, or say why not"),
    (concat!("todo", "!("), "unfinished code"),
    (concat!("unimplemented", "!("), "unfinished code"),
    (concat!("#[", "ignore"), "a test that does not run proves nothing"),
];

/// Checks all source files.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files("", ".rs").flat_map(|(path, text)| check_file(path, text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let headless = !text.trim_start().starts_with("//!");
    let head = headless.then(|| Finding::new(path, "does not begin with `//!`: what is it for?"));
    let numbered = (1..).zip(text.lines());
    let unfinished = numbered.flat_map(|(number, line)| {
        let hits = UNFINISHED.iter().filter(move |(sign, _)| has(line, sign));
        hits.map(move |(sign, why)| {
            Finding::new(format!("{path}:{number}"), format!("{sign} is {why}"))
        })
    });
    head.into_iter().chain(unfinished).collect()
}

/// Whether a line contains a sign, but not as the begin of a string or of a line in one.
fn has(line: &str, sign: &str) -> bool {
    line.match_indices(sign)
        .any(|(at, _)| !line[..at].ends_with('"') && !line[..at].ends_with("\\n"))
}

/// Finds paths that mean something on one machine only, in all texts.
pub(super) fn personal_paths(tree: &Tree, personal: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files("", "") {
        for (number, line) in (1..).zip(text.lines()) {
            if personal.iter().any(|personal| names(line, personal)) {
                let place = format!("{path}:{number}");
                findings.push(Finding::new(place, "names a path of one machine"));
            }
        }
    }
    findings
}

/// Whether a line contains `path` as a path or as the beginning of one.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_head_is_found() {
        let found = check(&Tree::from([("a.rs", "fn main() {}"), ("b.rs", "//! B.\n")]));
        assert_eq!(found, [Finding::new("a.rs", "does not begin with `//!`: what is it for?")]);
    }

    #[test]
    fn unfinished_work_is_found_with_its_line() {
        for (sign, _) in UNFINISHED {
            let found = check_file("a.rs", &format!("//! A.\nfn a() {{ {sign} }}\n"));
            assert_eq!(found.len(), 1, "{sign}");
            assert_eq!(found[0].place, "a.rs:2");
        }
    }

    #[test]
    fn personal_paths_are_found_and_their_namesakes_not() {
        let tree = Tree::from([("docs/a.md", "fine\ncd /home/ann/jaco/docs\n/home/ann/jaco2\n")]);
        let found = personal_paths(&tree, &["/home/ann/jaco".to_owned()]);
        assert_eq!(found, [Finding::new("docs/a.md:2", "names a path of one machine")]);
    }
}
