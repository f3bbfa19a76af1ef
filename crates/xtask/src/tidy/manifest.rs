//! What every manifest of ours must say.

use crate::finding::Finding;
use crate::tree::Tree;

/// Has those of the workspace, but for `unsafe_code`, in lines of its own (ADR 0128).
const OWN_LINTS: &str = "crates/jaco-heap/Cargo.toml";

/// Checks the manifests of all members.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_ours = |path: &str| path != "Cargo.toml" && path != OWN_LINTS;
    let members = tree.files("", "Cargo.toml").filter(|(path, _)| is_ours(path));
    let unlinted = members.filter(|(_, text)| !takes_workspace_lints(text));
    let what = "does not take the workspace's lints: add `[lints]` with `workspace = true`";
    unlinted.map(|(path, _)| Finding::new(path, what)).collect()
}

fn takes_workspace_lints(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.by_ref().take_while(|line| !line.starts_with('[')).any(|line| line == "workspace = true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_without_the_lints_is_found() {
        let tree = Tree::from([
            ("Cargo.toml", "[workspace]"),
            ("crates/a/Cargo.toml", "[package]\n[lints]\nworkspace = true\n"),
            ("crates/b/Cargo.toml", "[package]\nversion.workspace = true\n"),
            ("crates/c/Cargo.toml", "[lints]\n[package.edition]\nworkspace = true\n"),
        ]);
        let places: Vec<String> = check(&tree).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["crates/b/Cargo.toml", "crates/c/Cargo.toml"]);
    }
}
