//! The members: availability, labels, removal.

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::{NodeDrain, NodeRemove, NodeSetAvailability, NodeSetLabels};
use jaco_store::Store;
use jaco_types::{Author, Availability, ErrorCode, Hostname, Millis, NodeId, Rejection};

use crate::forward::Write;
use crate::member::Member;
use crate::peers::no_leader;
use crate::status::invalid;

use super::labels;

#[async_trait]
impl Write for v1::SetAvailabilityRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetAvailabilityResponse, Rejection> {
        let wanted = [Availability::Active, Availability::Cordoned, Availability::Draining];
        let availability = wanted.into_iter().find(|each| each.as_str() == self.availability);
        let availability = availability.ok_or_else(|| {
            let given = &self.availability;
            invalid(format!("availability is {given:?}: write active, cordoned or draining"))
        })?;
        let node = member.store.read(|state| find_node(state, &self.hostname))?;
        let is_set = |state: &ClusterState| {
            state.nodes.get(&node).is_some_and(|node| {
                node.availability == availability && node.availability_reason.is_empty()
            })
        };
        // Writes nothing if the newest state has this availability already.
        if member.store.catch_up().await.is_ok() && member.store.read(is_set) {
            return Ok(v1::SetAvailabilityResponse {});
        }
        let command = match availability {
            Availability::Draining => {
                let timeout = Some(Millis(self.drain_timeout_ms)).filter(|given| given.0 > 0);
                NodeDrain::new(node, timeout.unwrap_or(DRAIN_TIMEOUT)).into()
            }
            Availability::Active | Availability::Cordoned => {
                NodeSetAvailability::new(node, availability).into()
            }
        };
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::SetAvailabilityResponse {})
    }
}

#[async_trait]
impl Write for v1::SetLabelsRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetLabelsResponse, Rejection> {
        let pairs = self.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let unset = self.unset.iter().map(|key| (key.as_str(), ""));
        let problems: Vec<String> = pairs.chain(unset).filter_map(invalid_label).collect();
        if !problems.is_empty() {
            return Err(invalid(problems.join("; ")));
        }
        let both = self.unset.iter().find(|key| self.set.contains_key(*key));
        if let Some(key) = both {
            return Err(invalid(format!("label {key:?} is both set and removed: give it once")));
        }
        let node = member.store.read(|state| find_node(state, &self.hostname))?;
        let before = member.store.read(|state| labels::global_services(state, node));
        let set = self.set.into_iter().collect();
        let command =
            NodeSetLabels::new(node).set(set).unset(self.unset.into_iter().collect()).into();
        member.commit(by, &self.request_id, command).await?;
        let effects = member.store.read(|state| {
            labels::effects(&before, &labels::global_services(state, node), &self.hostname)
        });
        let labels = member.store.read(|state| {
            let node = state.nodes.get(&node);
            let labels = node.map(jaco_types::Node::all_labels).unwrap_or_default();
            labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        });
        Ok(v1::SetLabelsResponse { labels, effects })
    }
}

/// Maximum size of the key of a label, and of its value.
const LABEL_BYTES_MAX: usize = 253;

/// Why a label is invalid: its key is reserved, cannot be written in a constraint, or is too long.
fn invalid_label((key, value): (&str, &str)) -> Option<String> {
    let fits = |text: &str| text.len() <= LABEL_BYTES_MAX && !text.chars().any(char::is_control);
    let is_usable =
        !key.is_empty() && !key.chars().any(|c| c.is_whitespace() || "={}$".contains(c));
    let is_reserved = ["node.hostname", "node.arch", "node.os"].contains(&key);
    if is_reserved {
        return Some(format!(
            "label {key:?} is reserved for a fact of the node: choose another key"
        ));
    }
    (!is_usable || !fits(key) || !fits(value)).then(|| {
        format!(
            "label {key:?} is invalid: a key has no spaces, \"=\", \"$\" and braces, and neither key nor \
             value exceeds {LABEL_BYTES_MAX} bytes"
        )
    })
}

