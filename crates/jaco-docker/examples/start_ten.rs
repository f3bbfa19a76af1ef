//! How long it takes until ten containers run, beside Docker's own client doing the same.
//!
//! `cargo run --release -p jaco-docker --example start_ten [ROUNDS]`, with image `jaco-hello:v1`
//! present. Each way runs all its starts at the same time; rounds alternate, so that a busy machine
//! is busy for both.

#![allow(clippy::print_stdout, reason = "the figures are what it is for")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use jaco_agent::engine::{ContainerEngine, ContainerRequest, KeptNetworks, MountedFiles, Owner};
use jaco_docker::{DockerEngine, DockerOptions};
use jaco_types::{
    ClusterId, DeploymentName, InstanceId, NodeId, Ordinal, ReplicaId, ServiceKey, ServiceName,
    SpecHash, StateIndex,
};
use tokio::process::Command;

const IMAGE: &str = "jaco-hello:v1";
const CONTAINERS: u64 = 10;
const LABEL: &str = "jaco.example=start_ten";
const NETWORK: &str = "jaco-example-start-ten";
const RUN: [&str; 7] = ["run", "--detach", "--label", LABEL, "--network", NETWORK, IMAGE];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    let rounds = std::env::args().nth(1).map_or(Ok(3), |text| text.parse())?;
    let owner = Owner { cluster: ClusterId::new(&"57a27e10".repeat(4))?, node: NodeId(1) };
    let engine = Arc::new(DockerEngine::new(DockerOptions::new(owner)));
    for round in 1..=rounds {
        let cold = by_engine(&engine, round * 1000).await?;
        let warm = by_engine(&engine, round * 1000).await?;
        engine.remove_networks(&KeptNetworks::default()).await?;
        docker(&["network", "create", "--label", LABEL, NETWORK]).await?;
        let client = by_client().await?;
        docker(&["network", "rm", NETWORK]).await?;
        println!(
            "round {round}: {CONTAINERS} containers run after {} ms by ensure_running, {} ms \
             with its network to be made first; {} ms by docker run on a network like it",
            warm.as_millis(),
            cold.as_millis(),
            client.as_millis()
        );
    }
    Ok(())
}

async fn by_engine(engine: &DockerEngine, from: u64) -> Result<Duration> {
    let requests = (from..from + CONTAINERS).map(request).collect::<Result<Vec<_>>>()?;
    let before = Instant::now();
    let starts = requests.iter().map(|request| engine.ensure_running(request));
    let seen = try_join_all(starts).await?;
    let took = before.elapsed();
    try_join_all(seen.iter().map(|seen| engine.remove(&seen.container))).await?;
    Ok(took)
}

fn request(number: u64) -> Result<ContainerRequest> {
    let deployment = DeploymentName::new("example")?;
    let service = ServiceKey { deployment, service: ServiceName::new("web")? };
    let replica = ReplicaId::new(&service, &Ordinal::Index(number));
    Ok(ContainerRequest {
        instance: InstanceId { replica, raft_index: StateIndex(number) },
        service,
        image: IMAGE.into(),
        container: r#"{"service":{"command":["serve"]}}"#.into(),
        spec_hash: SpecHash([0; 32]),
        files: MountedFiles::default(),
        gpus: Vec::new(),
        networks: Vec::new(),
    })
}

async fn by_client() -> Result<Duration> {
    let before = Instant::now();
    let runs = (0..CONTAINERS).map(|_| docker(&RUN));
    let ids = try_join_all(runs).await?;
    let took = before.elapsed();
    let removals = ids.iter().map(|id| async move { docker(&["rm", "--force", id]).await });
    try_join_all(removals).await?;
    Ok(took)
}

async fn docker(arguments: &[&str]) -> Result<String> {
    let output = Command::new("docker").args(arguments).output().await?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
