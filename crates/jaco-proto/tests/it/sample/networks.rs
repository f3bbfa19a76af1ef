//! Networks of the cluster, and what has addresses of them.

use super::*;

pub(crate) fn network_name(text: &str) -> NetworkName {
    NetworkName::new(text).unwrap()
}

fn own_scope() -> NetworkScope {
    NetworkScope::Deployment { deployment: deployment_name(), key: network_name("back") }
}

/// A spec with a network of its own and a shared one.
pub(crate) fn spec_with_networks() -> DeploymentSpec {
    let attachment = |network, alias: &str| Attachment { network, aliases: vec![alias.into()] };
    let mut spec = spec();
    let web = spec.services.get_mut(&ServiceName::new("web").unwrap()).unwrap();
    Arc::make_mut(web).networks = vec![
        attachment(NetworkRef::Own(network_name("back")), "front"),
        Attachment { network: NetworkRef::Shared(network_name("backbone")), aliases: vec![] },
    ];
    let own = |reach, length| NetworkSpec { reach, length };
    spec.networks = [
        (network_name("back"), own(NetworkReach::Internal, Some(22))),
        (network_name("default"), own(NetworkReach::Outside, None)),
    ]
    .into();
    spec
}

/// The commands about networks, and an apply that names some.
pub(crate) fn commands_of_networks() -> Vec<Command> {
    let create = NetworkCreate::new(network_name("backbone"));
    vec![
        NetworkBegin::new("10.64.0.0/12".parse().unwrap(), 1420).into(),
        create.clone().into(),
        create.reach(NetworkReach::Internal).length(Some(22)).into(),
        NetworkRemove::new(network_name("backbone")).into(),
        NetworkResize::new(own_scope(), 22).into(),
        NetworkResize::new(NetworkScope::Shared(network_name("backbone")), 20).into(),
        DeploymentApply::new(deployment_name(), spec_with_networks()).into(),
    ]
}

/// An apply of a service that has DNS servers of its own.
pub(crate) fn commands_of_resolvers() -> Vec<Command> {
    let mut spec = spec_with_networks();
    let web = spec.services.get_mut(&ServiceName::new("web").unwrap()).unwrap();
    Arc::make_mut(web).resolvers =
        ["10.0.0.53", "2001:db8::53"].map(|it| it.parse().unwrap()).into();
    vec![DeploymentApply::new(deployment_name(), spec).into()]
}

/// Reports of nodes about their routers: one that works, one that stopped, and one that never worked.
pub(crate) fn reports_of_routers() -> Vec<Command> {
    let link = |backend| RouterLink { key: [7; 32], port: 51820, backend };
    let router = |link, problem: Option<&str>| {
        let problem = problem.map(str::to_owned);
        let facts = NodeFacts { router: Some(NodeRouter { link, problem }), ..facts() };
        NodeReport::new(NodeId(7), "10.0.0.7:7000".into(), facts).into()
    };
    vec![
        router(Some(link(TunnelBackend::Kernel)), None),
        router(Some(link(TunnelBackend::Userspace)), Some("its process has ended")),
        router(None, Some("nft cannot be run")),
    ]
}

/// Reports of nodes about their edges: one that works, and one that does not.
pub(crate) fn reports_of_edges() -> Vec<Command> {
    let edge = |problem: Option<&str>| {
        let edge = Some(NodeEdge { problem: problem.map(str::to_owned) });
        NodeReport::new(NodeId(7), "10.0.0.7:7000".into(), NodeFacts { edge, ..facts() }).into()
    };
    vec![edge(None), edge(Some("tcp/80: another program listens there"))]
}

/// A state with networks and with a node, a slot and a terminating instance that have addresses, and
/// nothing else.
pub(crate) fn state_of_networks() -> ClusterState {
    let address = |network, text: &str| InstanceAddress {
        network: NetworkId(network),
        address: text.parse().unwrap(),
    };
    let network = |id, scope, reach, subnet: &str, cursor| Network {
        id: NetworkId(id),
        scope,
        reach,
        subnet: Subnet::new(subnet.parse().unwrap()).unwrap(),
        cursor,
        taken: [("10.65.0.3".parse().unwrap(), slot().current_id())].into(),
    };
    let addresses = vec![address(1, "10.65.0.3"), address(2, "10.65.4.7")];
    let current = Instance { addresses: addresses.clone(), ..slot().current };
    let slot = Slot { current, ..slot() };
    let terminating = TerminatingInstance { addresses: addresses.clone(), ..terminating() };
    let node = Node { mesh_address: Some("10.64.0.1".parse().unwrap()), ..node() };
    let pool = NetworkPool {
        next_network: 3,
        next_subnet: "10.65.5.0".parse().unwrap(),
        next_mesh: "10.64.0.2".parse().unwrap(),
        ..NetworkPool::new("10.64.0.0/12".parse().unwrap(), 1420).unwrap()
    };
    let shared = NetworkScope::Shared(network_name("backbone"));
    let rows = [
        network(1, own_scope(), NetworkReach::Internal, "10.65.0.0/22", 5),
        network(2, shared, NetworkReach::Outside, "10.65.4.0/24", 0),
    ];
    let rows = rows.into_iter().map(|network| (network.id, network)).collect();
    let quarantine = |index, until| {
        let id = InstanceId { replica: replica_id(), raft_index: StateIndex(index) };
        (id, Quarantine { node: NodeId(7), addresses: addresses.clone(), until })
    };
    let quarantine = [quarantine(20, None), quarantine(21, Some(Timestamp(1_700_000_000_456)))];
    ClusterState {
        index: StateIndex(42),
        nodes: [(node.id, node)].into_iter().collect(),
        slots: [(slot.id.clone(), slot)].into_iter().collect(),
        terminating: [(terminating.id.clone(), terminating)].into_iter().collect(),
        networks: Networks { pool: Some(pool), rows, quarantine: quarantine.into_iter().collect() },
        ..ClusterState::default()
    }
}
