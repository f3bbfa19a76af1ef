//! Published ports, and who has which.

use jaco_state::edge::PortClaim;
use jaco_types::port::{PortRange, ProxyProtocol, Transport};
use jaco_types::{IngressPort, PortKey};

use super::*;

fn number(port: u16) -> NonZeroU16 {
    NonZeroU16::new(port).unwrap()
}

/// A spec with a port of each kind.
pub(crate) fn spec_with_ports() -> DeploymentSpec {
    let mut spec = spec_with_networks();
    let plain = |transport, target, first, last| IngressPort {
        transport,
        target: number(target),
        published: PortRange::new(first, last).unwrap(),
        address: None,
        proxy_protocol: ProxyProtocol::Off,
    };
    let address = |text: &str| Some(text.parse().unwrap());
    let ports = [
        plain(Transport::Tcp, 80, 8080, 8080),
        plain(Transport::Tcp, 81, 8000, 8010),
        plain(Transport::Udp, 53, 30_000, 32_767),
        IngressPort {
            address: address("10.0.0.1"),
            proxy_protocol: ProxyProtocol::V2,
            ..plain(Transport::Tcp, 90, 9090, 9090)
        },
        IngressPort { address: address("2001:db8::1"), ..plain(Transport::Udp, 90, 9090, 9090) },
    ];
    let web = spec.services.get_mut(&ServiceName::new("web").unwrap()).unwrap();
    Arc::make_mut(web).ingress_ports = ports.into();
    spec
}

/// An apply with published ports.
pub(crate) fn commands_of_ports() -> Vec<Command> {
    vec![DeploymentApply::new(deployment_name(), spec_with_ports()).into()]
}

/// A state with published ports, and nothing else.
pub(crate) fn state_of_ports() -> ClusterState {
    let service =
        ServiceKey { deployment: deployment_name(), service: ServiceName::new("web").unwrap() };
    let key = |transport, port, address: Option<&str>| PortKey {
        transport,
        port: number(port),
        address: address.map(|text| text.parse().unwrap()),
    };
    let claim = |target, proxy_protocol| PortClaim {
        service: service.clone(),
        target: number(target),
        proxy_protocol,
        since: Timestamp(1_700_000_000_456),
    };
    let ports = [
        (key(Transport::Tcp, 8080, None), claim(80, ProxyProtocol::Off)),
        (key(Transport::Tcp, 9090, Some("10.0.0.1")), claim(90, ProxyProtocol::V2)),
        (key(Transport::Udp, 9090, Some("2001:db8::1")), claim(90, ProxyProtocol::Off)),
    ];
    let edges = Edges {
        begun: Some(StateIndex(41)),
        ports: ports.into_iter().collect(),
        ..Edges::default()
    };
    ClusterState { index: StateIndex(42), edges, ..ClusterState::default() }
}
