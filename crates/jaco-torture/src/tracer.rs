//! Runs a program under `strace`, also with a call that fails.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

use crate::Recording;

/// Calls that change files, their names, or what is durable; and those that say which file is meant.
const CALLS: &str = "openat,open,creat,close,dup,dup2,dup3,fcntl,write,writev,pwrite64,pwritev,pwritev2,lseek,ftruncate,\
truncate,fallocate,fsync,fdatasync,sync_file_range,syncfs,sync,rename,renameat,renameat2,link,linkat,symlink,symlinkat,\
unlink,unlinkat,mkdir,mkdirat,rmdir,copy_file_range,sendfile";

/// A call that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Names of calls, such as `fsync,fdatasync`.
    pub calls: &'static str,
    /// Name of the error, such as `EIO`.
    pub error: &'static str,
    /// The first of them that fails, counted from 1 in each thread.
    pub nth: usize,
    /// Whether all later ones fail as well.
    pub lasting: bool,
}

/// A program that was run.
#[derive(Debug)]
pub struct Traced {
    pub recording: Recording,
    pub output: Output,
    /// How many calls failed by the fault.
    pub injected: usize,
}

/// Runs `program` to its end, and records what it does in the folder `root`, which exists.
///
/// # Errors
/// If `strace` is not there, or a call is not understood.
pub fn trace(program: &Command, root: &Path, fault: Option<&Fault>) -> io::Result<Traced> {
    let root = root.canonicalize()?;
    let before = crate::Folder::read(&root)?;
    let file = root.with_extension("trace");
    let mut strace = Command::new("strace");
    // Whole buffers, in hexadecimal; only the traced calls stop the program.
    strace.args(["-f", "--seccomp-bpf", "-xx", "-s", "67108864", "-e", "signal=none"]);
    strace.arg("-o").arg(&file);
    strace.arg("-e").arg(format!("trace={CALLS}"));
    if let Some(Fault { calls, error, nth, lasting }) = fault {
        let later = if *lasting { "+" } else { "" };
        strace.arg("-e").arg(format!("inject={calls}:error={error}:when={nth}{later}"));
    }
    strace.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            strace.env(name, value);
        }
    }
    let output = strace.output().map_err(|error| {
        io::Error::new(error.kind(), format!("strace (`apt-get install strace`): {error}"))
    })?;
    let text = fs::read_to_string(&file)?;
    fs::remove_file(&file)?;
    let injected = text.lines().filter(|line| line.ends_with("(INJECTED)")).count();
    let recording = Recording::of(&text, &root, before)?;
    Ok(Traced { recording, output, injected })
}
