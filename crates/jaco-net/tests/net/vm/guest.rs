//! The first process of the virtual machine: makes of a bare kernel a system in which tests can run, runs them and turns the
//! machine off.
//!
//! If it fails it ends, on which the kernel panics and so says why.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, finit_module, reboot};

use super::ON_A_KERNEL_WITH_WIREGUARD;

/// Where the modules are, named so that each sorts after what it depends on.
pub(super) const MODULES: &str = "/modules";

/// Folders that are there before anything is mounted.
pub(super) const FOLDERS: [&str; 9] =
    ["/dev", "/etc", "/mnt", "/modules", "/proc", "/root", "/run", "/sys", "/tmp"];

/// The serial line of the tests. That of the kernel is another one, so that neither speaks in the middle of the other's lines.
const LINE: &str = "/dev/ttyS1";

/// Where programs are, on any Debian.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// `guest [PART OF A NAME]`
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    mount_all();
    load_modules();
    let run = |program: &str, arguments: &[&str]| {
        let line = File::options().read(true).write(true).open(LINE).unwrap();
        let mut command = Command::new(program);
        command.env_clear().env("PATH", PATH).args(arguments).stdin(Stdio::null());
        command.stdout(line.try_clone().unwrap()).stderr(line);
        command.status().unwrap()
    };
    assert!(run("ip", &["link", "set", "lo", "up"]).success());
    let mut tests = vec![ON_A_KERNEL_WITH_WIREGUARD];
    tests.extend(arguments.iter().map(String::as_str));
    // What comes of it is said on the line.
    run("/init", &tests);
    reboot(RebootCommand::PowerOff).unwrap();
    ExitCode::SUCCESS
}

fn mount_all() {
    for (kind, folder) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("devtmpfs", "/dev"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
    ] {
        mount(kind, folder, kind, MountFlags::empty(), None).unwrap();
    }
    for (name, target) in [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")] {
        symlink(format!("/proc/self/fd{target}"), Path::new("/dev").join(name)).unwrap();
    }
}

fn load_modules() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(MODULES).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files {
        let loaded = finit_module(File::open(&file).unwrap().as_fd(), c"", 0);
        loaded.unwrap_or_else(|error| panic!("{file:?}: {error}"));
    }
}
