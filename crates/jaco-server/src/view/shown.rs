//! What a status request asks for, of one state, an entry at a time: a large status is never there as a whole.

use std::collections::{BTreeMap, BTreeSet};

use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_types::{InstanceObserved, NodeId, ReasonCode, ServiceKey, Slot};

use super::{STOPPING, deployment_info, leftover_info, replica_info, replica_state};

/// The deployments and replicas of a request; those of all deployments if it names none.
#[derive(Debug)]
pub(crate) struct Shown<'s> {
    state: &'s ClusterState,
    request: &'s v1::StatusRequest,
    /// Of all services of what is asked for: its deployments are shown as a whole. None where neither replicas nor
    /// deployments are asked for.
    slots: BTreeMap<&'s ServiceKey, Vec<&'s Slot>>,
}

impl<'s> Shown<'s> {
    #[must_use]
    pub(crate) fn of(state: &'s ClusterState, request: &'s v1::StatusRequest) -> Self {
        let mut slots: BTreeMap<&ServiceKey, Vec<&Slot>> = BTreeMap::new();
        if request.scope() != v1::StatusScope::Nodes {
            let is_shown = |slot: &&Slot| is_of_deployment(request, &slot.service);
            for slot in state.slots.values().filter(is_shown) {
                slots.entry(&slot.service).or_default().push(slot);
            }
        }
        Self { state, request, slots }
    }

    pub(crate) fn deployments(&self) -> impl Iterator<Item = v1::DeploymentInfo> {
        let wanted = self.request.deployment.as_str();
        let shows_them = self.request.scope() != v1::StatusScope::Nodes;
        let all = self.state.deployments.values().filter(move |_| shows_them);
        all.filter(move |it| wanted.is_empty() || it.name.as_str() == wanted)
            .map(|deployment| deployment_info(self.state, deployment, &self.slots))
    }

    /// By service; at the end what is no replica any more and is being removed.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = v1::ReplicaInfo> {
        let shows_them = self.request.scope() == v1::StatusScope::All;
        let slots = self.wanted().filter(move |_| shows_them);
        let replicas = slots.map(|slot| replica_info(self.state, slot));
        let leftovers = self.leftovers().filter(move |_| shows_them);
        replicas.chain(leftovers.map(|seen| leftover_info(self.state, seen)))
    }

    /// State and code of each replica.
    pub(crate) fn states(&self) -> impl Iterator<Item = (String, String)> {
        let states = self.wanted().map(|slot| {
            let (state, code, _) = replica_state(self.state, slot);
            (state, code)
        });
        states.chain(self.leftovers().map(|_| (STOPPING.to_owned(), String::new())))
    }

    /// The nodes that pull something for what is shown.
    #[must_use]
    pub(crate) fn pulling(&self) -> BTreeSet<NodeId> {
        if self.request.scope() == v1::StatusScope::Nodes {
            return BTreeSet::new();
        }
        let slots = self.wanted();
        let seen = slots.filter_map(|slot| self.state.observed.get(&slot.current_id()));
        let pulls = |seen: &&InstanceObserved| {
            matches!(seen.code, Some(ReasonCode::Pulling | ReasonCode::ImagePullFailed))
        };
        let preparing =
            self.state.scheduling.iter().filter(|(key, _)| is_wanted(self.request, key));
        let preparing =
            preparing.filter_map(|(_, record)| record.rollout.as_ref()?.prepull.as_ref());
        let preparing = preparing.flat_map(|prepull| prepull.nodes.keys().copied());
        seen.filter(pulls).map(|seen| seen.node).chain(preparing).collect()
    }

    /// The slots of the services that are asked for.
    fn wanted(&self) -> impl Iterator<Item = &'s Slot> {
        let request = self.request;
        let wanted = self.slots.iter().filter(move |(key, _)| is_wanted(request, key));
        wanted.flat_map(|(_, slots)| slots.iter().copied())
    }

    fn leftovers(&self) -> impl Iterator<Item = &'s InstanceObserved> {
        let (state, request) = (self.state, self.request);
        let wanted = move |seen: &&InstanceObserved| {
            is_wanted(request, &seen.service) && !state.slots.contains(&seen.id.replica)
        };
        state.observed.values().filter(wanted)
    }
}

fn is_of_deployment(request: &v1::StatusRequest, key: &ServiceKey) -> bool {
    request.deployment.is_empty() || key.deployment.as_str() == request.deployment
}

fn is_wanted(request: &v1::StatusRequest, key: &ServiceKey) -> bool {
    is_of_deployment(request, key)
        && (request.service.is_empty() || key.service.as_str() == request.service)
}

#[cfg(test)]
mod tests {
    use jaco_state::command::{DeploymentApply, Observe};
    use jaco_state::{Change, NewInstance};
    use jaco_types::{Completion, DesiredState, NodeId, Ordinal, ReplicaId, ReplicaState};

    use super::*;
    use crate::view::path::tests::history::{History, deployment, key, seen, service, spec};

    /// `shop` with `web`, which runs, and `job`, which has completed.
    fn cluster() -> History {
        let mut history = History::founded();
        let services = [service("web", "web:1"), service("job", "job:1")];
        history.apply(DeploymentApply::new(deployment("shop"), spec(&services)).into());
        let revision = history.state.deployments.get(&deployment("shop")).unwrap().revision;
        for one in &services {
            let key = key("shop", one.name.as_str());
            let ordinal = Ordinal::Index(0);
            let id = ReplicaId::new(&key, &ordinal);
            history.batch(vec![Change::SlotCreate {
                id: id.clone(),
                service: key,
                ordinal,
                instance: NewInstance {
                    node: NodeId::FIRST,
                    revision,
                    spec_hash: one.hash,
                    gpus: Vec::new(),
                },
                desired_state: DesiredState::Active,
            }]);
            let current = history.state.slots.get(&id).unwrap().current_id();
            let running = seen(current, NodeId::FIRST, ReplicaState::Running);
            history.apply(Observe::new(NodeId::FIRST).observed(vec![running]).into());
        }
        let job = ReplicaId::new(&key("shop", "job"), &Ordinal::Index(0));
        history.state.slots.get_mut(&job).unwrap().desired_state =
            DesiredState::Finished(Completion::Succeeded);
        history
    }

    fn counts(history: &History, service: &str) -> Vec<(String, u32, u32, u32)> {
        let request = v1::StatusRequest {
            deployment: "shop".to_owned(),
            service: service.to_owned(),
            ..v1::StatusRequest::default()
        };
        let shown = Shown::of(&history.state, &request);
        let services = shown.deployments().flat_map(|deployment| deployment.services);
        services.map(|it| (it.name, it.running, it.completed, it.desired)).collect()
    }

    /// R-CLI-10: a job that has completed is one of its desired replicas; and the status of one service counts the others of
    /// its deployment as they are, and has the replicas of that one alone.
    #[test]
    fn services_are_counted_whichever_is_asked_for() {
        let history = cluster();
        let expected = [("job".to_owned(), 0, 1, 1), ("web".to_owned(), 1, 0, 1)];
        assert_eq!(counts(&history, ""), expected);
        assert_eq!(counts(&history, "job"), expected);
        let request = v1::StatusRequest {
            deployment: "shop".to_owned(),
            service: "job".to_owned(),
            ..v1::StatusRequest::default()
        };
        let shown: Vec<_> =
            Shown::of(&history.state, &request).replicas().map(|replica| replica.id).collect();
        assert_eq!(shown, ["shop-job-0"]);
    }
}
