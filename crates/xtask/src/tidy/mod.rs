//! `cargo xtask tidy`: the rules of this repository that no compiler knows.
//!
//! Each rule is a function from texts or manifests to findings, so that each is tested against a bad example.

mod circles;
mod commands;
mod dependencies;
mod document;
mod examples;
mod frozen;
mod glossary;
mod language;
mod laws;
mod layering;
mod manifest;
mod purity;
mod source;

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::finding::Finding;
use crate::tree::Tree;
use crate::workspace::Workspace;
use crate::{previous, requirements, say};

/// Check what no compiler checks: layering, purity, dependencies, documents, texts
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Write the files that are generated instead of comparing them
    #[arg(long)]
    write: bool,
}

/// Checks everything and prints what it found; `xtask` is this program's own command line.
///
/// # Errors
/// If anything is found, or the repository cannot be read.
pub(crate) fn run(workspace: &Workspace, args: &Args, xtask: &clap::Command) -> Result<()> {
    let generated = |tree: &Tree| {
        let mut files = purity::files();
        files.push((requirements::PATH.to_owned(), requirements::document(tree)));
        files
    };
    let mut tree = Tree::read(&workspace.root, &workspace.target)?;
    if args.write {
        for (path, text) in generated(&tree) {
            if tree.get(&path) != Some(&text) {
                std::fs::write(workspace.root.join(&path), text)?;
                say::note(&format!("wrote {path}"));
            }
        }
        tree = Tree::read(&workspace.root, &workspace.target)?;
    }
    let mut findings = rules(workspace, &tree, xtask);
    findings.extend(dependencies::run(workspace, &tree)?);
    findings.extend(previous::check(workspace)?);
    findings.extend(outdated(&tree, generated(&tree)));
    findings.extend(frozen::run(workspace, &tree, args.write)?);
    findings.sort();
    for Finding { place, what } in &findings {
        say::result(&format!("{place}: {what}"));
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("tidy found {count} breaches"),
    }
}

fn rules(workspace: &Workspace, tree: &Tree, xtask: &clap::Command) -> Vec<Finding> {
    let codes = jaco_types::ErrorCode::ALL.iter().map(|code| code.as_str());
    let codes = codes.chain(document::manifest_codes(tree));
    let mut findings = layering::check(&workspace.packages);
    findings.extend(circles::check(tree));
    findings.extend(commands::check(tree, xtask));
    findings.extend(examples::check(tree));
    findings.extend(glossary::check(tree));
    findings.extend(glossary::missing_files(tree));
    findings.extend(language::check(tree));
    findings.extend(laws::check(tree));
    findings.extend(manifest::check(tree));
    findings.extend(source::check(tree));
    findings.extend(source::personal_paths(tree, &personal_paths(workspace)));
    findings.extend(document::error_pages(tree, codes));
    findings.extend(document::decision_index(tree));
    findings.extend(requirements::unknown_rows(tree));
    findings
}

/// Paths that mean something on this machine only.
fn personal_paths(workspace: &Workspace) -> Vec<String> {
    let homes = ["HOME", "CARGO_HOME", "RUSTUP_HOME"].iter().filter_map(std::env::var_os);
    let cargo_in_home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let folders = [workspace.root.clone(), workspace.target.clone()];
    homes
        .map(PathBuf::from)
        .chain(cargo_in_home)
        .chain(folders)
        // `/src` or `/root` may mean the inside of a container; two parts name a place on a machine.
        .filter(|path| path.components().count() > 2)
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

fn outdated(tree: &Tree, expected: Vec<(String, String)>) -> Vec<Finding> {
    let differs = |(path, text): &(String, String)| tree.get(path) != Some(text);
    let finding = |(path, _)| Finding::new(path, "is generated and out of date: tidy --write");
    expected.into_iter().filter(differs).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_file_that_differs_or_is_missing_is_found() {
        let tree = Tree::from([("a", "new"), ("b", "old")]);
        let expected = ["a", "b", "c"].map(|path| (path.to_owned(), "new".to_owned()));
        let places: Vec<String> =
            outdated(&tree, expected.into()).into_iter().map(|found| found.place).collect();
        assert_eq!(places, ["b", "c"]);
    }
}