#[async_trait]
impl Write for v1::RemoveNodeRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveNodeResponse, Rejection> {
        let node = member.store.read(|state| {
            let node = find_node(state, &self.hostname)?;
            check_identity(node, &self)?;
            check_removable(state, node, &self)?;
            Ok::<_, Rejection>(node)
        })?;
        if node == member.id {
            // A leader cannot remove itself and then answer: its successor removes it.
            let handed_over = member.store.raft().transfer_leader_to_any().await;
            handed_over.map_err(|error| {
                let message = format!(
                    "{} is the leader and could not transfer leadership ({error}): try again",
                    self.hostname
                );
                Rejection::new(ErrorCode::NodeNotRemovable, message)
            })?;
            return Err(no_leader());
        }
        take_needed_vote(member, node, &self.hostname).await?;
        member.commit(by, &self.request_id, NodeRemove::new(node).into()).await?;
        Ok(v1::RemoveNodeResponse {})
    }
}

/// Of two voters both are needed for a quorum, and a node that is removed stops at once: it loses its vote before.
async fn take_needed_vote(member: &Member, node: NodeId, hostname: &str) -> Result<(), Rejection> {
    let raft = member.store.raft();
    let mut voters = raft.status().voters;
    if voters.len() != 2 || !voters.remove(&node.0) {
        return Ok(());
    }
    raft.set_voters(voters).await.map_err(|error| {
        let message =
            format!("{hostname} is one of two voters and keeps its vote ({error}): try again");
        Rejection::new(ErrorCode::NodeNotRemovable, message)
    })
}

/// The member of this name.
///
/// # Errors
/// If there is none.
pub(in crate::service) fn find_node(
    state: &ClusterState,
    hostname: &str,
) -> Result<NodeId, Rejection> {
    let name = Hostname::new(hostname).map_err(invalid)?;
    let node = state.node_by_hostname(&name).map(|node| node.id);
    node.ok_or_else(|| {
        let known: Vec<_> = state.nodes.values().map(|node| node.hostname.to_string()).collect();
        let message = format!("there is no node {name}; the members are {}", known.join(", "));
        Rejection::new(ErrorCode::NodeNotFound, message)
    })
}

/// Default timeout of a drain (R-NODE-2).
const DRAIN_TIMEOUT: Millis = Millis::from_secs(5 * 60);

/// Whether the node of that name is the one that is meant.
fn check_identity(node: NodeId, request: &v1::RemoveNodeRequest) -> Result<(), Rejection> {
    if request.node_id == 0 || request.node_id == node.0 {
        return Ok(());
    }
    let message = format!(
        "{} is node {node} now, node {} was removed: nothing was changed",
        request.hostname, request.node_id
    );
    Err(Rejection::new(ErrorCode::NodeNotFound, message))
}

/// Whether a node may be removed: never the last one; one with replicas or containers only with `force`.
fn check_removable(
    state: &ClusterState,
    node: NodeId,
    request: &v1::RemoveNodeRequest,
) -> Result<(), Rejection> {
    let refuse = |message: String| Err(Rejection::new(ErrorCode::NodeNotRemovable, message));
    if state.nodes.len() == 1 {
        return refuse(format!(
            "{} is the last node of the cluster and cannot be removed",
            request.hostname
        ));
    }
    if request.force {
        return Ok(());
    }
    let replicas: Vec<_> = state
        .slots
        .values()
        .filter(|slot| slot.instances().any(|(_, instance)| instance.node == node))
        .map(|slot| slot.id.to_string())
        .collect();
    if replicas.is_empty() {
        return check_stopped(state, node, &request.hostname);
    }
    refuse(format!(
        "{} still has {} replicas ({}): drain it first with `jaco node drain {}`, or use --force",
        request.hostname,
        replicas.len(),
        replicas.iter().take(5).cloned().collect::<Vec<_>>().join(", "),
        request.hostname,
    ))
}

