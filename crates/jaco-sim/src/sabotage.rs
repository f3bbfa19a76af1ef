//! Defects put in on purpose, between the product's parts and the world: a checker that finds none
//! of them could not find anything.

use jaco_scheduler::Plan;
use jaco_state::command::{Previous, ReplaceCause};
use jaco_state::job::JobRecord;
use jaco_state::{Change, ClusterState, NewInstance};
use jaco_types::{DesiredState, Instance, NodeStatus, Slot, Timestamp};

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// An agent that removes what it finds when it starts, instead of adopting it.
    RecreateOnStart,
    /// A planner that stops the old instance at once, instead of letting it serve.
    DropInsteadOfRetire,
    /// A planner that says the same thing again and again.
    NeverQuiet,
    /// An agent that takes every container on its machine for its own.
    IgnoreOwner,
    /// An agent that does not notice that its node is cut off.
    NeverIsolated,
    /// An agent that ends what serves as soon as its successor is asked for.
    EndPredecessors,
    /// An agent that runs whatever it has under an image's name, though it is settled what that is.
    FollowNames,
    /// Nodes that do not execute what others report.
    SkipReports,
    /// An engine that stops and removes nothing.
    NeverStop,
    /// An engine that runs every container three times.
    TripleContainers,
    /// An engine that makes a second container for an instance.
    StartTwice,
    /// A planner that replaces all replicas of a service once it replaces one.
    ReplaceAllAtOnce,
    /// A planner that removes a replica that is wanted.
    RemoveWanted,
    /// A leader that writes what another machine planned.
    DeposedPlans,
    /// A leader that acknowledges an apply without writing it.
    LoseWrites,
    /// An agent that asks to be woken at once, always.
    WakeInCircles,
    /// A planner that disables a replica that no user disabled.
    DisableUnasked,
    /// A planner that runs what ran to its end once more.
    RunFinished,
    /// Nodes that give freed addresses again at once.
    ForgetQuarantine,
    /// Routers that answer names before the way to their addresses stands.
    NamesBeforeRoutes,
    /// Routers that remove no way to an address.
    KeepRoutes,
    /// Routers that let packets through between networks whose addresses are near each other.
    OpenPolicy,
    /// Routers that take the address of an instance for that of another one.
    ExchangeOwners,
    /// Routers that acknowledge what they are about to do.
    ReleaseAtOnce,
    /// Routers that forget that names are remembered.
    ForgetNames,
    /// An agent that goes on with what it runs although its node was removed.
    StayWhenRemoved,
    /// An agent that pulls without the logins of its cluster.
    ForgetLogins,
    /// Nodes that forget which due times of jobs were dealt with.
    ForgetDueTimes,
    /// An engine that starts the next instance of a replica beside the one that it was asked for.
    StartBeside,
    /// A leader that begins no run of a job.
    MissDueTimes,
    /// An engine that says that it attached a container to networks, and did not.
    FeignJoins,
    /// A planner that places what is new on a node whose disk is full, where there is one.
    FillDisks,
}

impl Sabotage {
    /// Every defect.
    pub const ALL: [Self; 32] = [
        Self::RecreateOnStart,
        Self::DropInsteadOfRetire,
        Self::NeverQuiet,
        Self::IgnoreOwner,
        Self::NeverIsolated,
        Self::EndPredecessors,
        Self::FollowNames,
        Self::SkipReports,
        Self::NeverStop,
        Self::TripleContainers,
        Self::StartTwice,
        Self::ReplaceAllAtOnce,
        Self::RemoveWanted,
        Self::DeposedPlans,
        Self::LoseWrites,
        Self::WakeInCircles,
        Self::DisableUnasked,
        Self::RunFinished,
        Self::ForgetQuarantine,
        Self::NamesBeforeRoutes,
        Self::KeepRoutes,
        Self::OpenPolicy,
        Self::ExchangeOwners,
        Self::ReleaseAtOnce,
        Self::ForgetNames,
        Self::StayWhenRemoved,
        Self::ForgetLogins,
        Self::ForgetDueTimes,
        Self::StartBeside,
        Self::MissDueTimes,
        Self::FeignJoins,
        Self::FillDisks,
    ];

    /// Spoils the state of a node.
    pub(crate) fn state(self, state: &mut ClusterState) {
        if self == Self::ForgetDueTimes {
            forget_due_times(state);
        }
        if self == Self::ForgetQuarantine {
            forget_quarantine(state);
        }
    }

