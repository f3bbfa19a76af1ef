//! What this node and its containers use, as shares of what the node has. It measures and says; what
//! follows from it is the leader's to decide.

mod group;
pub mod parse;
mod told;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jaco_types::InstanceId;
use jaco_types::unit::Resources;

use self::group::{Group, Kernel, read_path};
use crate::engine::{ContainerId, ContainerSeen, ContainerStatus, Counters};

pub use self::told::{Told, ask};

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
    instances: BTreeMap<InstanceId, Counters>,
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

    /// Looks at the counters, and takes those of `told` for what the kernel says nothing of. Nothing
    /// where there is none to compare with, or where the kernel does not tell what the node uses:
    /// silence is better than a guess.
    pub fn sample(
        &mut self,
        containers: &[ContainerSeen],
        told: Told,
        at: Duration,
    ) -> Option<NodeUse> {
        self.follow(containers);
        let mut instances = told;
        let read = self.groups.iter();
        instances.extend(read.filter_map(|(id, group)| Some((id.clone(), group.counters()?))));
        let now = Reading { at, machine_micros: self.machine_micros(), instances };
        let (before, now) = (self.before.replace(now)?, self.before.as_ref()?);
        let elapsed = now.at.saturating_sub(before.at).as_micros();
        let share_of_time = |micros: u64| {
            let whole = elapsed.saturating_mul(u128::from(self.capacity.cpu.0)) / 1000;
            share(u128::from(micros), whole)
        };
        let mut sum = Used::default();
        let mut instances = BTreeMap::new();
        for (id, is) in &now.instances {
            let Some(was) = before.instances.get(id) else { continue };
            let cpu = is.cpu_micros.checked_sub(was.cpu_micros).and_then(share_of_time);
            let memory = self.share_of_memory(is.memory_bytes);
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

    /// The containers that run and that the kernel's files say nothing of: the engine may.
    pub fn unread(&mut self, containers: &[ContainerSeen]) -> Vec<(InstanceId, ContainerId)> {
        self.follow(containers);
        let is_unread = |seen: &&ContainerSeen| {
            is_up(seen) && !self.groups.get(&seen.instance).is_some_and(Group::is_whole)
        };
        let unread = containers.iter().filter(is_unread);
        unread.map(|seen| (seen.instance.clone(), seen.container.clone())).collect()
    }

    /// Opens the groups of containers that came, and closes those of what went.
    fn follow(&mut self, containers: &[ContainerSeen]) {
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

fn is_up(seen: &ContainerSeen) -> bool {
    matches!(seen.status, ContainerStatus::Up { .. })
}

/// A part of a whole in millionths; nothing where there is no whole.
fn share(part: u128, whole: u128) -> Option<u64> {
    let millionths = part.saturating_mul(u128::from(WHOLE)).checked_div(whole)?;
    Some(u64::try_from(millionths).unwrap_or(WHOLE).min(WHOLE))
}