/// Whether all containers of a node are stopped: after its removal nobody would stop them.
fn check_stopped(state: &ClusterState, node: NodeId, hostname: &str) -> Result<(), Rejection> {
    let mut stopping =
        jaco_state::view::stopping(state).filter(|(_, on)| *on == node).map(|(id, _)| id);
    let Some(first) = stopping.next() else { return Ok(()) };
    let message = format!(
        "{hostname} still has {} containers to stop and remove ({first}): wait for them with \
         `jaco node drain {hostname}`, or use --force",
        1 + stopping.count(),
    );
    Err(Rejection::new(ErrorCode::NodeNotRemovable, message))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jaco_types::slot::SlotData;
    use jaco_types::{
        DesiredState, Instance, InstanceId, InstanceObserved, Node, NodeFacts, NodeStatus, Ordinal,
        ReplicaId, ReplicaState, RestartCount, Revision, ServiceKey, Slot, SpecHash, StateIndex,
        Timestamp,
    };

    use super::*;

    const N1: NodeId = NodeId(1);
    const N2: NodeId = NodeId(2);

    fn node(id: NodeId, status: NodeStatus) -> Node {
        Node {
            id,
            hostname: Hostname::new(&format!("n{id}")).unwrap(),
            address: String::new(),
            mesh_address: None,
            key_fingerprint: [0; 32],
            status,
            status_reason: String::new(),
            availability: Availability::Active,
            availability_reason: String::new(),
            drain: None,
            facts: NodeFacts::default(),
            labels: BTreeMap::new(),
            joined_at: Timestamp(0),
            modified: StateIndex(id.0),
        }
    }

    fn members(nodes: &[(NodeId, NodeStatus)]) -> ClusterState {
        ClusterState {
            nodes: nodes.iter().map(|(id, status)| (*id, node(*id, *status))).collect(),
            ..ClusterState::default()
        }
    }

    fn web() -> ServiceKey {
        ServiceKey { deployment: "shop".parse().unwrap(), service: "web".parse().unwrap() }
    }

    fn replica(index: u64) -> ReplicaId {
        ReplicaId::parse(&format!("shop-web-{index}")).unwrap()
    }

    fn instance(node: NodeId) -> Instance {
        Instance {
            raft_index: StateIndex(9),
            node,
            revision: Revision(1),
            spec_hash: SpecHash([0; 32]),
            addresses: Vec::new(),
            joining_since: None,
            gpus: Vec::new(),
        }
    }

    fn slot(index: u64, current: NodeId, retiring: Option<NodeId>) -> Slot {
        Slot {
            id: replica(index),
            service: web(),
            ordinal: Ordinal::Index(index),
            desired_state: DesiredState::Active,
            current: instance(current),
            retiring: retiring.map(instance),
            data: SlotData::default(),
            restarts: RestartCount::default(),
            terminations: Vec::new(),
            modified: StateIndex(9),
        }
    }

    fn with_slots(mut state: ClusterState, slots: impl IntoIterator<Item = Slot>) -> ClusterState {
        state.slots = slots.into_iter().map(|slot| (slot.id.clone(), slot)).collect();
        state
    }

    /// A container of a replica that belongs to no slot any more.
    fn with_leftover(mut state: ClusterState, node: NodeId) -> ClusterState {
        let id = InstanceId { replica: replica(8), raft_index: StateIndex(3) };
        let seen = InstanceObserved {
            id: id.clone(),
            service: web(),
            node,
            state: ReplicaState::Running,
            code: None,
            details: BTreeMap::new(),
            container_id: "c8".to_owned(),
            ports: BTreeMap::new(),
            started_at: None,
            since: Timestamp(0),
            exit: None,
        };
        state.observed = [(id, seen)].into_iter().collect();
        state
    }

    /// Why n1 cannot be removed; empty if it can.
    fn refusal(state: &ClusterState, force: bool) -> String {
        let request =
            v1::RemoveNodeRequest { hostname: "n1".to_owned(), force, ..Default::default() };
        match check_removable(state, N1, &request) {
            Ok(()) => String::new(),
            Err(rejection) => {
                assert_eq!(rejection.code, ErrorCode::NodeNotRemovable);
                rejection.message
            }
        }
    }

    /// R-NODE-2: a node is removed once it has neither replicas nor containers.
    #[test]
    fn a_node_with_replicas_or_containers_is_not_removable() {
        let two = || members(&[(N1, NodeStatus::Ready), (N2, NodeStatus::Ready)]);
        assert_eq!(refusal(&two(), false), "");
        let elsewhere = with_slots(two(), [slot(1, N2, None)]);
        assert_eq!(refusal(&elsewhere, false), "");
        let current = with_slots(two(), [slot(1, N1, None), slot(2, N1, None), slot(3, N2, None)]);
        assert_eq!(
            refusal(&current, false),
            "n1 still has 2 replicas (shop-web-1, shop-web-2): drain it first with \
             `jaco node drain n1`, or use --force"
        );
        let retiring = with_slots(two(), [slot(1, N2, Some(N1))]);
        assert!(refusal(&retiring, false).starts_with("n1 still has 1 replicas (shop-web-1)"));
        let leftover = with_leftover(two(), N1);
        assert_eq!(
            refusal(&leftover, false),
            "n1 still has 1 containers to stop and remove (shop-web-8@3): wait for them with \
             `jaco node drain n1`, or use --force"
        );
        assert_eq!(refusal(&with_leftover(two(), N2), false), "");
    }

    /// R-NODE-2: a node that has the name of a removed one is not removed in its place.
    #[test]
    fn a_later_node_of_the_same_name_is_not_removed() {
        let request = |node_id| v1::RemoveNodeRequest {
            hostname: "n1".to_owned(),
            node_id,
            ..Default::default()
        };
        assert_eq!(check_identity(N1, &request(0)), Ok(()));
        assert_eq!(check_identity(N1, &request(1)), Ok(()));
        let refused = check_identity(N2, &request(1)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::NodeNotFound);
        assert!(refused.message.contains("n1 is node 2 now"), "{}", refused.message);
    }

    /// R-NODE-2: at most five replicas are listed.
    #[test]
    fn a_long_list_of_replicas_is_cut() {
        let two = members(&[(N1, NodeStatus::Ready), (N2, NodeStatus::Ready)]);
        let full = with_slots(two, (1..=9).map(|index| slot(index, N1, None)));
        let refused = refusal(&full, false);
        assert!(refused.starts_with("n1 still has 9 replicas ("), "{refused}");
        assert_eq!(refused.matches("shop-web-").count(), 5, "{refused}");
    }

    /// R-NODE-2: a disabled replica keeps its placement but has no container: it does not hold the node. A node
    /// that is down cannot report the end of its containers: they do not hold it either.
    #[test]
    fn disabled_replicas_and_containers_of_a_lost_node_do_not_count() {
        let two = members(&[(N1, NodeStatus::Ready), (N2, NodeStatus::Ready)]);
        let disabled = Slot { desired_state: DesiredState::Disabled, ..slot(1, N1, None) };
        assert_eq!(refusal(&with_slots(two, [disabled]), false), "");
        let lost = members(&[(N1, NodeStatus::Down), (N2, NodeStatus::Ready)]);
        assert_eq!(refusal(&with_leftover(lost, N1), false), "");
    }

    /// R-NODE-2: force removes a node with replicas, but never the last node.
    #[test]
    fn force_does_not_remove_the_last_node() {
        let two = members(&[(N1, NodeStatus::Down), (N2, NodeStatus::Ready)]);
        assert_eq!(refusal(&with_slots(two, [slot(1, N1, None)]), true), "");
        let alone = members(&[(N1, NodeStatus::Ready)]);
        for force in [true, false] {
            let expected = "n1 is the last node of the cluster and cannot be removed";
            assert_eq!(refusal(&alone, force), expected);
        }
    }

    /// R-SEL-1: labels that cannot be written in a constraint, that are reserved or too long are refused.
    #[test]
    fn invalid_labels_are_refused() {
        let long = "x".repeat(LABEL_BYTES_MAX + 1);
        let cases = [
            (("zone", "a"), None),
            (("disk.type", ""), None),
            (("", "a"), Some("is invalid")),
            (("a b", "c"), Some("is invalid")),
            (("a=b", "c"), Some("is invalid")),
            (("${a}", "c"), Some("is invalid")),
            (("zone", "a\nb"), Some("is invalid")),
            (("zone", long.as_str()), Some("is invalid")),
            ((long.as_str(), "a"), Some("is invalid")),
            (("node.arch", "arm64"), Some("is reserved")),
        ];
        for (label, expected) in cases {
            let problem = invalid_label(label);
            match expected {
                None => assert_eq!(problem, None, "{label:?}"),
                Some(part) => assert!(problem.is_some_and(|text| text.contains(part)), "{label:?}"),
            }
        }
    }
}
