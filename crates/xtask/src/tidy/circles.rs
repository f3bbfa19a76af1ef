//! No two modules of a crate use each other, directly or through others.

use crate::finding::Finding;
use crate::metrics;
use crate::tree::Tree;

/// Each group of modules that use each other.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let crates = metrics::circles(tree).into_iter();
    let findings = |(name, groups): (String, Vec<Vec<String>>)| {
        groups.into_iter().map(move |group| {
            let what = format!("modules use each other in a circle: {}", group.join(", "));
            Finding::new(format!("crates/{name}"), what)
        })
    };
    crates.flat_map(findings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found() {
        let tree = Tree::from([
            ("crates/new/Cargo.toml", ""),
            ("crates/new/src/a.rs", "use crate::b::B;\n"),
            ("crates/new/src/b.rs", "use crate::a::A;\n"),
        ]);
        let expected = Finding::new("crates/new", "modules use each other in a circle: a, b");
        assert_eq!(check(&tree), [expected]);
    }
}
