//! The changelog's gate: a version is released with the list of what it changes. Pure.

use anyhow::{Result, bail};

/// What packages are built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Release,
    Snapshot,
}

/// Refuses a version without a section of its own, or with changes that are in no version yet.
///
/// # Errors
/// What to write where.
pub(super) fn check(text: &str, version: &str) -> Result<()> {
    let changes = |title: &str| {
        let mut sections = text.split("\n## ").skip(1);
        let section = sections.find(|section| section.split_whitespace().next() == Some(title))?;
        Some(section.lines().filter(|line| line.starts_with("- ")).count())
    };
    if changes(version).is_none_or(|count| count == 0) {
        bail!(
            "CHANGELOG.md has no section \"## {version}\" with the changes of that version: rename \"## Unreleased\" as \
             docs/releasing.md says, or add --snapshot for packages that are no release"
        );
    }
    if let Some(count @ 1..) = changes("Unreleased") {
        bail!(
            "CHANGELOG.md has {count} changes under \"Unreleased\": they belong to {version}, or to a later version, which \
             Cargo.toml must name then; --snapshot makes packages that are no release"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_its_changes() {
        let released =
            "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n- a\n\n## 0.1.0\n\n- b\n";
        check(released, "0.2.0").expect("it has a section");
        check(&released.replace("## Unreleased\n\n", ""), "0.2.0").expect("no need for that");
    }

    #[test]
    fn what_is_missing_is_named() {
        let refused = |text: &str| check(text, "0.2.0").expect_err("not ready").to_string();
        for text in [
            "# C\n\n## Unreleased\n\n- a\n",
            "# C\n\n## 0.2.0\n\n## 0.1.0\n\n- b\n",
            "# C\n\n## 0.2.01\n\n- a\n",
        ] {
            assert!(refused(text).contains("no section \"## 0.2.0\""), "{text}");
        }
        let both = "# C\n\n## Unreleased\n\n- a\n- b\n\n## 0.2.0\n\n- c\n";
        assert!(refused(both).contains("2 changes under \"Unreleased\""));
    }
}
