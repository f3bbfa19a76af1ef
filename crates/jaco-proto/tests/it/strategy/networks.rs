//! Networks of the cluster.

use super::*;

pub(crate) fn networks() -> impl Strategy<Value = Networks> {
    let quarantine = (node_id(), vec(instance_address(), 0..3), option::of(moment()))
        .prop_map(|(node, addresses, until)| Quarantine { node, addresses, until });
    let quarantine = btree_map(instance_id(), quarantine, 0..3);
    (option::of(pool()), table(network(), |network| network.id), quarantine).prop_map(
        |(pool, rows, quarantine)| Networks {
            pool,
            rows,
            quarantine: quarantine.into_iter().collect(),
        },
    )
}

fn pool() -> impl Strategy<Value = NetworkPool> {
    let prefix = (any::<u32>(), 8..=15_u8).prop_map(prefix_of);
    (prefix, 1200..=9000_u16, any::<u32>(), any::<Ipv4Addr>(), any::<Ipv4Addr>()).prop_map(
        |(prefix, mtu, next_network, next_subnet, next_mesh)| NetworkPool {
            prefix,
            mtu,
            next_network,
            next_subnet,
            next_mesh,
        },
    )
}

fn network() -> impl Strategy<Value = Network> {
    let subnet = (any::<u32>(), 20..=26_u8).prop_map(prefix_of);
    let subnet = subnet.prop_map(|prefix| Subnet::new(prefix).unwrap());
    let taken = btree_map(any::<Ipv4Addr>(), instance_id(), 0..4);
    let id = any::<u32>().prop_map(NetworkId);
    (id, network_scope(), reach(), subnet, any::<u32>(), taken).prop_map(
        |(id, scope, reach, subnet, cursor, taken)| Network {
            id,
            scope,
            reach,
            subnet,
            cursor,
            taken,
        },
    )
}

fn prefix_of((address, length): (u32, u8)) -> Ipv4Prefix {
    let address = address & (u32::MAX << (32 - u32::from(length)));
    Ipv4Prefix::new(Ipv4Addr::from_bits(address), length).unwrap()
}

pub(crate) fn prefix() -> impl Strategy<Value = Ipv4Prefix> {
    (any::<u32>(), 1..=32_u8).prop_map(prefix_of)
}

pub(crate) fn network_name() -> impl Strategy<Value = NetworkName> {
    "_?[a-zA-Z0-9][a-zA-Z0-9._-]{0,10}".prop_map(|text| NetworkName::new(&text).unwrap())
}

pub(crate) fn network_scope() -> impl Strategy<Value = NetworkScope> {
    prop_oneof![
        (deployment_name(), network_name())
            .prop_map(|(deployment, key)| NetworkScope::Deployment { deployment, key }),
        network_name().prop_map(NetworkScope::Shared),
    ]
}

pub(crate) fn reach() -> impl Strategy<Value = NetworkReach> {
    select(vec![NetworkReach::Outside, NetworkReach::Internal])
}

pub(crate) fn instance_address() -> impl Strategy<Value = InstanceAddress> {
    (any::<u32>(), any::<Ipv4Addr>())
        .prop_map(|(network, address)| InstanceAddress { network: NetworkId(network), address })
}

pub(crate) fn attachment() -> impl Strategy<Value = Attachment> {
    let network = prop_oneof![
        network_name().prop_map(NetworkRef::Own),
        network_name().prop_map(NetworkRef::Shared),
    ];
    let aliases = vec(text().prop_map(Arc::from), 0..3);
    (network, aliases).prop_map(|(network, aliases)| Attachment { network, aliases })
}

pub(crate) fn network_spec() -> impl Strategy<Value = NetworkSpec> {
    (reach(), option::of(any::<u8>())).prop_map(|(reach, length)| NetworkSpec { reach, length })
}
