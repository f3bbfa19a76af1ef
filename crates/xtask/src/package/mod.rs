//! `cargo xtask package`: Debian packages, a tarball, a bill of materials and checksums, the same bytes each time.
//!
//! What a package holds is in [`contents`], as data; the rest finds its parts and has Debian's own tools put them
//! together. It must never write anything that depends on the machine or on the moment: times are those of the commit,
//! members are sorted, owners are numbers.

mod arch;
mod bill;
mod changelog;
mod contents;
mod control;
mod deb;
mod foreign;
mod gzip;
mod programs;
mod staged;
mod sums;
mod tarball;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{process, say};
use arch::Architecture;
use changelog::Purpose;
use contents::Material;
use deb::Compression;

/// Length of a package at most: every node downloads one for each upgrade.
const PACKAGE_BYTES_MAX: u64 = 20_000_000;

/// Build Debian packages, a tarball, a bill of materials and checksums
///
/// Without --bin-dir it builds release programs. The version is that of the workspace in Cargo.toml, which
/// CHANGELOG.md must have a section for. Needs dpkg-deb, tar, gzip and readelf.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Package the programs `jaco` and `jacod` of this folder
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,
    /// Debian's name of the architecture [default: this machine's]
    #[arg(long, value_enum)]
    arch: Option<Architecture>,
    /// Where the files go [default: target/package]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The packaging of the version; raised where the same version is packaged again
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    revision: u32,
    /// Who answers for the packages
    #[arg(
        long,
        value_name = "NAME <MAIL>",
        default_value = "The authors of JACO <jaco@localhost>"
    )]
    maintainer: String,
    /// Package a version that is not released: it sorts before the release, and has the time and hash of the commit
    #[arg(long)]
    snapshot: bool,
    /// Compress little, for tests
    #[arg(long)]
    quick: bool,
}

/// Builds everything and lists it.
///
/// # Errors
/// If the version is not ready to be released, or something does not build.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut steps = say::Steps::begin();
    let arch = match args.arch {
        Some(arch) => arch,
        None => Architecture::of_host()?,
    };
    let purpose = if args.snapshot { Purpose::Snapshot } else { Purpose::Release };
    let compression = if args.quick { Compression::Quick } else { Compression::Small };
    let release = Release::of(workspace, purpose, args)?;
    if purpose == Purpose::Release && args.bin_dir.is_none() {
        refuse_uncommitted(workspace)?;
    }

    steps.next(&format!("programs for {arch}"));
    let programs = programs::find(workspace, args.bin_dir.as_deref(), arch, release.epoch)?;
    steps.next("man pages, completions and the bill of materials");
    let scratch = emptied(workspace.scratch()?.join("package"))?;
    let material = Material {
        pages: programs.pages(&scratch)?,
        completions: programs.completions()?,
        bill: bill::make(workspace, arch, &release)?,
        deploy: workspace.root.join("deploy"),
        root: workspace.root.clone(),
    };

    steps.next(&format!("packages of version {}", release.debian()));
    let out = args.out.clone().unwrap_or_else(|| workspace.target.join("package"));
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {out:?}"))?;
    let client = contents::client(&programs, &material, &release)?;
    let daemon = contents::daemon(&programs, &material, &release)?;
    let mut made = Vec::new();
    for package in [&client, &daemon] {
        made.push(deb::build(package, &release, arch, compression, &scratch, &out)?);
    }
    let files = contents::tarball(&programs, &material)?;
    made.push(tarball::build(files, &release, arch, compression, &scratch, &out)?);
    let bill = out.join(format!("jaco-{}-{arch}.cdx.json", release.version));
    std::fs::write(&bill, &material.bill).with_context(|| format!("cannot write {bill:?}"))?;
    made.push(bill);
    made.push(sums::write(&made, &out)?);

    for file in &made {
        let bytes = std::fs::metadata(file)?.len();
        if is_too_large(file, bytes, compression) {
            let (is, may) = (megabytes(bytes), megabytes(PACKAGE_BYTES_MAX));
            bail!("{} has {is:.1} MB, more than the {may:.0} MB that are promised", file.display());
        }
        say::result(&format!("{:>7.1} MB  {}", megabytes(bytes), file.display()));
    }
    Ok(())
}

