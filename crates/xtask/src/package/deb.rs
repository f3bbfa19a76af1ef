//! A Debian package, put together by dpkg-deb.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Release;
use super::arch::Architecture;
use super::contents::Package;
use super::staged::{self, Staged};
use crate::process;

/// How small packages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Small,
    Quick,
}

/// Writes a package and returns its path.
///
/// # Errors
/// If dpkg-deb is not there or refuses.
pub(super) fn build(
    package: &Package,
    release: &Release,
    arch: Architecture,
    compression: Compression,
    scratch: &Path,
    out: &Path,
) -> Result<PathBuf> {
    let (name, version) = (package.control.package, release.debian());
    let staged = staged::stage(&package.files, scratch.join(name))?;
    let control = staged.root.join("DEBIAN");
    let kibibytes = staged.bytes.div_ceil(1024);
    staged::write(
        &control.join("control"),
        package.control.text(release, arch, kibibytes).as_bytes(),
    )?;
    staged::write(&control.join("md5sums"), checksums(package, &staged)?.as_bytes())?;
    if !package.conffiles.is_empty() {
        let list = package.conffiles.join("\n") + "\n";
        staged::write(&control.join("conffiles"), list.as_bytes())?;
    }
    for (script, text) in &package.scripts {
        staged::write(&control.join(script), text)?;
    }
    for entry in std::fs::read_dir(&control)? {
        let path = entry?.path();
        let is_script = package.scripts.iter().any(|(script, _)| path.ends_with(script));
        let mode = if is_script { 0o755 } else { 0o644 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    }
    std::fs::set_permissions(&control, std::fs::Permissions::from_mode(0o755))?;
    staged::age(&staged.root, release.epoch)?;

    let deb = out.join(format!("{name}_{version}_{arch}.deb"));
    let mut command = Command::new("dpkg-deb");
    command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    // The number of threads decides where blocks of the compression end.
    command.args(["--root-owner-group", "--threads-max=1"]);
    command.args(match compression {
        Compression::Small => ["-Zxz", "-z6"],
        Compression::Quick => ["-Zgzip", "-z1"],
    });
    process::run(command.arg("--build").arg(&staged.root).arg(&deb))
        .context("dpkg-deb, of Debian's package dpkg, writes the packages")?;
    Ok(deb)
}

/// By which `dpkg --verify` finds files that were changed; those of the administrator are not among them.
fn checksums(package: &Package, staged: &Staged) -> Result<String> {
    let kept = |file: &&String| !package.conffiles.iter().any(|conffile| conffile[1..] == ***file);
    let mut command = Command::new("md5sum");
    command.current_dir(&staged.root).arg("--").args(staged.files.iter().filter(kept));
    process::capture(&mut command)
}
