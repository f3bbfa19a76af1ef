//! Generates the messages and services from `proto/`, and the table of rpcs from the options that each
//! declares. The compiler is written in Rust: no `protoc` is needed on the machine.

#[path = "build/rpc.rs"]
mod rpc;

use std::path::{Path, PathBuf};

const ROOT: &str = "../../proto";

/// Messages with secrets or user content: `src/redacted.rs` implements their `Debug`.
const REDACTED: [&str; 13] = [
    ".jaco.v1.BackupRegistry",
    ".jaco.v1.BackupNotifyTarget",
    ".jaco.v1.ExecStart",
    ".jaco.v1.StoreRegistryRequest",
    ".jaco.v1.StoreCertificateRequest",
    ".jaco.v1.StoreBackupScheduleRequest",
    ".jaco.v1.StoreNotifyTargetRequest",
    ".jaco.v1.StoreContentRequest",
    ".jaco.v1.ReadContentResponse",
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
    let mut compiler = protox::Compiler::new([ROOT])?;
    compiler.include_imports(true).include_source_info(true).open_files(&files)?;

    let rpcs = rpc::declared(&compiler.descriptor_pool(), "jaco.v1")?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("rpc.rs"), rpc::generated(&rpcs))?;

    let mut descriptors = compiler.file_descriptor_set();
    descriptors.file.retain(|file| file.package() != "google.protobuf");
    for file in &mut descriptors.file {
        file.service.retain(|service| !rpc::is_forwarded_only(&rpcs, service.name()));
    }
    let builder = tonic_prost_build::configure().bytes(".").skip_debug(REDACTED);
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
