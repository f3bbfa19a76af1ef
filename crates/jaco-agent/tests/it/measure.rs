//! The sampler over trees of files as the kernels show them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jaco_agent::Owner;
use jaco_agent::engine::{ContainerId, ContainerStatus, Counters, Health, ObservedContainer};
use jaco_agent::measure::{EngineStats, NodeUsage, Sampler, Scope, Usage};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{ClusterId, InstanceId, NodeId, ReplicaId, ServiceKey, StateIndex, Timestamp};

/// Two cores and a thousand bytes.
const CAPACITY: Resources = Resources { cpu: MilliCores(2000), memory: Bytes(1000) };

/// A machine's files below a folder of the test.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new(files: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.say(files);
        machine
    }

    fn say(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.root().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn sampler(&self, scope: Scope) -> Sampler {
        Sampler::new(self.root().to_owned(), scope, CAPACITY)
    }
}

fn instance(index: u64) -> InstanceId {
    let replica = ReplicaId::parse("shop-web-0").unwrap();
    InstanceId { replica, raft_index: StateIndex(index) }
}

fn up(index: u64, container: &str) -> ObservedContainer {
    ObservedContainer {
        instance: instance(index),
        service: ServiceKey {
            deployment: "shop".parse().unwrap(),
            service: "web".parse().unwrap(),
        },
        owner: Owner { cluster: ClusterId::new(&"c1".repeat(16)).unwrap(), node: NodeId(1) },
        container: ContainerId(container.into()),
        status: ContainerStatus::Up { health: Health::None, started_at: Timestamp(0) },
        ports: [].into(),
        spec_hash: None,
    }
}

