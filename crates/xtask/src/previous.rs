//! The programs of the release before this tree, built from its commit: what an upgrade begins with.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::finding::Finding;
use crate::workspace::{PROGRAMS, Workspace, program_packages};
use crate::{process, say};

/// Which release that is. Where its tag is does not matter: a copy of the history may have none.
const RECORD: &str = "tests/previous-release";

/// A release, as [`RECORD`] names it.
#[derive(Debug, PartialEq, Eq)]
struct Release {
    version: String,
    commit: String,
}

/// Builds the programs, without optimisation, unless they are there since an earlier run, and returns their folder.
///
/// What other crates they need is shared with the build of this tree, which has to come after this one: programs have the
/// same names in the target folder.
///
/// # Errors
/// If the history has no such commit, or it does not build.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let release = recorded(workspace)?;
    let folder = workspace.target.join("releases").join(&release.commit);
    if PROGRAMS.iter().all(|program| folder.join(program).is_file()) {
        return Ok(folder);
    }
    say::note(&format!("building the programs of release {}", release.version));
    // Elsewhere: below this tree, cargo would add its configuration to that of the release.
    let source = std::env::temp_dir().join(format!("jaco-release-{}", release.version));
    unpack(workspace, &release, &source)?;
    let mut command = workspace.cargo();
    command.current_dir(&source).args(["build", "--quiet", "--locked", "--bins"]);
    command.args(program_packages()).arg("--target-dir").arg(&workspace.target);
    // Only of crates that are not shared. Few services are parsed by them, and nobody steps through them.
    command.args(["--config", "profile.dev.package.jaco-compose.opt-level=0"]);
    command.args(["--config", "profile.dev.debug=false"]);
    process::run(&mut command).with_context(|| format!("release {}", release.version))?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
    for program in PROGRAMS {
        let from = workspace.target.join("debug").join(program);
        copy(&from, &folder.join(program))?;
    }
    std::fs::remove_dir_all(&source).with_context(|| format!("cannot remove {source:?}"))?;
    Ok(folder)
}

/// What is wrong with the record: a commit that no copy of this history has can be upgraded from by nobody.
///
/// # Errors
/// If there is no record or no git.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let Release { version, commit } = recorded(workspace)?;
    if is_in_history(&workspace.root, &commit)? {
        return Ok(Vec::new());
    }
    let what = format!(
        "the history of HEAD has no commit {commit} for release {version}: name another one, or git fetch --unshallow"
    );
    Ok(vec![Finding::new(RECORD, what)])
}

fn recorded(workspace: &Workspace) -> Result<Release> {
    let path = workspace.root.join(RECORD);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path:?}"))?;
    Release::parse(&text).with_context(|| format!("{path:?}"))
}

/// Whether HEAD descends from it. One of another branch is in this copy of the history and may be in no other one.
fn is_in_history(root: &Path, commit: &str) -> Result<bool> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["merge-base", "--is-ancestor", commit, "HEAD"]);
    Ok(process::capture_all(&mut git)?.status.success())
}

/// The whole tree of the release, as it was.
fn unpack(workspace: &Workspace, release: &Release, source: &Path) -> Result<()> {
    if source.exists() {
        std::fs::remove_dir_all(source).with_context(|| format!("cannot remove {source:?}"))?;
    }
    std::fs::create_dir_all(source).with_context(|| format!("cannot create {source:?}"))?;
    let archive = source.with_extension("tar");
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["archive", "--format", "tar", "--output"]);
    process::run(git.arg(&archive).arg(&release.commit)).with_context(|| {
        let Release { version, commit } = release;
        format!("release {version} is commit {commit}, which takes the whole history: git fetch --unshallow")
    })?;
    process::run(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(source))?;
    std::fs::remove_file(&archive).with_context(|| format!("cannot remove {archive:?}"))
}

/// A copy whose name is there once it is whole.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let part = to.with_extension("part");
    std::fs::copy(from, &part).with_context(|| format!("cannot copy {from:?}"))?;
    std::fs::rename(&part, to).with_context(|| format!("cannot name {to:?}"))
}

impl Release {
    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
        let is_commit =
            |word: &str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match lines.as_slice() {
            [line] => match line.as_slice() {
                [version, commit] if is_commit(commit) => {
                    Ok(Self { version: (*version).to_owned(), commit: (*commit).to_owned() })
                }
                _ => bail!("its line is not a version and the 40 digits of a commit"),
            },
            _ => bail!("it has {} lines that are no comments, and not one", lines.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_a_version_and_a_commit() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let release = Release { version: "0.1.0".to_owned(), commit: commit.to_owned() };
        let parsed = Release::parse(&format!("# Why.\n0.1.0 {commit}\n"));
        assert_eq!(parsed.expect("valid"), release);
        for wrong in ["", "0.1.0 v0.1.0\n", &format!("0.1.0 {commit}\n0.2.0 {commit}\n"), "0.1.0\n"]
        {
            assert!(Release::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_release_is_a_commit_that_head_descends_from() {
        let folder = tempfile::tempdir().expect("a folder");
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.current_dir(folder.path()).args(["-c", "user.name=n", "-c", "user.email=e"]);
            let output = git.args(arguments).output().expect("git");
            assert!(output.status.success(), "{arguments:?}: {output:?}");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        let commit = |message| {
            git(&["commit", "--quiet", "--allow-empty", "--message", message]);
            git(&["rev-parse", "HEAD"])
        };
        git(&["init", "--quiet"]);
        let first = commit("released");
        git(&["checkout", "--quiet", "-b", "other"]);
        let elsewhere = commit("never merged");
        git(&["checkout", "--quiet", &first]);
        let second = commit("after it");
        let known = |commit| is_in_history(folder.path(), commit).expect("git");
        assert!(known(&first) && known(&second));
        assert!(!known(&elsewhere) && !known(&"0".repeat(40)));
    }

    #[test]
    fn the_record_is_one() {
        Release::parse(include_str!("../../../tests/previous-release")).expect("valid");
    }
}
