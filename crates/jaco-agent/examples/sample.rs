//! What a look of the sampler at a node costs, in processor time.
//!
//! `cargo run --release -p jaco-agent --example sample -- [ROOT CONTAINERS]`: without a root, or with
//! `own`, over files of its own; with one, over the groups `docker/c0`, `docker/c1`, … below it.

#![allow(clippy::print_stdout, reason = "the figure is the result")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use jaco_agent::Owner;
use jaco_agent::engine::{ContainerId, ContainerStatus, Health, ObservedContainer};
use jaco_agent::measure::{EngineStats, Sampler, Scope};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{ClusterId, InstanceId, NodeId, ReplicaId, ServiceKey, StateIndex, Timestamp};

const LOOKS: u32 = 1000;

fn main() {
    let mut args = std::env::args().skip(1);
    let root = args.next().filter(|root| root != "own").map(PathBuf::from);
    let containers = args.next().and_then(|text| text.parse().ok()).unwrap_or(100);
    let own = std::env::temp_dir().join(format!("jaco-sample-{}", std::process::id()));
    let is_own = root.is_none();
    let root = root.unwrap_or_else(|| {
        (0..containers).for_each(|number| container_files(&own, number));
        own.clone()
    });
    let capacity = Resources { cpu: MilliCores(64_000), memory: Bytes(256 << 30) };
    let mut sampler = Sampler::new(root, Scope::Replicas, capacity);
    let seen: Vec<_> = (0..containers).map(container).collect();
    sampler.sample(&seen, EngineStats::new(), Duration::ZERO);
    let before = processor_time();
    let mut measured = 0;
    for look in 1..=LOOKS {
        let sample = sampler.sample(&seen, EngineStats::new(), Duration::from_secs(look.into()));
        measured = sample.map_or(0, |sample| sample.instances.len());
    }
    let took = (processor_time() - before) / LOOKS;
    let millis = took.as_secs_f64() * 1e3;
    println!(
        "{containers} containers, {measured} measured: {millis:.3} ms of processor time a look"
    );
    if is_own {
        std::fs::remove_dir_all(own).ok();
    }
}

/// Of this process so far.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let nanos = text.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.expect("the first number is the time that it ran"))
}

fn container_files(root: &Path, number: u64) {
    let groups = root.join("sys/fs/cgroup");
    let folder = groups.join(format!("docker/c{number}"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |path: PathBuf, text: &str| std::fs::write(path, text).expect("written");
    write(groups.join("cgroup.controllers"), "cpu memory\n");
    write(folder.join("cpu.stat"), "usage_usec 1000\nuser_usec 500\nsystem_usec 500\n");
    write(folder.join("memory.current"), "1048576\n");
    let stat = "anon 1\nfile 2\ninactive_file 3\n".repeat(16);
    write(folder.join("memory.stat"), &stat);
}

fn container(number: u64) -> ObservedContainer {
    let replica = ReplicaId::parse(&format!("shop-web-{number}")).expect("a name");
    ObservedContainer {
        instance: InstanceId { replica, raft_index: StateIndex(1) },
        service: ServiceKey {
            deployment: "shop".parse().expect("a name"),
            service: "web".parse().expect("a name"),
        },
        owner: Owner { cluster: ClusterId::new(&"c1".repeat(16)).expect("an id"), node: NodeId(1) },
        container: ContainerId(format!("c{number}").into()),
        status: ContainerStatus::Up { health: Health::None, started_at: Timestamp(0) },
        ports: [].into(),
        spec_hash: None,
    }
}
