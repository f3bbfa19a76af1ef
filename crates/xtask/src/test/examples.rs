//! The examples in doc comments, which only cargo can build: it builds a program for each package that is asked for,
//! also where there is no example, so only those that have some are.

use std::time::Duration;

use anyhow::{Context, Result};

use super::outcome::Outcome;
use super::program;
use crate::tree::Tree;
use crate::workspace::{Package, Workspace};

/// Runs them; none where there are none.
///
/// # Errors
/// If a source cannot be read, or it was interrupted.
pub(super) fn run(workspace: &Workspace, limit: Duration) -> Result<Outcome> {
    let mut names = Vec::new();
    for package in &workspace.packages {
        if has_examples(package)? {
            names.push(package.name.as_str());
        }
    }
    if names.is_empty() {
        return Ok(Outcome::default());
    }
    let mut command = workspace.cargo();
    command.args(["test", "--quiet", "--doc", "--no-fail-fast"]);
    command.args(names.iter().flat_map(|name| ["--package", name]));
    program::stream("doc tests", &mut command, limit)
}

fn has_examples(package: &Package) -> Result<bool> {
    let is_library =
        package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "lib"));
    let folder = package.manifest.parent().context("a manifest lies in a folder")?;
    if !is_library {
        return Ok(false);
    }
    let tree = Tree::read(folder, &folder.join("target"))?;
    Ok(tree.0.values().any(|text| has_example(text)))
}

/// Whether a doc comment opens a block of code that rustdoc takes for Rust: one without a language, or with words that
/// only say how it is run.
fn has_example(source: &str) -> bool {
    const HOW: [&str; 5] = ["", "rust", "no_run", "should_panic", "compile_fail"];
    let is_rust = |words: &str| {
        words
            .split(',')
            .map(str::trim)
            .all(|word| HOW.contains(&word) || word.starts_with("edition"))
    };
    let text = source
        .lines()
        .map(str::trim_start)
        .filter_map(|line| ["///", "//!"].iter().find_map(|start| line.strip_prefix(start)));
    let mut fences = text.filter_map(|text| text.trim().strip_prefix("```"));
    // Every second fence closes a block.
    while let Some(words) = fences.next() {
        if is_rust(words) {
            return true;
        }
        fences.next();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_rust_are_told_from_others() {
        let check = |source: &str, expected| assert_eq!(has_example(source), expected, "{source}");
        check("/// Adds.\n///\n/// ```\n/// assert_eq!(1 + 1, 2);\n/// ```\nfn add() {}", true);
        check("//! ```no_run\n//! wait();\n//! ```", true);
        check("    /// ```rust,should_panic\n    /// panic!();\n    /// ```", true);
        check("/// ```text\n/// a -> b\n/// ```\n", false);
        check("/// ```toml\n/// a = 1\n/// ```\n/// ```sh\n/// ls\n/// ```", false);
        check("/// ```text\n/// a\n/// ```\n/// ```\n/// let a = 1;\n/// ```", true);
        check("let text = \"```\";\n// ```\nfn add() {}", false);
    }
}
