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
    /// None where neither replicas nor deployments are asked for.
    slots: BTreeMap<&'s ServiceKey, Vec<&'s Slot>>,
}

impl<'s> Shown<'s> {
    #[must_use]
    pub(crate) fn of(state: &'s ClusterState, request: &'s v1::StatusRequest) -> Self {
        let mut slots: BTreeMap<&ServiceKey, Vec<&Slot>> = BTreeMap::new();
        if request.scope() != v1::StatusScope::Nodes {
            for slot in state.slots.values().filter(|slot| is_wanted(request, &slot.service)) {
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
        let slots = self.slots.values().flatten().filter(move |_| shows_them);
        let replicas = slots.map(|slot| replica_info(self.state, slot));
        let leftovers = self.leftovers().filter(move |_| shows_them);
        replicas.chain(leftovers.map(|seen| leftover_info(self.state, seen)))
    }

    /// State and code of each replica.
    pub(crate) fn states(&self) -> impl Iterator<Item = (String, String)> {
        let states = self.slots.values().flatten().map(|slot| {
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
        let slots = self.slots.values().flatten();
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

    fn leftovers(&self) -> impl Iterator<Item = &'s InstanceObserved> {
        let (state, request) = (self.state, self.request);
        let wanted = move |seen: &&InstanceObserved| {
            is_wanted(request, &seen.service) && !state.slots.contains(&seen.id.replica)
        };
        state.observed.values().filter(wanted)
    }
}

fn is_wanted(request: &v1::StatusRequest, key: &ServiceKey) -> bool {
    (request.deployment.is_empty() || key.deployment.as_str() == request.deployment)
        && (request.service.is_empty() || key.service.as_str() == request.service)
}
