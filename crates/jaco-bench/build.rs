//! Generates a client of the few calls of etcd that are measured, without any `protoc`.

const ROOT: &str = "proto";
const FILE: &str = "etcdserverpb/rpc.proto";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let descriptors = protox::compile([FILE], [ROOT])?;
    tonic_prost_build::configure().build_server(false).compile_fds(descriptors)?;
    Ok(())
}
