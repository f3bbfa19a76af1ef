//! Each law stands in one table, ARCHITECTURE.md section 4; code and tests only name it.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::tree::Tree;

const TABLE: &str = "ARCHITECTURE.md";
const FAMILIES: [&str; 5] = ["PL-", "ST-", "AG-", "SIM-", "NET-"];
/// Families whose laws are checked by code of their own, and where that is.
const CHECKED: [(&str, &[&str]); 2] = [
    ("ST-", &["crates/jaco-state/src/", "crates/jaco-proto/src/"]),
    ("SIM-", &["crates/jaco-sim/src/"]),
];
/// So many rows with ids make a second table.
const SECOND_TABLE: usize = 3;

/// Compares the table with the sources.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let (table, mut findings) = table(tree.get(TABLE).unwrap_or_default());
    let (mut in_code, mut in_tests) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in texts(tree) {
        let mut is_test = path.contains("tests/") || path.ends_with("tests.rs");
        let mut rows = 0;
        for (number, line) in (1..).zip(text.lines()) {
            is_test |= line.trim() == "#[cfg(test)]";
            rows += usize::from(is_row(line));
            for id in ids(line) {
                if !table.contains_key(&id) {
                    let what = format!("{id} is not in the table of laws in {TABLE}");
                    findings.push(Finding::new(format!("{path}:{number}"), what));
                } else if is_test {
                    in_tests.insert(id);
                } else if is_checker(path, &id) {
                    in_code.insert(id);
                }
            }
        }
        if rows >= SECOND_TABLE {
            findings.push(Finding::new(
                path,
                format!("describes laws a second time: name them, {TABLE} states them"),
            ));
        }
    }
    for (id, line) in &table {
        let place = || format!("{TABLE}:{line}");
        if !in_tests.contains(id) {
            findings.push(Finding::new(place(), format!("{id} is named by no test")));
        }
        if CHECKED.iter().any(|(family, _)| id.starts_with(family)) && !in_code.contains(id) {
            findings
                .push(Finding::new(place(), format!("{id} is named by no code that checks it")));
        }
    }
    findings
}

fn texts(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let all = tree.files("", "");
    all.filter(|(path, _)| {
        let is_source = path.ends_with(".rs") || path.ends_with(".txt") || path.ends_with(".md");
        is_source && *path != TABLE && *path != "CHANGELOG.md" && !path.starts_with("crates/xtask/")
    })
}

fn is_checker(path: &str, id: &str) -> bool {
    CHECKED.iter().any(|(family, folders)| {
        id.starts_with(family) && folders.iter().any(|folder| path.starts_with(folder))
    })
}

/// The ids of the table with their lines, and what is wrong with the table itself.
fn table(text: &str) -> (BTreeMap<String, usize>, Vec<Finding>) {
    let (mut table, mut findings, mut previous) = (BTreeMap::new(), Vec::new(), "");
    for (number, line) in (1..).zip(text.lines()) {
        let id = line.strip_prefix("| ").and_then(|row| row.split(" |").next());
        if let Some(id) = id.filter(|id| ids(id) == [*id]) {
            let place = || format!("{TABLE}:{number}");
            if !previous.starts_with('|') {
                findings.push(Finding::new(
                    place(),
                    format!("the row of {id} is outside of its table"),
                ));
            }
            if table.insert(id.to_owned(), number).is_some() {
                findings.push(Finding::new(place(), format!("{id} is stated twice")));
            }
        }
        previous = line;
    }
    (table, findings)
}

/// Whether a line of a document or a module comment is the row of a table or list that begins with an id.
fn is_row(line: &str) -> bool {
    let line = line.trim_start();
    let row = line.strip_prefix("//! ").unwrap_or(line);
    let cell = row.strip_prefix("| ").or_else(|| row.strip_prefix("- ")).unwrap_or_default();
    let cell = cell.trim_start_matches(['*', '`']);
    FAMILIES.iter().any(|family| cell.starts_with(family)) && !ids(cell).is_empty()
}

/// The ids that a line names; `ST-5 to ST-7` names three.
fn ids(line: &str) -> Vec<String> {
    let mut found: Vec<(usize, &str, u32)> = Vec::new();
    for family in FAMILIES {
        for (at, _) in line.match_indices(family) {
            let is_inside = line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
            let rest = &line[at + family.len()..];
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            if let Ok(number) = rest[..digits].parse()
                && !is_inside
            {
                found.push((at, family, number));
            }
        }
    }
    found.sort_unstable();
    let mut ids: Vec<String> =
        found.iter().map(|(_, family, number)| format!("{family}{number}")).collect();
    for pair in found.windows(2) {
        let ((from, family, first), (to, other, last)) = (pair[0], pair[1]);
        let between = &line[from..to];
        if family == other && (between.contains(" to ") || between.contains('…')) {
            ids.extend((first + 1..last).map(|number| format!("{family}{number}")));
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "| Id | Law |\n| --- | --- |\n| ST-1 | total |\n| PL-2 | idempotent |\n";

    fn found(files: [(&str, &str); 3]) -> Vec<(String, String)> {
        let pair = |finding: Finding| (finding.place, finding.what);
        check(&Tree::from(files)).into_iter().map(pair).collect()
    }

    #[test]
    fn table_code_and_tests_must_agree() {
        let code = ("crates/jaco-state/src/a.rs", "//! Keeps ST-1.\n");
        let tests = ("crates/a/tests/a.rs", "/// ST-1, PL-2\n");
        assert_eq!(found([(TABLE, GOOD), code, tests]), []);

        let tests = ("crates/a/tests/a.rs", "/// PL-2, SIM-7\n");
        let expected = [
            ("crates/a/tests/a.rs:1", "SIM-7 is not in the table of laws in ARCHITECTURE.md"),
            ("ARCHITECTURE.md:3", "ST-1 is named by no test"),
        ];
        let expected = expected.map(|(place, what)| (place.to_owned(), what.to_owned()));
        assert_eq!(found([(TABLE, GOOD), code, tests]), expected);
    }

    #[test]
    fn a_second_table_and_a_broken_one_are_found() {
        let second =
            "//! | ST-1 | a |\n//! - PL-2: b\n//! - **PL-2** c\n#[cfg(test)]\n// ST-1 PL-2\n";
        let broken = "| Id | Law |\n| ST-1 | total |\n\n| PL-2 | idempotent |\n";
        let found = found([(TABLE, broken), ("crates/jaco-state/src/a.rs", second), ("b.txt", "")]);
        let places: Vec<&str> = found.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["ARCHITECTURE.md:4", "crates/jaco-state/src/a.rs"]);
    }

    #[test]
    fn ranges_name_all_between() {
        assert_eq!(ids("see ST-5 to ST-8"), ["ST-5", "ST-8", "ST-6", "ST-7"]);
        assert_eq!(ids("TEST-5, PL-x, R-PL-3"), [""; 0]);
    }
}
