//! Samples the resource usage of this node and its containers, as shares of the node's capacity.

mod engine_stats;
mod group;
pub mod parse;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jaco_types::InstanceId;
use jaco_types::unit::Resources;

use self::group::{Group, Kernel, read_path};
use crate::engine::{ContainerId, ContainerStatus, Counters, ObservedContainer};

pub use self::engine_stats::{EngineStats, query_engine};

/// Usage in millionths of the node's capacity, at most all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time.
    pub cpu: u64,
    /// Memory.
    pub memory: u64,
}

/// One sample of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeUsage {
    /// The node.
    pub node: Usage,
    /// Each instance, if it could be measured.
    pub instances: BTreeMap<InstanceId, Usage>,
}

/// What counts as the node's usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole machine.
    Machine,
    /// Only this node's replicas: several nodes share the machine.
    Replicas,
}

/// Takes samples. The first call has nothing to compare with and returns none.
#[derive(Debug)]
pub struct Sampler {
    root: PathBuf,
    scope: Scope,
    capacity: Resources,
    kernel: Kernel,
    machine: Group,
    groups: BTreeMap<InstanceId, Group>,
    before: Option<Reading>,
}

/// Counters at a time of a monotonic clock.
#[derive(Debug, Default)]
struct Reading {
    at: Duration,
    machine_micros: Option<u64>,
    instances: BTreeMap<InstanceId, Counters>,
}

const MILLION: u64 = 1_000_000;

impl Sampler {
    /// A sampler that reads `/sys` and `/proc` below `root`.
    #[must_use]
    pub fn new(root: PathBuf, scope: Scope, capacity: Resources) -> Self {
        let kernel = Kernel::detect(&root);
        let machine = Group::of_machine(&root, kernel);
        let groups = BTreeMap::new();
        Self { root, scope, capacity, kernel, machine, groups, before: None }
    }

    /// Reads the counters; `stats` supplies containers without kernel counters. `None` without a
    /// previous reading, or if the node's usage cannot be read: no sample is better than a wrong
    /// one.
    pub fn sample(
        &mut self,
        containers: &[ObservedContainer],
        stats: EngineStats,
        at: Duration,
    ) -> Option<NodeUsage> {
        self.follow(containers);
        let mut instances = stats;
        let read = self.groups.iter();
        instances.extend(read.filter_map(|(id, group)| Some((id.clone(), group.counters()?))));
        let now = Reading { at, machine_micros: self.machine_micros(), instances };
        let (before, now) = (self.before.replace(now)?, self.before.as_ref()?);
        let elapsed = now.at.saturating_sub(before.at).as_micros();
        let share_of_time = |micros: u64| {
            let whole = elapsed.saturating_mul(u128::from(self.capacity.cpu.0)) / 1000;
            share(u128::from(micros), whole)
        };
        let mut sum = Usage::default();
        let mut instances = BTreeMap::new();
        for (id, is) in &now.instances {
            let Some(was) = before.instances.get(id) else { continue };
            let cpu = is.cpu_micros.checked_sub(was.cpu_micros).and_then(share_of_time);
            let memory = self.share_of_memory(is.memory_bytes);
            let (Some(cpu), Some(memory)) = (cpu, memory) else { continue };
            sum.cpu = sum.cpu.saturating_add(cpu).min(MILLION);
            sum.memory = sum.memory.saturating_add(memory).min(MILLION);
            instances.insert(id.clone(), Usage { cpu, memory });
        }
        let node = match self.scope {
            Scope::Replicas => sum,
            Scope::Machine => Usage {
                cpu: share_of_time(now.machine_micros?.checked_sub(before.machine_micros?)?)?,
                memory: self.share_of_memory(self.machine_memory()?)?,
            },
        };
        Some(NodeUsage { node, instances })
    }

    /// Running containers without kernel counters, to be queried from the engine.
    pub fn unmeasured(
        &mut self,
        containers: &[ObservedContainer],
    ) -> Vec<(InstanceId, ContainerId)> {
        self.follow(containers);
        let is_unread = |seen: &&ObservedContainer| {
            is_up(seen) && !self.groups.get(&seen.instance).is_some_and(Group::is_complete)
        };
        let unmeasured = containers.iter().filter(is_unread);
        unmeasured.map(|seen| (seen.instance.clone(), seen.container.clone())).collect()
    }

    /// Opens the cgroups of new containers and closes those of removed ones.
    fn follow(&mut self, containers: &[ObservedContainer]) {
        let up = containers.iter().filter(|seen| is_up(seen));
        let up: BTreeMap<_, _> = up.map(|seen| (&seen.instance, &seen.container)).collect();
        self.groups.retain(|id, _| up.contains_key(id));
        for (id, container) in up {
            if !self.groups.contains_key(id)
                && let Some(group) = Group::of_container(&self.root, self.kernel, &container.0)
            {
                self.groups.insert(id.clone(), group);
            }
        }
    }

    fn machine_micros(&self) -> Option<u64> {
        let of_machine = || read_path(&self.root.join("proc/stat"), parse::proc_stat);
        self.machine.cpu_micros().or_else(of_machine)
    }

    /// If the root cgroup has a limit the daemon runs in a container, and the machine's own memory
    /// is irrelevant.
    fn machine_memory(&self) -> Option<u64> {
        let of_group = self.machine.memory_limit().and_then(|_| self.machine.memory_bytes());
        of_group.or_else(|| read_path(&self.root.join("proc/meminfo"), parse::meminfo))
    }

    fn share_of_memory(&self, bytes: u64) -> Option<u64> {
        share(u128::from(bytes), u128::from(self.capacity.memory.0))
    }
}

fn is_up(seen: &ObservedContainer) -> bool {
    matches!(seen.status, ContainerStatus::Up { .. })
}

/// A share in millionths; `None` of nothing.
fn share(part: u128, whole: u128) -> Option<u64> {
    let millionths = part.saturating_mul(u128::from(MILLION)).checked_div(whole)?;
    Some(u64::try_from(millionths).unwrap_or(MILLION).min(MILLION))
}
