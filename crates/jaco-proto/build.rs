//! Generates the messages and services from `proto/`, with a compiler written in Rust: no `protoc`
//! is needed on the machine.

use std::path::{Path, PathBuf};

const ROOT: &str = "../../proto";

/// They hold secrets, or whatever people wrote: `src/redacted.rs` says what is shown of them.
const NEVER_PRINTED: [&str; 7] = [
    ".jaco.v1.BackupRegistry",
    ".jaco.v1.ExecStart",
    ".jaco.v1.StoreRegistryRequest",
    ".jaco.v1.BackupNamed",
    ".jaco.v1.BackupPiece",
    ".jaco.v1.BackupSecret",
    ".jaco.v1.BackupDeployment",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let mut files = Vec::new();
    for folder in ["jaco/v1", "jaco/storage/v1"] {
        proto_files(&Path::new(ROOT).join(folder), &mut files)?;
    }
    files.sort();
    let descriptors = protox::compile(&files, [ROOT])?;
    let builder = tonic_prost_build::configure().bytes(".").skip_debug(NEVER_PRINTED);
    builder.compile_fds(descriptors)?;
    Ok(())
}

fn proto_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
