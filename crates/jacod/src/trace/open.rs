//! The applies that are followed. Pure.

use std::collections::BTreeMap;

use jaco_state::deployment::Deployment;
use jaco_state::view::{Convergence, convergence};
use jaco_state::{ClusterState, Table};
use jaco_types::{
    DeploymentName, InstanceId, Millis, Revision, Sampled, StateIndex, Timestamp, TraceContext,
};

use super::instance::Following;

/// For how long an apply is followed that does not converge.
pub(super) const PATIENCE: Millis = Millis(3_600_000);

/// An apply that has not converged yet.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) revision: Revision,
    pub(super) place: TraceContext,
    pub(super) applied_at: Timestamp,
    /// Instances that this entry or an earlier one asked for are not of this apply.
    pub(super) applied: StateIndex,
    /// The instances on this node.
    pub(super) instances: BTreeMap<InstanceId, Following>,
}

/// How an apply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All of its replicas ran.
    Converged,
    /// It was given up, for this reason.
    Failed(&'static str),
    /// Another apply took its place, or the deployment was deleted.
    Superseded,
    /// It is followed no longer.
    Unfinished,
}

/// The applies that are followed, and up to which revision each deployment was.
#[derive(Debug, Default)]
pub(super) struct OpenApplies {
    pub(super) open: BTreeMap<DeploymentName, Open>,
    seen: BTreeMap<DeploymentName, Revision>,
    looked_at: Table<DeploymentName, Deployment>,
}

impl OpenApplies {
    /// Follows what was applied since the last look. Returns what is followed no longer, because something else took its
    /// place.
    pub(super) fn look(
        &mut self,
        state: &ClusterState,
        now: Timestamp,
    ) -> Vec<(DeploymentName, Open)> {
        if self.looked_at.is_same(&state.deployments) {
            return Vec::new();
        }
        self.looked_at = state.deployments.clone();
        self.seen.retain(|name, _| state.deployments.get(name).is_some());
        let is_wanted = |name: &DeploymentName, open: &Open| {
            state.deployments.get(name).is_some_and(|wanted| wanted.revision == open.revision)
        };
        let (open, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.open)
            .into_iter()
            .partition(|(name, open)| is_wanted(name, open));
        self.open = open;
        for deployment in state.deployments.values() {
            self.consider(deployment, now);
        }
        gone.into_iter().collect()
    }

    fn consider(&mut self, deployment: &Deployment, now: Timestamp) {
        let Deployment { name, revision, revisions, modified } = deployment;
        if self.seen.get(name) == Some(revision) {
            return;
        }
        self.seen.insert(name.clone(), *revision);
        let Some(record) = revisions.get(revision) else { return };
        let place = record.trace.filter(|place| place.sampled() == Sampled::Yes);
        let Some(place) = place.filter(|_| now.since(record.applied_at) < PATIENCE) else { return };
        let open = Open {
            revision: *revision,
            place,
            applied_at: record.applied_at,
            applied: *modified,
            instances: BTreeMap::new(),
        };
        self.open.insert(name.clone(), open);
    }

    /// Takes out what has ended.
    pub(super) fn ended(
        &mut self,
        state: &ClusterState,
        now: Timestamp,
    ) -> Vec<(DeploymentName, Open, End)> {
        let end = |name: &DeploymentName, open: &Open| {
            let Some(deployment) = state.deployments.get(name) else {
                return Some(End::Superseded);
            };
            match convergence(state, deployment) {
                Convergence::Converged => Some(End::Converged),
                failed @ (Convergence::Exhausted
                | Convergence::Paused
                | Convergence::RolledBack) => Some(End::Failed(failed.as_str())),
                Convergence::Progressing | Convergence::CannotPlace => {
                    (now.since(open.applied_at) >= PATIENCE).then_some(End::Unfinished)
                }
            }
        };
        let ends: Vec<_> = self
            .open
            .iter()
            .filter_map(|(name, open)| Some((name.clone(), end(name, open)?)))
            .collect();
        let mut ended = Vec::new();
        for (name, end) in ends {
            if let Some(open) = self.open.remove(&name) {
                ended.push((name, open, end));
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jaco_state::deployment::{Pin, RevisionRecord};
    use jaco_types::Identity;
    use jaco_types::spec::DeploymentSpec;

    use super::*;

    const APPLIED: Timestamp = Timestamp(1_700_000_000_000);

    fn name() -> DeploymentName {
        DeploymentName::new("shop").unwrap()
    }

    fn place(sampled: Sampled) -> Option<TraceContext> {
        TraceContext::new([1; 16], [2; 8], sampled)
    }

    /// A deployment without services, which has converged as soon as it is there.
    fn state(revision: u64, trace: Option<TraceContext>) -> ClusterState {
        let record = RevisionRecord {
            spec: DeploymentSpec::default(),
            applied_at: APPLIED,
            applied_by: Identity::Scheduler,
            restores: None,
            pin: Pin::No,
            failure: String::new(),
            digests: BTreeMap::new(),
            trace,
        };
        let revision = Revision(revision);
        let revisions = [(revision, Arc::new(record))].into();
        let deployment = Deployment { name: name(), revision, revisions, modified: StateIndex(7) };
        let mut state = ClusterState { index: StateIndex(7), ..ClusterState::default() };
        state.deployments.insert(name(), deployment);
        state
    }

    /// R-OPS-1: an apply is followed if its trace is recorded, once, and not for long after it.
    #[test]
    fn recorded_applies_are_followed_until_they_converge() {
        let mut applies = OpenApplies::default();
        for trace in [None, place(Sampled::No)] {
            applies.look(&state(1, trace), APPLIED);
            assert!(applies.open.is_empty());
        }
        let old = Timestamp(APPLIED.0 + PATIENCE.0);
        applies.look(&state(2, place(Sampled::Yes)), old);
        assert!(applies.open.is_empty(), "it is too old");
        let wanted = state(3, place(Sampled::Yes));
        assert!(applies.look(&wanted, APPLIED).is_empty());
        assert_eq!(applies.open[&name()].revision, Revision(3));
        let ended = applies.ended(&wanted, APPLIED);
        assert_eq!(ended.iter().map(|(_, _, end)| *end).collect::<Vec<_>>(), [End::Converged]);
        applies.look(&state(3, place(Sampled::Yes)), APPLIED);
        assert!(applies.open.is_empty(), "it has ended");
    }

    /// R-OPS-1: the next apply takes the place of one that has not converged, and so does a deletion.
    #[test]
    fn an_apply_that_is_not_wanted_any_more_is_not_followed() {
        let mut applies = OpenApplies::default();
        applies.look(&state(1, place(Sampled::Yes)), APPLIED);
        let gone = applies.look(&state(2, place(Sampled::Yes)), APPLIED);
        assert_eq!(gone.iter().map(|(_, open)| open.revision).collect::<Vec<_>>(), [Revision(1)]);
        assert_eq!(applies.open[&name()].revision, Revision(2));
        let gone = applies.look(&ClusterState::default(), APPLIED);
        assert_eq!(gone.len(), 1);
        assert!(applies.open.is_empty());
    }
}
