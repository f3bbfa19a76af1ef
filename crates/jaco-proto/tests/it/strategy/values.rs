//! Names, numbers and texts.

use super::*;

pub(crate) fn consumer_name() -> impl Strategy<Value = ConsumerName> {
    "[a-z0-9][a-z0-9._-]{0,20}".prop_map(|text| ConsumerName::new(&text).unwrap())
}

pub(crate) fn millis() -> impl Strategy<Value = Millis> {
    any::<u64>().prop_map(Millis)
}

pub(crate) fn image_digest() -> impl Strategy<Value = ImageDigest> {
    "[a-z]{1,5}(:[0-9]{1,4}/[a-z]{1,5})?@sha256:[0-9a-f]{64}"
        .prop_map(|text| ImageDigest::parse(&text).unwrap())
}

pub(crate) fn service_key() -> impl Strategy<Value = ServiceKey> {
    (deployment_name(), service_name())
        .prop_map(|(deployment, service)| ServiceKey { deployment, service })
}

pub(crate) fn instance_id() -> impl Strategy<Value = InstanceId> {
    (replica_id(), index()).prop_map(|(replica, raft_index)| InstanceId { replica, raft_index })
}

pub(crate) fn deployment_name() -> impl Strategy<Value = DeploymentName> {
    "[a-z0-9][a-z0-9_-]{0,6}".prop_map(|text| DeploymentName::new(&text).unwrap())
}

pub(crate) fn service_name() -> impl Strategy<Value = ServiceName> {
    "[a-zA-Z0-9][a-zA-Z0-9._-]{0,6}".prop_map(|text| ServiceName::new(&text).unwrap())
}

pub(crate) fn hostname() -> impl Strategy<Value = Hostname> {
    "[a-z][a-z0-9]{0,4}(\\.[a-z]{1,3})?".prop_map(|text| Hostname::new(&text).unwrap())
}

pub(crate) fn token_id() -> impl Strategy<Value = TokenId> {
    "[a-z0-9-]{1,8}".prop_map(|text| TokenId::new(&text).unwrap())
}

pub(crate) fn request() -> impl Strategy<Value = RequestId> {
    "[!-~]{1,12}".prop_map(|text| RequestId::new(&text).unwrap())
}

pub(crate) fn replica_id() -> impl Strategy<Value = ReplicaId> {
    "[!-~]{1,12}".prop_map(|text| ReplicaId::parse(&text).unwrap())
}

pub(crate) fn node_id() -> impl Strategy<Value = NodeId> {
    any::<u64>().prop_map(NodeId)
}

pub(crate) fn index() -> impl Strategy<Value = StateIndex> {
    any::<u64>().prop_map(StateIndex)
}

pub(crate) fn revision() -> impl Strategy<Value = Revision> {
    any::<u64>().prop_map(Revision)
}

pub(crate) fn moment() -> impl Strategy<Value = Timestamp> {
    any::<u64>().prop_map(Timestamp)
}

pub(crate) fn facts_by_name() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..3)
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    "\\PC{0,10}"
}
