//! The programs: found or built, checked to be what their package says, and asked for their pages and scripts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::arch::Architecture;
use super::foreign::Foreign;
use crate::workspace::{PROGRAMS, Workspace, program_packages};
use crate::{process, say};

/// The programs of an architecture.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) jaco: Program,
    pub(super) jacod: Program,
    /// Those that the daemon's becomes, by name.
    pub(super) beside: Vec<(&'static str, Program)>,
    /// What runs them, if they are not this machine's.
    foreign: Option<Foreign>,
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
    /// The C library's version, as in 2.34.
    glibc: Vec<u32>,
}

/// The C library with its parts, and what unwinds the stack: any Debian has them. The linker's own name is that of the
/// architecture.
const LIBRARIES: [&str; 4] = ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-"];

/// Has the code that a daemon at rest runs put together, by the names in `crates/jacod/resident.ld` (ADR 0165).
const RESIDENT: &str = "-Csymbol-mangling-version=v0";

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
    let foreign = if is_ours { None } else { Some(Foreign::ready(workspace, arch)?) };
    let folder = match (folder, &foreign) {
        (Some(folder), _) => folder.to_owned(),
        (None, Some(foreign)) => foreign.build(workspace, epoch)?,
        (None, None) => build(workspace, arch, epoch)?,
    };
    let program = |name: &str| checked(folder.join(name), arch);
    let is_beside = |name: &&str| !["jaco", "jacod"].contains(name);
    let beside = PROGRAMS.into_iter().filter(is_beside).map(|name| Ok((name, program(name)?)));
    Ok(Programs {
        jaco: program("jaco")?,
        jacod: program("jacod")?,
        beside: beside.collect::<Result<_>>()?,
        foreign,
    })
}

impl Programs {
    /// The newest version of the C library that a program of the daemon's package asks for, as in `2.34`.
    pub(super) fn glibc_of_daemon(&self) -> String {
        let beside = self.beside.iter().map(|(_, program)| program);
        let needed = beside.chain([&self.jacod]).map(|program| &program.needs.glibc);
        needed.max().map(|version| dotted(version)).unwrap_or_default()
    }

    /// That of the command line.
    pub(super) fn glibc_of_client(&self) -> String {
        dotted(&self.jaco.needs.glibc)
    }

    /// Man pages by file name, as in `jaco-apply.1`.
    pub(super) fn pages(&self, scratch: &Path) -> Result<Vec<(String, Vec<u8>)>> {
        let folder = super::emptied(scratch.join("man"))?;
        for program in [&self.jaco, &self.jacod] {
            process::run(self.command(program).arg("man-pages").arg(&folder))?;
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
        let script = |shell| process::capture(self.command(&self.jaco).args(["completion", shell]));
        Ok([script("bash")?, script("zsh")?, script("fish")?])
    }

    /// One of them, without the user's settings.
    fn command(&self, program: &Program) -> Command {
        let mut command = match &self.foreign {
            Some(foreign) => foreign.command(&program.path),
            None => Command::new(&program.path),
        };
        command.env_clear();
        command
    }
}

/// Release programs for this machine, without a path of this machine in them.
fn build(workspace: &Workspace, arch: Architecture, epoch: u64) -> Result<PathBuf> {
    let registry = super::cargo_home()?;
    let remapped = [(workspace.root.as_path(), "/usr/src/jaco"), (&registry, "/usr/src/cargo")]
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()));
    let flags = remapped.into_iter().chain([RESIDENT.to_owned()]);
    let flags: Vec<_> = flags.map(|flag| format!("{flag:?}")).collect();
    let mut command = workspace.cargo();
    // Added to what .cargo/config.toml has, where RUSTFLAGS would replace it.
    command.arg("--config").arg(format!("build.rustflags=[{}]", flags.join(", ")));
    command.args(["build", "--release", "--locked"]).args(program_packages());
    command.args(["--target", arch.triple()]).env("SOURCE_DATE_EPOCH", epoch.to_string());
    say::note("building release programs, which takes some minutes");
    process::run(&mut command)?;
    Ok(workspace.target.join(arch.triple()).join("release"))
}

fn checked(path: PathBuf, arch: Architecture) -> Result<Program> {
    if !path.is_file() {
        bail!("{} is not there: --bin-dir is the folder of all programs", path.display());
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
    Needs {
        machine: machine.unwrap_or_default().trim().to_owned(),
        libraries: text.lines().filter_map(library).collect(),
        glibc: text.lines().filter_map(version).max().unwrap_or_default(),
    }
}

fn dotted(version: &[u32]) -> String {
    version.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
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
            glibc: vec![2, 34],
        };
        assert_eq!(needs(text), expected);
    }
}
