//! Short ways to name things.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use jaco_agent::Owner;
use jaco_state::view::{AttachedNetwork, Attachment, DesiredInstance, Role};
use jaco_types::spec::{
    Healthcheck, Placement, PullPolicy, RestartPolicy, SchedulingPolicy, ServiceMode, Storage,
    UpdatePolicy,
};
use jaco_types::unit::Resources;
use jaco_types::{
    ClusterId, DeploymentName, InstanceId, Ipv4Prefix, NetworkId, NetworkName, NetworkReach,
    NetworkScope, NodeId, Ordinal, ReplicaId, ServiceKey, ServiceName, ServiceSpec, SpecHash,
    StateIndex, Subnet,
};

pub(crate) fn owner(node: u64) -> Owner {
    Owner { cluster: ClusterId::new(&"c1".repeat(16)).unwrap(), node: NodeId(node) }
}

pub(crate) fn web() -> ServiceKey {
    ServiceKey {
        deployment: DeploymentName::new("shop").unwrap(),
        service: ServiceName::new("web").unwrap(),
    }
}

/// `shop-web-<slot>@<raft_index>`.
pub(crate) fn instance(slot: u64, raft_index: u64) -> InstanceId {
    let replica = ReplicaId::new(&web(), &Ordinal::Index(slot));
    InstanceId { replica, raft_index: StateIndex(raft_index) }
}

/// A service spec whose container has these keys.
pub(crate) fn spec(image: &str, keys: &str) -> Arc<ServiceSpec> {
    spec_pulled(image, keys, PullPolicy::Missing)
}

/// As [`spec`], with this pull policy.
pub(crate) fn spec_pulled(image: &str, keys: &str, pull: PullPolicy) -> Arc<ServiceSpec> {
    let comma = if keys.is_empty() { "" } else { "," };
    let container = format!(r#"{{"service":{{"image":"{image}"{comma}{keys}}}}}"#);
    let healthcheck =
        if keys.contains("healthcheck") { Healthcheck::Declared } else { Healthcheck::None };
    Arc::new(ServiceSpec {
        name: web().service,
        image: image.into(),
        pull,
        placement: Placement::Spread,
        replicas: 1,
        host_ports: vec![],
        ingress_ports: std::collections::BTreeSet::new(),
        resolvers: Vec::new(),
        restart: RestartPolicy::Always,
        mode: ServiceMode::Service,
        schedule: None,
        depends_on: vec![],
        reservation: Resources::default(),
        limit: Resources::default(),
        gpus: None,
        volumes: Vec::new(),
        storage: Storage::Stateless,
        healthcheck,
        scheduling: SchedulingPolicy::default(),
        on_node_loss: jaco_types::spec::OnNodeLoss::default(),
        update: UpdatePolicy::default(),
        networks: Vec::new(),
        drain: None,
        container: container.into(),
        hash: SpecHash([7; 32]),
    })
}

pub(crate) fn wanted(
    id: &InstanceId,
    role: Role,
    spec: &Arc<ServiceSpec>,
) -> (InstanceId, DesiredInstance) {
    let wanted = DesiredInstance {
        id: id.clone(),
        service: web(),
        spec: Some(Arc::clone(spec)),
        mode: spec.mode,
        digest: None,
        gpus: Vec::new(),
        networks: Vec::new(),
        attachment: Attachment::Created,
        role,
    };
    (id.clone(), wanted)
}

/// An instance that is to run with addresses: `[(7, "10.65.7.3")]` in network 7 with the /24 of the address.
pub(crate) fn wanted_in(
    id: &InstanceId,
    role: Role,
    networks: &[(u32, &str)],
) -> (InstanceId, DesiredInstance) {
    let attached = networks.iter().map(|(id, address)| {
        let address: Ipv4Addr = address.parse().unwrap();
        let first = Ipv4Addr::from_bits(address.to_bits() & !0xff);
        AttachedNetwork {
            id: NetworkId(*id),
            scope: NetworkScope::Shared(NetworkName::new(&format!("net{id}")).unwrap()),
            subnet: Subnet::new(Ipv4Prefix::new(first, 24).unwrap()).unwrap(),
            reach: NetworkReach::Outside,
            mtu: 1420,
            address,
        }
    });
    let (key, desired) = wanted(id, role, &spec("app:1", ""));
    (key, DesiredInstance { networks: attached.collect(), ..desired })
}

pub(crate) type Desired = BTreeMap<InstanceId, DesiredInstance>;
