//! Power cuts at every step, and calls that fail: what the log, the snapshots and a whole node leave on the disk.
//!
//! A process of its own writes and says what it has promised; the images that a power cut may leave of that are opened
//! by the code that ships. `JACO_TORTURE_IMAGES=2000 cargo test -p jaco-raft --test it torture` looks at more.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jaco_torture::{Fault, Recording, Traced, trace};
use tempfile::TempDir;

mod controls;
mod faults;
mod log;
mod node;
mod snapshots;

/// The folder that a process of its own writes to.
const FOLDER: &str = "JACO_TORTURE_FOLDER";

/// Images of each kind in an ordinary run.
const SHARE: usize = 60;

/// The folder, if this is that process.
fn own_folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// One system call, so that a trace shows the moment of the promise.
fn tell(mark: &str) {
    std::io::stdout().write_all(format!("{mark}\n").as_bytes()).unwrap();
}

/// Runs the test `name` of this program as a process of its own, on the folder `root`.
fn run_traced(name: &str, root: &Path, fault: Option<&Fault>) -> Traced {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(FOLDER, root);
    trace(&program, root, fault).unwrap()
}

/// What the test `name` writes into an empty folder.
fn recorded(name: &str) -> Recording {
    let (held, root) = empty_root();
    let traced = run_traced(name, &root, None);
    let errors = String::from_utf8_lossy(&traced.output.stderr);
    assert!(traced.output.status.success(), "the recorded process failed: {errors}");
    drop(held);
    traced.recording
}

fn empty_root() -> (TempDir, PathBuf) {
    let held = tempfile::tempdir().unwrap();
    let root = held.path().join("data");
    std::fs::create_dir(&root).unwrap();
    (held, root)
}
