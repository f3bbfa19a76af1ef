//! Examples are programs in `examples/`, which every build compiles. Those in doc comments take a build of their own, of
//! each library once more, and are read as prose.

use crate::finding::Finding;
use crate::tree::Tree;

/// What rustdoc takes for Rust, besides nothing: words that only say how a block is run.
const HOW: [&str; 5] = ["", "rust", "no_run", "should_panic", "compile_fail"];

/// Finds blocks of code in doc comments that rustdoc would run.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let blocks = tree.files("crates/", ".rs").flat_map(|(path, text)| {
        blocks(text).into_iter().map(move |line| {
            let what = "an example that nothing runs: make it a program in examples/, or name its language";
            Finding::new(format!("{path}:{line}"), what)
        })
    });
    blocks.collect()
}

/// The lines on which such a block begins.
fn blocks(source: &str) -> Vec<usize> {
    let is_rust = |words: &str| {
        words
            .split(',')
            .map(str::trim)
            .all(|word| HOW.contains(&word) || word.starts_with("edition"))
    };
    let fences = (1..).zip(source.lines()).filter_map(|(number, line)| {
        let line = line.trim_start();
        let text = ["///", "//!"].iter().find_map(|start| line.strip_prefix(start))?;
        Some((number, text.trim().strip_prefix("```")?))
    });
    // Every second fence closes a block.
    fences.step_by(2).filter(|(_, words)| is_rust(words)).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_rust_are_told_from_others() {
        let check = |source: &str, expected: &[usize]| {
            assert_eq!(blocks(source), expected, "{source}");
        };
        check("/// Adds.\n///\n/// ```\n/// assert_eq!(1 + 1, 2);\n/// ```\nfn add() {}", &[3]);
        check("//! ```no_run\n//! wait();\n//! ```", &[1]);
        check("    /// ```rust,should_panic\n    /// panic!();\n    /// ```", &[1]);
        check("/// ```text\n/// a -> b\n/// ```\n", &[]);
        check("/// ```toml\n/// a = 1\n/// ```\n/// ```sh\n/// ls\n/// ```", &[]);
        check("/// ```text\n/// a\n/// ```\n/// ```\n/// let a = 1;\n/// ```", &[4]);
        check("let text = \"```\";\n// ```\nfn add() {}", &[]);
    }

    #[test]
    fn the_place_is_named() {
        let tree =
            Tree::from([("crates/a/src/lib.rs", "//! A.\n//!\n//! ```\n//! a();\n//! ```\n")]);
        assert_eq!(check(&tree)[0].place, "crates/a/src/lib.rs:3");
    }
}
