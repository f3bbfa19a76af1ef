//! The two programs: found or built, checked to be what their package says, and asked for their pages and scripts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::arch::Architecture;
use crate::workspace::Workspace;
use crate::{engine, process, say};

/// The two programs of an architecture.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) jaco: Program,
    pub(super) jacod: Program,
    /// The same programs for this machine, which write their pages and scripts.
    speaking: [PathBuf; 2],
}

/// A program, and what a system must have to start it.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) needs: Needs,
}

/// What a program asks of a system.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Needs {
    machine: String,
    libraries: Vec<String>,
    /// The C library's version, as in `2.34`.
    pub(super) glibc: String,
}

/// The C library with its parts, and what unwinds the stack: any Debian has them. The linker's own name is that of the
/// architecture.
const LIBRARIES: [&str; 4] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-"];

/// Finds the programs in a folder, or builds them.
///
/// # Errors
/// If one is not there, is of another architecture, or needs more than any Debian has.
pub(super) fn find(
    workspace: &Workspace,
    folder: Option<&Path>,
    arch: Architecture,
    epoch: u64,
) -> Result<Programs> {
    let is_ours = Architecture::of_host().is_ok_and(|host| host == arch);
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => build(workspace, arch, epoch)?,
    };
    let (jaco, jacod) = (checked(folder.join("jaco"), arch)?, checked(folder.join("jacod"), arch)?);
    let speaking = if is_ours { folder } else { build_for_this_machine(workspace)? };
    Ok(Programs { jaco, jacod, speaking: ["jaco", "jacod"].map(|name| speaking.join(name)) })
}

impl Programs {
    /// Man pages by file name, as in `jaco-apply.1`.
    pub(super) fn pages(&self, scratch: &Path) -> Result<Vec<(String, Vec<u8>)>> {
        let folder = super::emptied(scratch.join("man"))?;
        for program in &self.speaking {
            process::run(command(program).arg("man-pages").arg(&folder))?;
        }
        let mut pages = Vec::new();
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a page's name is text")?;
            pages.push((name, super::read(&entry.path())?));
        }
        pages.sort();
        Ok(pages)
    }

    /// The scripts for bash, zsh and fish.
    pub(super) fn completions(&self) -> Result<[String; 3]> {
        let [jaco, _] = &self.speaking;
        let script = |shell| process::capture(command(jaco).args(["completion", shell]));
        Ok([script("bash")?, script("zsh")?, script("fish")?])
    }
}

/// A program of ours without the user's settings.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command
}

/// Release programs, without a path of this machine in them.
fn build(workspace: &Workspace, arch: Architecture, epoch: u64) -> Result<PathBuf> {
    let is_ours = Architecture::of_host().is_ok_and(|host| host == arch);
    if !is_ours {
        ensure_cross(arch)?;
    }
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let registry = cargo_home.or(home).context("neither CARGO_HOME nor HOME is set")?;
    let remapped = [(workspace.root.as_path(), "/usr/src/jaco"), (&registry, "/usr/src/cargo")]
        .map(|(from, to)| format!("{:?}", format!("--remap-path-prefix={}={to}", from.display())));
    let mut command = workspace.cargo();
    // Added to what .cargo/config.toml has, where RUSTFLAGS would replace it.
    command.arg("--config").arg(format!("build.rustflags=[{}]", remapped.join(", ")));
    command.args(["build", "--release", "--locked", "--package", "jaco", "--package", "jacod"]);
    command.args(["--target", arch.triple()]).env("SOURCE_DATE_EPOCH", epoch.to_string());
    if !is_ours {
        let variable = arch.triple().to_uppercase().replace('-', "_");
        command.env(format!("CARGO_TARGET_{variable}_LINKER"), arch.cross_compiler().0);
    }
    say::note("building release programs, which takes some minutes");
    process::run(&mut command)?;
    Ok(workspace.target.join(arch.triple()).join("release"))
}

/// Programs that can be started here, where those of the package cannot.
fn build_for_this_machine(workspace: &Workspace) -> Result<PathBuf> {
    say::note("building the programs for this machine as well: they write their man pages");
    process::run(workspace.cargo().args(["build", "--package", "jaco", "--package", "jacod"]))?;
    Ok(workspace.target.join("debug"))
}

/// Refuses by name what is missing to build for another architecture.
fn ensure_cross(arch: Architecture) -> Result<()> {
    let triple = arch.triple();
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", triple]);
    let libraries = PathBuf::from(process::capture(&mut rustc)?.trim());
    let (compiler, package) = arch.cross_compiler();
    let mut missing = Vec::new();
    if !libraries.is_dir() {
        missing.push(format!("Rust's standard library for it (rustup target add {triple})"));
    }
    if engine::find(compiler).is_none() {
        missing.push(format!("the compiler {compiler} (apt-get install {package})"));
    }
    if !missing.is_empty() {
        bail!("programs for {arch} cannot be built here without {}", missing.join(" and "));
    }
    Ok(())
}

fn checked(path: PathBuf, arch: Architecture) -> Result<Program> {
    if !path.is_file() {
        bail!("{} is not there: --bin-dir is the folder of jaco and jacod", path.display());
    }
    let mut command = Command::new("readelf");
    command.env("LC_ALL", "C").args(["--wide", "--file-header", "--dynamic", "--version-info"]);
    let text = process::capture(command.arg(&path))
        .context("readelf, of Debian's package binutils, reads what a program needs")?;
    let needs = needs(&text);
    if needs.machine != arch.machine() {
        bail!("{} is a program for {}, not for {arch}", path.display(), needs.machine);
    }
    let foreign = |library: &&String| !LIBRARIES.iter().any(|known| library.starts_with(known));
    if let Some(library) = needs.libraries.iter().find(foreign) {
        bail!("{} needs {library}, which not every system has", path.display());
    }
    Ok(Program { path, needs })
}

/// Reads what readelf prints.
fn needs(text: &str) -> Needs {
    let machine = text.lines().find_map(|line| line.trim().strip_prefix("Machine:"));
    let library = |line: &str| {
        let (_, rest) = line.split_once("(NEEDED)")?;
        rest.split(['[', ']']).nth(1).map(str::to_owned)
    };
    let version = |line: &str| {
        let (_, rest) = line.split_once("Name: GLIBC_")?;
        let name = rest.split_whitespace().next()?;
        name.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>()
    };
    let newest = text.lines().filter_map(version).max().unwrap_or_default();
    let glibc = newest.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
    Needs {
        machine: machine.unwrap_or_default().trim().to_owned(),
        libraries: text.lines().filter_map(library).collect(),
        glibc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_needs_is_read() {
        let text = "  Machine:                           Advanced Micro Devices X86-64\n \
             0x1 (NEEDED)  Shared library: [libgcc_s.so.1]\n 0x1 (NEEDED)  Shared library: [libc.so.6]\n \
             0x0020:   Name: GLIBC_2.9  Flags: none  Version: 6\n 0x0020:   Name: GLIBC_2.34  Flags: none  Version: 5\n \
             0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 4\n 0x0030:   Name: GCC_3.0  Flags: none\n";
        let expected = Needs {
            machine: Architecture::Amd64.machine().to_owned(),
            libraries: vec!["libgcc_s.so.1".to_owned(), "libc.so.6".to_owned()],
            glibc: "2.34".to_owned(),
        };
        assert_eq!(needs(text), expected);
    }
}