/// What is packaged: a version, and the moment of its commit.
#[derive(Debug)]
pub(crate) struct Release {
    /// As file names have it; a snapshot has the time and hash of its commit.
    version: String,
    revision: u32,
    /// Seconds since 1970 of the commit, or `SOURCE_DATE_EPOCH`.
    epoch: u64,
    maintainer: String,
}

impl Release {
    fn of(workspace: &Workspace, purpose: Purpose, args: &Args) -> Result<Self> {
        let version = workspace.version()?;
        let epoch = moment(workspace)?;
        let version = match purpose {
            Purpose::Release => {
                let path = workspace.root.join("CHANGELOG.md");
                let text = std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {path:?}"))?;
                changelog::check(&text, version)?;
                version.to_owned()
            }
            Purpose::Snapshot => {
                let hash = git(workspace, &["rev-parse", "--short=8", "HEAD"])?;
                format!("{version}~{}.{hash}", date(epoch, "+%Y%m%d%H%M%S")?)
            }
        };
        let (revision, maintainer) = (args.revision, args.maintainer.clone());
        Ok(Self { version, revision, epoch, maintainer })
    }

    /// As Debian has it: a pre-release sorts before the release.
    fn debian(&self) -> String {
        format!("{}-{}", self.version.replace('-', "~"), self.revision)
    }
}

/// A moment in a format of date(1), in UTC.
fn date(epoch: u64, format: &str) -> Result<String> {
    let mut command = Command::new("date");
    command.env("LC_ALL", "C").args(["--utc", &format!("--date=@{epoch}"), format]);
    Ok(process::capture(&mut command)?.trim().to_owned())
}

/// The time that all files get.
fn moment(workspace: &Workspace) -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => git(workspace, &["log", "-1", "--format=%ct"]).context(
            "the time of the files is that of the commit: run in a git checkout, or set SOURCE_DATE_EPOCH",
        )?,
    };
    text.parse().with_context(|| format!("{text:?} is no number of seconds since 1970"))
}

fn refuse_uncommitted(workspace: &Workspace) -> Result<()> {
    let changed = git(workspace, &["status", "--porcelain"])?;
    if !changed.is_empty() {
        bail!(
            "a release is built from a commit, and these are not committed: {}; commit them, or add --snapshot",
            changed.lines().map(str::trim).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(())
}

fn git(workspace: &Workspace, args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.current_dir(&workspace.root).args(args);
    Ok(process::capture(&mut command)?.trim().to_owned())
}

/// A folder of ours without what an earlier run left.
fn emptied(folder: PathBuf) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {folder:?}"))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {folder:?}"))?;
    Ok(folder)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {path:?}"))
}

/// Where cargo keeps what it has downloaded.
///
/// # Errors
/// If no variable says so.
fn cargo_home() -> Result<PathBuf> {
    let named = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    named.or(home).context("neither CARGO_HOME nor HOME is set")
}

/// Whether a package is larger than is promised. One that is compressed little is for tests.
fn is_too_large(file: &Path, bytes: u64, compression: Compression) -> bool {
    let is_package = file.extension().is_some_and(|extension| extension == "deb");
    is_package && compression == Compression::Small && bytes > PACKAGE_BYTES_MAX
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pre_release_sorts_before_the_release() {
        let release = |version: &str| Release {
            version: version.to_owned(),
            revision: 2,
            epoch: 0,
            maintainer: String::new(),
        };
        assert_eq!(release("0.2.0").debian(), "0.2.0-2");
        assert_eq!(release("0.2.0-rc.1").debian(), "0.2.0~rc.1-2");
    }

    /// R-OPS-1: a package has 20 MB at most.
    #[test]
    fn packages_have_a_bound() {
        let is = |name: &str, bytes| is_too_large(Path::new(name), bytes, Compression::Small);
        assert!(is("jacod_0.1.0-1_amd64.deb", 20_000_001));
        assert!(!is("jacod_0.1.0-1_amd64.deb", 20_000_000));
        assert!(!is("jaco-0.1.0-linux-amd64.tar.gz", 30_000_000));
        assert!(!is_too_large(Path::new("jacod.deb"), 30_000_000, Compression::Quick));
    }

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(date(0, "+%Y%m%d%H%M%S").expect("date is there"), "19700101000000");
    }
}
