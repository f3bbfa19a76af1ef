//! Everything in one archive, for systems without packages: unpacked into `/usr/local`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Release;
use super::arch::Architecture;
use super::contents::Entry;
use super::deb::Compression;
use super::staged;
use crate::process;

/// Writes the archive and returns its path.
///
/// # Errors
/// If tar or gzip is not there or fails.
pub(super) fn build(
    entries: Vec<Entry>,
    release: &Release,
    arch: Architecture,
    compression: Compression,
    scratch: &Path,
    out: &Path,
) -> Result<PathBuf> {
    let name = format!("jaco-{}-linux-{arch}", release.version);
    let parent = super::emptied(scratch.join("tarball"))?;
    let staged = staged::stage(&entries, parent.join(&name))?;
    staged::age(&staged.root, release.epoch)?;
    let archive = out.join(format!("{name}.tar"));
    let mut command = Command::new("tar");
    command.args(["--create", "--format=gnu", "--sort=name", "--owner=0", "--group=0"]);
    command.arg("--numeric-owner").arg(format!("--mtime=@{}", release.epoch));
    command.arg("--file").arg(&archive).arg("--directory").arg(&parent).arg(&name);
    process::run(&mut command).context("GNU tar writes the archive")?;
    let level = match compression {
        Compression::Small => "-9",
        Compression::Quick => "-1",
    };
    let mut command = Command::new("gzip");
    process::run(command.args([level, "--no-name", "--force"]).arg(&archive))?;
    Ok(out.join(format!("{name}.tar.gz")))
}
