//! Names and labels of objects on an engine that others share.

use std::collections::{BTreeMap, HashMap};

use jaco_agent::engine::{ContainerRequest, Owner};
use jaco_types::{
    ClusterId, DeploymentName, InstanceId, NetworkId, NetworkScope, NodeId, ReplicaId, ServiceKey,
    ServiceName, SpecHash, StateIndex,
};

pub(crate) const CLUSTER: &str = "jaco.cluster_id";
pub(crate) const NODE: &str = "jaco.node";
/// The number of a network of the cluster.
pub(crate) const NETWORK_ID: &str = "jaco.network_id";
/// Its name in the cluster.
const NETWORK: &str = "jaco.network";
pub(crate) const DEPLOYMENT: &str = "jaco.deployment";
pub(crate) const SERVICE: &str = "jaco.service";
pub(crate) const REPLICA: &str = "jaco.replica_id";
const REPLICA_INDEX: &str = "jaco.replica_index";
const RAFT_INDEX: &str = "jaco.raft_index";
/// The `pre_stop` hooks of a container, as JSON: it is stopped with those that it was made with, also when its
/// record is gone.
pub(crate) const PRE_STOP: &str = "jaco.pre_stop";
const SPEC_HASH: &str = "jaco.spec_hash";

/// `jaco-<cluster>-<node>`: prefix of every name of this owner. It contains the cluster because two
/// clusters on one machine number their nodes alike.
pub(crate) fn scope(owner: &Owner) -> String {
    let cluster = owner.cluster.as_str();
    format!("jaco-{}-{}", cluster.get(..8).unwrap_or(cluster), owner.node)
}

/// Name of an instance's container.
pub(crate) fn container(owner: &Owner, instance: &InstanceId) -> String {
    format!("{}-{}-{}", scope(owner), instance.replica, instance.raft_index)
}

/// Name of a manifest's network, or of its volume without an explicit name.
pub(crate) fn scoped(owner: &Owner, name: &str) -> String {
    format!("{}-{name}", scope(owner))
}

/// Name of a network of the cluster. It has no node in it: nodes that share an engine share the network,
/// because an engine has a subnet once.
pub(crate) fn cluster_network(owner: &Owner, id: NetworkId) -> String {
    let cluster = owner.cluster.as_str();
    format!("jaco-{}-{}", cluster.get(..8).unwrap_or(cluster), id.bridge())
}

/// Labels of a network of the cluster.
pub(crate) fn cluster_network_labels(
    owner: &Owner,
    id: NetworkId,
    scope: &NetworkScope,
) -> HashMap<String, String> {
    let pairs = [
        (CLUSTER, owner.cluster.to_string()),
        (NETWORK_ID, id.to_string()),
        (NETWORK, scope.to_string()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Filter for networks of the owner's cluster.
pub(crate) fn cluster_network_filter(owner: &Owner) -> HashMap<String, Vec<String>> {
    let labels = vec![format!("{CLUSTER}={}", owner.cluster), NETWORK_ID.to_owned()];
    HashMap::from([("label".to_owned(), labels)])
}

/// Labels of the owner.
pub(crate) fn owner_labels(owner: &Owner) -> BTreeMap<String, String> {
    let pairs = [(CLUSTER, owner.cluster.to_string()), (NODE, owner.node.to_string())];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Labels of objects of one deployment.
pub(crate) fn deployment_labels(
    owner: &Owner,
    deployment: &DeploymentName,
) -> HashMap<String, String> {
    let mut labels: HashMap<String, String> = owner_labels(owner).into_iter().collect();
    labels.insert(DEPLOYMENT.to_owned(), deployment.to_string());
    labels
}

/// All labels of a container.
pub(crate) fn container_labels(
    owner: &Owner,
    request: &ContainerRequest,
) -> BTreeMap<String, String> {
    let ContainerRequest { instance, service, spec_hash, .. } = request;
    let prefix = format!("{}-{}-", service.deployment, service.service);
    let replica = instance.replica.as_str();
    let mut labels = owner_labels(owner);
    let pairs = [
        (DEPLOYMENT, service.deployment.to_string()),
        (SERVICE, service.service.to_string()),
        (REPLICA, replica.to_owned()),
        (REPLICA_INDEX, replica.strip_prefix(&prefix).unwrap_or_default().to_owned()),
        (RAFT_INDEX, instance.raft_index.to_string()),
        (SPEC_HASH, spec_hash.to_string()),
    ];
    labels.extend(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)));
    labels
}

/// Labels of a container, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) owner: Owner,
    pub(crate) instance: InstanceId,
    pub(crate) service: ServiceKey,
    pub(crate) spec_hash: Option<SpecHash>,
}

/// Parses the labels; `None` for a container that is not JACO's.
pub(crate) fn identity(labels: &HashMap<String, String>) -> Option<Identity> {
    let get = |key: &str| labels.get(key).map(String::as_str);
    let owner = Owner {
        cluster: ClusterId::new(get(CLUSTER)?).ok()?,
        node: NodeId(get(NODE)?.parse().ok()?),
    };
    let instance = InstanceId {
        replica: ReplicaId::parse(get(REPLICA)?).ok()?,
        raft_index: StateIndex(get(RAFT_INDEX)?.parse().ok()?),
    };
    let service = ServiceKey {
        deployment: DeploymentName::new(get(DEPLOYMENT)?).ok()?,
        service: ServiceName::new(get(SERVICE)?).ok()?,
    };
    let mut hash = [0; 32];
    let readable = get(SPEC_HASH).is_some_and(|text| hex::decode_to_slice(text, &mut hash).is_ok());
    Some(Identity { owner, instance, service, spec_hash: readable.then_some(SpecHash(hash)) })
}

/// Filter for objects of this owner.
pub(crate) fn owner_filter(owner: &Owner) -> HashMap<String, Vec<String>> {
    let labels = owner_labels(owner).into_iter().map(|(key, value)| format!("{key}={value}"));
    HashMap::from([("label".to_owned(), labels.collect())])
}