    /// Spoils a plan.
    pub(crate) fn plan(self, mut plan: Plan, state: &ClusterState) -> Plan {
        if self == Self::DropInsteadOfRetire {
            for change in &mut plan.changes {
                if let Change::SlotReplace { previous, .. } = change {
                    *previous = Previous::Drop;
                }
            }
        }
        if self == Self::FillDisks {
            place_on_full_disk(&mut plan, state);
        }
        if self == Self::NeverQuiet
            && plan.changes.is_empty()
            && let Some((service, record)) = state.scheduling.iter().next()
        {
            let (service, record) = (service.clone(), record.clone());
            plan.changes.push(Change::SchedulingSet { service, record: Box::new(record) });
        }
        if self == Self::ReplaceAllAtOnce {
            replace_all(&mut plan, state);
        }
        if let Some(slot) = state.slots.values().next().filter(|_| plan.changes.is_empty()) {
            let Instance { node, revision, spec_hash, .. } = slot.current;
            let instance = NewInstance { node, revision, spec_hash, gpus: Vec::new() };
            let id = slot.id.clone();
            if self == Self::RemoveWanted {
                plan.changes.push(Change::SlotRemove { id: id.clone() });
            }
            if self == Self::DisableUnasked {
                plan.changes.push(Change::SlotDisable { id, instance });
            }
        }
        if self == Self::RunFinished && plan.changes.is_empty() {
            let mut slots = state.slots.values();
            let finished =
                slots.find(|slot| matches!(slot.desired_state, DesiredState::Finished(_)));
            plan.changes.extend(finished.map(run_again));
        }
        plan
    }
}

fn forget_due_times(state: &mut ClusterState) {
    let jobs: Vec<_> =
        state.jobs.iter().map(|(job, record)| (job.clone(), record.clone())).collect();
    for (job, record) in jobs {
        state.jobs.insert(job, JobRecord { seen: Timestamp(0), ..record });
    }
}

fn forget_quarantine(state: &mut ClusterState) {
    let freed: Vec<_> = std::mem::take(&mut state.networks.quarantine)
        .values()
        .flat_map(|row| row.addresses.clone())
        .collect();
    let ids: Vec<_> = state.networks.rows.keys().copied().collect();
    for id in ids {
        let Some(network) = state.networks.rows.get_mut(&id) else { continue };
        network.cursor = 0;
        for own in freed.iter().filter(|own| own.network == id) {
            network.taken.remove(&own.address);
        }
    }
}

/// Runs the same once more in a slot.
fn run_again(slot: &Slot) -> Change {
    let Instance { node, revision, spec_hash, .. } = slot.current;
    Change::SlotReplace {
        id: slot.id.clone(),
        instance: NewInstance { node, revision, spec_hash, gpus: Vec::new() },
        previous: Previous::Drop,
        cause: ReplaceCause::Moved,
        consecutive_failures: 0,
    }
}

/// Places every new replica on a node whose disk is full, if there is one.
fn place_on_full_disk(plan: &mut Plan, state: &ClusterState) {
    let full = state.nodes.values().find(|node| node.status == NodeStatus::DiskFull);
    let Some(full) = full.map(|node| node.id) else { return };
    for change in &mut plan.changes {
        if let Change::SlotCreate { instance, .. } = change {
            instance.node = full;
        }
    }
}

/// Drops every replica of a service of which one is dropped.
fn replace_all(plan: &mut Plan, state: &ClusterState) {
    let dropped = plan.changes.iter().find_map(|change| {
        let Change::SlotReplace { id, previous: Previous::Drop, instance, cause, .. } = change
        else {
            return None;
        };
        Some((id.clone(), instance.clone(), *cause))
    });
    let Some((id, instance, cause)) = dropped else { return };
    let Some(service) = state.slots.get(&id).map(|slot| &slot.service) else { return };
    let others = state.slots.values().filter(|slot| slot.service == *service && slot.id != id);
    let drops = others.map(|slot| Change::SlotReplace {
        id: slot.id.clone(),
        instance: NewInstance { node: slot.current.node, ..instance.clone() },
        previous: Previous::Drop,
        cause,
        consecutive_failures: 0,
    });
    plan.changes.extend(drops);
}
