//! What this node and its containers use, as shares of what the node has. It measures and says; what
//! follows from it is the leader's to decide.

mod group;
pub mod parse;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jaco_types::InstanceId;
use jaco_types::unit::Resources;

use self::group::{Group, Kernel, read_path};
use crate::engine::{ContainerSeen, ContainerStatus};

/// In millionths of what the node has; no more than all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Processor time.
    pub cpu: u64,
    /// Memory.
    pub memory: u64,
}

/// One look at a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeUse {
    /// All of it.
    pub node: Used,
    /// Of it, what each instance uses, where that can be told.
    pub instances: BTreeMap<InstanceId, Used>,
}

/// What counts as the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The machine with all that runs on it.
    Machine,
    /// Only this node's own replicas: several nodes share the machine.
    Replicas,
}

/// Measures again and again; the first time there is nothing to compare with, so it is no figure.
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

/// Counters at a moment of a steady clock.
#[derive(Debug, Default)]
struct Reading {
    at: Duration,
    machine_micros: Option<u64>,
    instance_micros: BTreeMap<InstanceId, u64>,
}

const WHOLE: u64 = 1_000_000;

impl Sampler {
    /// One that finds `/sys` and `/proc` below `root`.
    #[must_use]
    pub fn new(root: PathBuf, scope: Scope, capacity: Resources) -> Self {
        let kernel = Kernel::detect(&root);
        let machine = Group::of_machine(&root, kernel);
        let groups = BTreeMap::new();
        Self { root, scope, capacity, kernel, machine, groups, before: None }
    }

    /// Looks at the counters. Nothing where there is none to compare with, or where the kernel does
    /// not tell what the node uses: silence is better than a guess.
    pub fn sample(&mut self, containers: &[ContainerSeen], at: Duration) -> Option<NodeUse> {
        self.follow(containers);
        let instance_micros = self.groups.iter();
        let instance_micros = instance_micros
            .filter_map(|(id, group)| Some((id.clone(), group.cpu_micros()?)))
            .collect();
        let now = Reading { at, machine_micros: self.machine_micros(), instance_micros };
        let (before, now) = (self.before.replace(now)?, self.before.as_ref()?);
        let elapsed = now.at.saturating_sub(before.at).as_micros();
        let share_of_time = |micros: u64| {
            let whole = elapsed.saturating_mul(u128::from(self.capacity.cpu.0)) / 1000;
            share(u128::from(micros), whole)
        };
        let mut sum = Used::default();
        let mut instances = BTreeMap::new();
        for (id, group) in &self.groups {
            let counters = (before.instance_micros.get(id), now.instance_micros.get(id));
            let (Some(was), Some(is)) = counters else { continue };
            let cpu = is.checked_sub(*was).and_then(share_of_time);
            let memory = group.memory_bytes().and_then(|bytes| self.share_of_memory(bytes));
            let (Some(cpu), Some(memory)) = (cpu, memory) else { continue };
            sum.cpu = sum.cpu.saturating_add(cpu).min(WHOLE);
            sum.memory = sum.memory.saturating_add(memory).min(WHOLE);
            instances.insert(id.clone(), Used { cpu, memory });
        }
        let node = match self.scope {
            Scope::Replicas => sum,
            Scope::Machine => Used {
                cpu: share_of_time(now.machine_micros?.checked_sub(before.machine_micros?)?)?,
                memory: self.share_of_memory(self.machine_memory()?)?,
            },
        };
        Some(NodeUse { node, instances })
    }

    /// Opens the groups of containers that came, and closes those of what went.
    fn follow(&mut self, containers: &[ContainerSeen]) {
        let is_up = |seen: &&ContainerSeen| matches!(seen.status, ContainerStatus::Up { .. });
        let up: BTreeMap<_, _> =
            containers.iter().filter(is_up).map(|seen| (&seen.instance, &seen.container)).collect();
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

    /// Where the group of all is limited, the daemon lives in a container, and the machine's own
    /// figure says nothing about it.
    fn machine_memory(&self) -> Option<u64> {
        let of_group = self.machine.memory_limit().and_then(|_| self.machine.memory_bytes());
        of_group.or_else(|| read_path(&self.root.join("proc/meminfo"), parse::meminfo))
    }

    fn share_of_memory(&self, bytes: u64) -> Option<u64> {
        share(u128::from(bytes), u128::from(self.capacity.memory.0))
    }
}

/// A part of a whole in millionths; nothing where there is no whole.
fn share(part: u128, whole: u128) -> Option<u64> {
    let millionths = part.saturating_mul(u128::from(WHOLE)).checked_div(whole)?;
    Some(u64::try_from(millionths).unwrap_or(WHOLE).min(WHOLE))
}
