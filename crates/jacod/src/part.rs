//! What `jacod net` and `jacod edge` become: programs of their own beside this one, in the same process.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use jaco_net::handover::listeners_socket;
use jaco_process::{EDGE_PROGRAM, EdgeArgs, NET_PROGRAM, NetArgs, error_file};

use crate::config::Config;

/// Becomes the router of this node.
///
/// # Errors
/// If its program cannot be started. It does not return otherwise.
pub(crate) fn become_router(config: &Config) -> anyhow::Result<Infallible> {
    let args = NetArgs {
        config: config.file.clone(),
        runtime_dir: config.net.runtime_dir.clone(),
        port: config.net.port,
        edge_socket: listeners_socket(&config.net.edge_dir()),
        log_level: config.log_level.clone(),
        log_format: config.log_format,
    };
    let line = [vec!["net".into()], args.options()].concat();
    become_program(NET_PROGRAM, line).inspect_err(|error| tell(&args.runtime_dir, error))
}

/// Becomes the edge of this node, with the command line of this process.
///
/// # Errors
/// As [`become_router`].
pub(crate) fn become_edge(args: &EdgeArgs) -> anyhow::Result<Infallible> {
    let line = std::env::args_os().skip(1).collect();
    become_program(EDGE_PROGRAM, line).inspect_err(|error| tell(&args.runtime_dir, error))
}

/// Leaves the reason where the daemon finds it, as the program itself would.
fn tell(runtime_dir: &Path, error: &anyhow::Error) {
    // Where not even this can be written, standard error has it.
    drop(std::fs::write(error_file(runtime_dir), format!("{error:#}")));
}

fn become_program(name: &str, arguments: Vec<OsString>) -> anyhow::Result<Infallible> {
    let own = own_program()?;
    let called = places(&own, name);
    // The program may have been called by a symbolic link.
    let real = std::env::current_exe().map(|real| places(&real, name)).into_iter().flatten();
    let program = called.iter().cloned().chain(real).find(|path| path.is_file());
    let program = program.with_context(|| {
        let [beside, installed] = &called;
        format!("neither {} nor {} is there", beside.display(), installed.display())
    })?;
    // By its own name, an edge starts the program that takes its place, of whatever version that is then.
    let error = Command::new(&program).arg0(&own).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}

/// Where a program of this name may be: beside this one, as it is built; where packages have it.
fn places(own: &Path, name: &str) -> [PathBuf; 2] {
    let folder = own.parent().unwrap_or(own);
    [folder.join(name), folder.with_file_name("lib").join("jaco").join(name)]
}

/// This program as it was called: after an upgrade, what the system calls it is not there any more.
pub(crate) fn own_program() -> anyhow::Result<PathBuf> {
    let called = std::env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
    called.map_or_else(std::env::current_exe, Ok).context("the path of this program is not known")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_beside_this_one_or_where_packages_have_them() {
        let places = places(Path::new("/usr/bin/jacod"), NET_PROGRAM);
        assert_eq!(places, ["/usr/bin/jacod-net", "/usr/lib/jaco/jacod-net"].map(PathBuf::from));
    }
}