fn at(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

const MEMINFO: &str = "MemTotal: 4 kB\nMemFree: 1 kB\nMemAvailable: 4 kB\n";

/// R-REB-2: each kernel's files, the machine and a container of either name. The first look is a
/// baseline; a share is of what the node has, over the time between two looks.
#[test]
fn each_kernel_is_measured() {
    let v2 = (
        "v2",
        vec![
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory"),
            ("proc/meminfo", MEMINFO),
            ("sys/fs/cgroup/system.slice/docker-abc.scope/memory.current", "300"),
            ("sys/fs/cgroup/system.slice/docker-abc.scope/memory.stat", "inactive_file 100\n"),
        ],
        "sys/fs/cgroup/cpu.stat",
        "sys/fs/cgroup/system.slice/docker-abc.scope/cpu.stat",
        (|micros: u64| format!("usage_usec {micros}\n")) as fn(u64) -> String,
    );
    let v1 = (
        "v1",
        vec![
            ("sys/fs/cgroup/unified/cgroup.controllers", ""),
            ("proc/meminfo", MEMINFO),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "999"),
            ("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "200"),
        ],
        "sys/fs/cgroup/cpuacct/cpuacct.usage",
        "sys/fs/cgroup/cpuacct/docker/abc/cpuacct.usage",
        (|micros: u64| format!("{}\n", micros * 1000)) as fn(u64) -> String,
    );
    for (name, files, machine_cpu, container_cpu, text) in [v2, v1] {
        let machine = Machine::new(&files);
        let cpu = |whole: u64, part: u64| {
            machine.say(&[(machine_cpu, &text(whole)), (container_cpu, &text(part))]);
        };
        cpu(1_000_000, 0);
        let (mut sampler, containers) = (machine.sampler(Scope::Machine), [up(1, "abc")]);
        assert_eq!(
            sampler.sample(&containers, EngineStats::new(), at(0)),
            None,
            "{name}: a baseline"
        );
        cpu(11_000_000, 5_000_000);
        let expected = NodeUsage {
            node: Usage { cpu: 500_000, memory: 0 },
            instances: [(instance(1), Usage { cpu: 250_000, memory: 200_000 })].into(),
        };
        assert_eq!(
            sampler.sample(&containers, EngineStats::new(), at(10)),
            Some(expected),
            "{name}"
        );
        cpu(111_000_000, 5_000_000);
        let sample = sampler.sample(&[], EngineStats::new(), at(20)).unwrap();
        assert_eq!(
            (sample.node.cpu, sample.instances.len()),
            (1_000_000, 0),
            "{name}: at most all"
        );
    }
}

/// R-REB-2: where the kernel's files say nothing of a replica, what the engine says of it counts, and
/// nobody is asked of the others.
#[test]
fn engine_stats_complete_kernel_counters() {
    let machine = Machine::new(&[
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory"),
        ("sys/fs/cgroup/docker/abc/cpu.stat", "usage_usec 0\n"),
        ("sys/fs/cgroup/docker/abc/memory.current", "100"),
        ("sys/fs/cgroup/docker/half/cpu.stat", "usage_usec 0\n"),
    ]);
    let mut sampler = machine.sampler(Scope::Replicas);
    let containers = [up(1, "abc"), up(2, "elsewhere"), up(3, "half")];
    let unmeasured: Vec<_> =
        sampler.unmeasured(&containers).into_iter().map(|(id, _)| id).collect();
    assert_eq!(unmeasured, [instance(2), instance(3)]);
    let told =
        |cpu_micros| EngineStats::from([(instance(2), Counters { cpu_micros, memory_bytes: 300 })]);
    assert_eq!(sampler.sample(&containers, told(1_000_000), at(0)), None);
    let sample = sampler.sample(&containers, told(6_000_000), at(10)).unwrap();
    let asked = Usage { cpu: 250_000, memory: 300_000 };
    let read = Usage { cpu: 0, memory: 100_000 };
    assert_eq!(sample.instances, [(instance(1), read), (instance(2), asked)].into());
    assert_eq!(sample.node, Usage { cpu: 250_000, memory: 400_000 });
    assert_eq!(sampler.unmeasured(&[]), []);
}

/// R-REB-2: without groups the machine is measured by `/proc`; replicas are not.
#[test]
fn proc_is_the_fallback() {
    let machine = Machine::new(&[
        ("proc/stat", "cpu  100 0 0 0 0 0 0 0\n"),
        ("proc/meminfo", "MemTotal: 1 kB\nMemAvailable: 0 kB\n"),
    ]);
    let mut sampler = machine.sampler(Scope::Machine);
    assert_eq!(sampler.sample(&[up(1, "abc")], EngineStats::new(), at(0)), None);
    machine.say(&[("proc/stat", "cpu  600 0 0 0 0 0 0 0\n")]);
    let node = Usage { cpu: 250_000, memory: 1_000_000 };
    let expected = NodeUsage { node, instances: [].into() };
    assert_eq!(sampler.sample(&[up(1, "abc")], EngineStats::new(), at(10)), Some(expected));
}

/// Where the daemon lives in a container with a limit, that is what is used of.
#[test]
fn limited_cgroup_counts_as_the_node() {
    let machine = Machine::new(&[
        ("sys/fs/cgroup/cgroup.controllers", "cpu memory"),
        ("sys/fs/cgroup/cpu.stat", "usage_usec 0"),
        ("sys/fs/cgroup/memory.max", "1000"),
        ("sys/fs/cgroup/memory.current", "700"),
        ("proc/meminfo", MEMINFO),
    ]);
    let mut sampler = machine.sampler(Scope::Machine);
    sampler.sample(&[], EngineStats::new(), at(0));
    assert_eq!(
        sampler.sample(&[], EngineStats::new(), at(1)).unwrap().node,
        Usage { cpu: 0, memory: 700_000 }
    );
}

/// Several nodes on one machine: each is what its own replicas use, whatever else runs there. A
/// container that came since the last look is not counted yet; a counter that fell tells nothing.
#[test]
fn replica_scope_counts_replicas_only() {
    let file = |name: &str, file: &str| format!("sys/fs/cgroup/docker/{name}/{file}");
    let machine = Machine::new(&[("sys/fs/cgroup/cgroup.controllers", "")]);
    let say = |name: &str, micros: u64| {
        machine.say(&[
            (&file(name, "cpu.stat"), &format!("usage_usec {micros}\n")),
            (&file(name, "memory.current"), "100"),
        ]);
    };
    for name in ["a", "b", "c"] {
        say(name, 1_000_000);
    }
    let mut sampler = machine.sampler(Scope::Replicas);
    assert_eq!(sampler.sample(&[up(1, "a"), up(2, "b")], EngineStats::new(), at(0)), None);
    say("a", 2_000_000);
    say("b", 0);
    let sample =
        sampler.sample(&[up(1, "a"), up(2, "b"), up(3, "c")], EngineStats::new(), at(1)).unwrap();
    assert_eq!(sample.node, Usage { cpu: 500_000, memory: 100_000 });
    assert_eq!(sample.instances.keys().collect::<Vec<_>>(), [&instance(1)]);
}

/// Where the kernel tells nothing there is silence, and not a node at rest.
#[test]
fn unreadable_counters_give_no_sample() {
    let machine = Machine::new(&[]);
    let mut sampler = machine.sampler(Scope::Machine);
    assert_eq!(
        (
            sampler.sample(&[], EngineStats::new(), at(0)),
            sampler.sample(&[], EngineStats::new(), at(1))
        ),
        (None, None)
    );
}

/// This machine, whichever kernel it has.
#[test]
fn this_machine_can_be_measured() {
    let capacity = Resources { cpu: MilliCores(1000), memory: Bytes(1 << 50) };
    let mut sampler = Sampler::new("/".into(), Scope::Machine, capacity);
    assert_eq!(sampler.sample(&[], EngineStats::new(), at(0)), None);
    assert!(sampler.sample(&[], EngineStats::new(), at(1)).is_some());
}
