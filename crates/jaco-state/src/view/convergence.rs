//! How far a deployment is from its desired state.

use std::collections::BTreeMap;

use jaco_types::rollout::{NO_ADDRESS, WAITING_FOR_DEPENDENCY, WAITING_FOR_JOB};
use jaco_types::slot::Exhausted;
use jaco_types::spec::ServiceSpec;
use jaco_types::{
    Completion, DesiredState, FirstWatch, RolloutState, ServiceKey, ServiceName, Slot,
};

use super::replica::{is_running, slots_of};
use crate::entity::deployment::Deployment;
use crate::entity::network::Network;
use crate::state::ClusterState;

/// How far a deployment is from its desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Convergence {
    /// All desired replicas run or have completed, and no others do.
    Converged,
    /// Changes are in progress.
    Progressing,
    /// Some replicas cannot be placed.
    CannotPlace,
    /// A replica exhausted its restart budget.
    Exhausted,
    /// The rollout, or its rollback, is paused; it waits for an apply or a rollback.
    Paused,
    /// The rollout was aborted; the previous revision serves.
    RolledBack,
}

impl Convergence {
    /// The status as users see it in lists.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Converged => "active",
            Self::Progressing => "updating",
            Self::CannotPlace => "pending",
            Self::Exhausted => "failed",
            Self::Paused => "paused",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// How far a deployment and each of its services are from their desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Convergences<'s> {
    /// The worst of its services, and of what is left of removed ones.
    pub deployment: Convergence,
    /// Each service of its desired spec.
    pub services: BTreeMap<&'s ServiceName, Convergence>,
}

/// How far `deployment` is from its desired state. The worst of its services decides.
#[must_use]
pub fn convergence(state: &ClusterState, deployment: &Deployment) -> Convergence {
    convergences(state, deployment).deployment
}

/// How far `deployment` and each of its services are from their desired state.
#[must_use]
pub fn convergences<'s>(state: &ClusterState, deployment: &'s Deployment) -> Convergences<'s> {
    let mut slots: BTreeMap<&ServiceKey, Vec<&Slot>> = BTreeMap::new();
    for slot in slots_of(state, &deployment.name) {
        slots.entry(&slot.service).or_default().push(slot);
    }
    let mut services = BTreeMap::new();
    for spec in deployment.spec().services.values() {
        let key = ServiceKey { deployment: deployment.name.clone(), service: spec.name.clone() };
        let slots = slots.remove(&key).unwrap_or_default();
        services.insert(&spec.name, service_convergence(state, deployment, &key, spec, &slots));
    }
    let worst = services.values().copied().max().unwrap_or(Convergence::Converged);
    // The remaining slots belong to services that were removed.
    let deployment = if slots.is_empty() { worst } else { worst.max(Convergence::Progressing) };
    Convergences { deployment, services }
}

fn service_convergence(
    state: &ClusterState,
    deployment: &Deployment,
    key: &ServiceKey,
    spec: &ServiceSpec,
    slots: &[&Slot],
) -> Convergence {
    let Some(record) = state.scheduling.get(key) else { return Convergence::Progressing };
    if record.planned_revision != deployment.revision {
        return Convergence::Progressing;
    }
    let rollout = record.rollout.as_ref();
    let rollout = rollout.filter(|one| one.target_revision == deployment.revision);
    let rollout = rollout.map(|one| one.state);
    match rollout {
        Some(RolloutState::Aborted) => return Convergence::RolledBack,
        Some(RolloutState::Paused | RolloutState::RollbackPaused) => return Convergence::Paused,
        Some(RolloutState::InProgress | RolloutState::Completed) | None => {}
    }
    if slots.iter().any(|slot| slot.restarts.exhausted == Exhausted::Yes) {
        return Convergence::Exhausted;
    }
    let is_progress = |reason: &str| match reason {
        // The status of what is waited for counts.
        WAITING_FOR_DEPENDENCY | WAITING_FOR_JOB => true,
        NO_ADDRESS => is_freed_soon(state, deployment, key),
        _ => false,
    };
    let stuck = record.unplaced.iter().any(|each| !is_progress(&each.reason));
    if stuck {
        return Convergence::CannotPlace;
    }
    let is_watched = record.first_watch == FirstWatch::Open;
    if is_watched || !record.unplaced.is_empty() || rollout == Some(RolloutState::InProgress) {
        return Convergence::Progressing;
    }
    let settled = slots.iter().all(|slot| {
        let is_disabled = state.disabled.of_slot(slot).is_some();
        let is_settled = match slot.desired_state {
            DesiredState::Disabled => is_disabled,
            // One that failed, and has not exhausted its retries, is retried.
            DesiredState::Finished(completion) => {
                completion == Completion::Succeeded || state.disabled.waiting.contains(key)
            }
            DesiredState::Active => {
                slot.retiring.is_none() && !is_disabled && is_running(state, &slot.current_id())
            }
        };
        is_settled && slot.current.spec_hash == spec.hash
    });
    if settled { Convergence::Converged } else { Convergence::Progressing }
}

/// Whether each full network of the service gets an address back by itself: its quarantine ends (NET-3), or begins once the
/// node reports that the instance is gone. One that reports nothing frees none.
fn is_freed_soon(state: &ClusterState, deployment: &Deployment, key: &ServiceKey) -> bool {
    let networks = state.networks_of(key, deployment.revision).unwrap_or_default();
    let is_full = |network: &&Network| {
        u32::try_from(network.taken.len()).is_ok_and(|taken| taken >= network.subnet.capacity())
    };
    let reports = |id| state.nodes.get(id).is_some_and(|node| node.status.is_working());
    let ends = |id| {
        let terminating = state.terminating.get(id).is_some_and(|row| reports(&row.node));
        let quarantine = state.networks.quarantine.get(id);
        terminating || quarantine.is_some_and(|row| row.until.is_some() || reports(&row.node))
    };
    let mut full = networks.into_iter().filter(is_full).peekable();
    full.peek().is_some() && full.all(|network| network.taken.values().any(ends))
}
