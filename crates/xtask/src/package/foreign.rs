//! Programs for another architecture than this machine's. Rust of Debian's next release has the standard library of both in
//! its packages, so it is unpacked into a folder and builds there; what it links with, and what the emulator runs the results with, are the
//! libraries of the oldest Debian that the programs are for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::arch::Architecture;
use crate::workspace::{Workspace, program_packages};
use crate::{engine, process, say};

/// The release whose Rust builds: the first one with a Rust that is new enough.
const BUILDER: &str = "forky";

/// The release whose libraries are linked with: the oldest that programs run on.
const OLDEST: &str = "bookworm";

/// What builds. The standard library's package has the architecture behind it.
const TOOLS: &str = "cargo,rustc,clang,lld,libstd-rust-dev";

/// What is linked with.
const LIBRARIES: &str = "libc6-dev,libgcc-12-dev,libgcc-s1";

/// A mirror may be behind by some days; that its lists are Debian's is verified all the same.
const LATE_LISTS: &str = r#"Acquire::Check-Valid-Until "false""#;

/// Mounts what is given as pairs of folders, source and target, and runs the rest of the arguments within the first folder.
const WITHIN: &str = r#"
set -eu
root=$1 && shift
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    shift 2
done
shift
mount -t proc proc "$root/proc"
exec chroot "$root" "$@"
"#;

/// What the programs of another architecture are built and run with.
#[derive(Debug)]
pub(super) struct Foreign {
    arch: Architecture,
    folder: PathBuf,
}

impl Foreign {
    /// Unpacks the libraries, unless they are there.
    ///
    /// # Errors
    /// If a program is missing, by its name and package, or the packages cannot be downloaded.
    pub(super) fn ready(workspace: &Workspace, arch: Architecture) -> Result<Self> {
        let needed = [("mmdebstrap", "mmdebstrap"), (arch.emulator(), "qemu-user")];
        for (program, package) in needed {
            if engine::find(program).is_none() {
                bail!("programs for {arch} need {program} here: apt-get install {package}");
            }
        }
        let foreign =
            Self { arch, folder: workspace.target.join("foreign").join(arch.to_string()) };
        std::fs::create_dir_all(&foreign.folder)
            .with_context(|| format!("cannot create {:?}", foreign.folder))?;
        let architecture = format!("--architectures={arch}");
        unpack(&foreign.libraries(), OLDEST, &["--variant=extract", &architecture], LIBRARIES)?;
        Ok(foreign)
    }

    fn libraries(&self) -> PathBuf {
        self.folder.join("libraries")
    }

    /// Builds release programs, without a path of this machine in them; returns their folder.
    ///
    /// # Errors
    /// If this is not root's process, the packages cannot be downloaded, or something does not build.
    pub(super) fn build(&self, workspace: &Workspace, epoch: u64) -> Result<PathBuf> {
        if !rustix::process::geteuid().is_root() {
            bail!(
                "programs for {} are built in a changed root, which is root's alone: run this as root, or package \
                 programs that were built elsewhere with --bin-dir",
                self.arch
            );
        }
        let (triple, host) = (self.arch.triple(), Architecture::of_host()?);
        let root = self.folder.join("root");
        let architectures = format!("--architectures={host},{}", self.arch);
        let tools = format!("{TOOLS}:{}", self.arch);
        unpack(&root, BUILDER, &["--variant=apt", &architectures], &tools)?;
        // There is no network in there that is known to work: what is built has to be here.
        process::run(workspace.cargo().args(["fetch", "--locked", "--target", triple]))?;

        let built = self.folder.join("target");
        std::fs::create_dir_all(&built).with_context(|| format!("cannot create {built:?}"))?;
        let registry = super::cargo_home()?;
        let libraries = self.libraries();
        let mounts = [
            (workspace.root.as_path(), "/usr/src/jaco"),
            (&registry, "/usr/src/cargo"),
            (&built, "/usr/src/target"),
            (&libraries, "/usr/src/libraries"),
            (Path::new("/dev"), "/dev"),
        ];
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", WITHIN, "sh"]).arg(&root);
        for (source, target) in mounts {
            command.args([source.as_os_str(), OsStr::new(target)]);
        }
        command.args(["--", "env", "--ignore-environment", "--chdir=/usr/src/jaco"]);
        command.args(self.environment(epoch)).args(["cargo", "build", "--offline", "--locked"]);
        command.arg("--release").args(program_packages()).args(["--target", triple]);
        let target = format!("--target={}", self.arch.gnu());
        let link = [&*target, "--sysroot=/usr/src/libraries", "-fuse-ld=lld"];
        let link = link.map(|argument| format!("{:?}", format!("-Clink-arg={argument}")));
        command.arg("--config").arg(format!("build.rustflags=[{}]", link.join(", ")));
        say::note("building release programs, which takes some minutes");
        process::run(&mut command)?;
        Ok(built.join(triple).join("release"))
    }

    fn environment(&self, epoch: u64) -> Vec<String> {
        let name = self.arch.triple().replace('-', "_");
        let flags = format!("--target={} --sysroot=/usr/src/libraries", self.arch.gnu());
        vec![
            "PATH=/usr/bin:/bin".to_owned(),
            "HOME=/tmp".to_owned(),
            "CARGO_HOME=/usr/src/cargo".to_owned(),
            "CARGO_TARGET_DIR=/usr/src/target".to_owned(),
            format!("SOURCE_DATE_EPOCH={epoch}"),
            format!("CC_{name}=clang"),
            format!("CFLAGS_{name}={flags}"),
            format!("AR_{name}=ar"),
            format!("CARGO_TARGET_{}_LINKER=clang", name.to_uppercase()),
        ]
    }

    /// A program of this architecture, as this machine runs it.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(self.arch.emulator());
        command.arg("-L").arg(self.libraries()).arg(program);
        command
    }
}

/// Unpacks packages of a release, unless that was done; whole or not at all.
fn unpack(root: &Path, release: &str, how: &[&str], packages: &str) -> Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    say::note(&format!("unpacking {packages} of Debian's {release}"));
    let partial = root.with_extension("partial");
    super::emptied(partial.clone())?;
    let mut command = Command::new("mmdebstrap");
    command.arg("--quiet").args(how).arg(format!("--aptopt={LATE_LISTS}"));
    command.arg(format!("--include={packages}")).arg(release).arg(&partial);
    process::run(&mut command)?;
    std::fs::rename(&partial, root).with_context(|| format!("cannot rename {partial:?}"))
}
