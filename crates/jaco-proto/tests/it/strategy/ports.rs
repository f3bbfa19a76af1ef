//! Published ports, and who has which.

use jaco_state::edge::PortClaim;
use jaco_types::port::{ListenAddress, PortRange, ProxyProtocol, Transport};
use jaco_types::{IngressPort, PortKey};

use super::*;

fn port_number() -> impl Strategy<Value = NonZeroU16> {
    (1..=u16::MAX).prop_map(|port| NonZeroU16::new(port).unwrap())
}

fn transport() -> impl Strategy<Value = Transport> {
    select(vec![Transport::Tcp, Transport::Udp])
}

fn proxy_protocol() -> impl Strategy<Value = ProxyProtocol> {
    select(vec![ProxyProtocol::Off, ProxyProtocol::V2])
}

fn listen_address() -> impl Strategy<Value = Option<ListenAddress>> {
    let address = prop_oneof![
        (0x0100_0000..0xe000_0000_u32).prop_map(|bits| IpAddr::V4(bits.into())),
        (1_u128 << 125..1 << 126).prop_map(|bits| IpAddr::V6(bits.into())),
    ];
    option::of(address.prop_map(|address| ListenAddress::new(address).unwrap()))
}

pub(crate) fn ingress_port() -> impl Strategy<Value = IngressPort> {
    let published =
        (1..=u16::MAX, 1..=u16::MAX).prop_map(|(a, b)| PortRange::new(a.min(b), a.max(b)).unwrap());
    (transport(), port_number(), published, listen_address(), proxy_protocol()).prop_map(
        |(transport, target, published, address, proxy_protocol)| IngressPort {
            transport,
            target,
            published,
            address,
            proxy_protocol,
        },
    )
}

pub(crate) fn port_claims() -> impl Strategy<Value = Table<PortKey, PortClaim>> {
    let key = (transport(), port_number(), listen_address())
        .prop_map(|(transport, port, address)| PortKey { transport, port, address });
    let service = (deployment_name(), service_name())
        .prop_map(|(deployment, service)| ServiceKey { deployment, service });
    let claim = (service, port_number(), proxy_protocol(), moment()).prop_map(
        |(service, target, proxy_protocol, since)| PortClaim {
            service,
            target,
            proxy_protocol,
            since,
        },
    );
    btree_map(key, claim, 0..4).prop_map(|ports| ports.into_iter().collect())
}
