//! Published ports of a service: which nodes answer on each, and what is left of them for its containers.

use jaco_types::port::{ListenAddress, PortRange, ProxyProtocol};
use jaco_types::spec::Protocol;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::facts::{PortMode, PublishedPort};
use crate::resolve::options::Networks;
use crate::yaml::access::items;
use crate::yaml::node::{Map, Node, Value};

/// The keys of a port that are not for engines.
const NOT_FOR_ENGINES: [&str; 2] = ["mode", "x-jaco"];

/// Who publishes the ports of a service that are not asked for on nodes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publishing {
    /// The engine of each node that runs a replica.
    ByEngines,
    /// The edges of all nodes, which reach its replicas in a network of the cluster.
    ByEdges,
}

impl Publishing {
    /// Edges reach what is attached to a network of the cluster.
    pub(crate) fn of(service: &Map, networks: &Networks) -> Self {
        let attached = service.get("networks").and_then(Node::as_map);
        let is_attached = attached.is_some_and(|map| map.iter().next().is_some());
        match networks {
            Networks::Cluster { .. } if is_attached && !service.contains("network_mode") => {
                Self::ByEdges
            }
            Networks::Cluster { .. } | Networks::Node => Self::ByEngines,
        }
    }

    /// Which nodes answer on a port that was written so. Another mode was reported.
    fn mode(self, port: &Node) -> PortMode {
        match self {
            Self::ByEdges if port.get_str("mode") != Some("host") => PortMode::Ingress,
            Self::ByEdges | Self::ByEngines => PortMode::Host,
        }
    }
}

/// The ports of a service, sorted. Those that cannot be are reported and left out.
pub(super) fn ports(
    service: &Map,
    publishing: Publishing,
    report: &mut Report,
) -> Vec<PublishedPort> {
    let mode = service.get("network_mode").and_then(Node::as_str);
    let is_on_host = mode == Some("host");
    let written = items(service, "ports").iter();
    let mut ports: Vec<_> = written
        .filter_map(|node| {
            let port = port(node, publishing, report)?;
            Some(if is_on_host { port_of_host(node, port, report) } else { port })
        })
        .collect();
    ports.sort();
    if is_on_host {
        ports.dedup();
    }
    ports
}

/// Engines publish nothing of a container in the network of its host. It has the port of the node itself, which two of
/// them cannot share.
fn port_of_host(node: &Node, port: PublishedPort, report: &mut Report) -> PublishedPort {
    let target = port.target;
    let message = format!(
        "nothing is published with `network_mode: host`: the container has port {target} of its node itself, and no other \
         replica that asks for it is placed there"
    );
    report.warning(node.pos, Code::HonouredDifferently, message);
    PublishedPort { first: target, last: target, host_ip: None, ..port }
}

fn port(node: &Node, publishing: Publishing, report: &mut Report) -> Option<PublishedPort> {
    let target = node.get("target").and_then(Node::as_int).and_then(|n| u16::try_from(n).ok());
    let Some(target) = target.filter(|target| *target > 0) else {
        report
            .error(node.pos, Code::InvalidValue, "a published port has no valid `target`")
            .expected("a number from 1 to 65535");
        return None;
    };
    let protocol = protocol(node, report)?;
    let published = node.get_str("published").unwrap_or("0");
    let Some((first, last)) = published_range(published) else {
        report
            .error(node.pos, Code::InvalidValue, format!("`{published}` is not a valid host port"))
            .expected("a number from 1 to 65535, or a range");
        return None;
    };
    check_mode(node, report);
    let port = PublishedPort {
        first,
        last,
        protocol,
        host_ip: node.get_str("host_ip").map(str::to_owned),
        target,
        mode: publishing.mode(node),
        proxy_protocol: proxy_protocol(node, report),
    };
    let is_possible = port.mode == PortMode::Host || check_ingress(node, &port, report);
    is_possible.then_some(port)
}

fn protocol(node: &Node, report: &mut Report) -> Option<Protocol> {
    let written = node.get_str("protocol").unwrap_or("tcp").to_ascii_lowercase();
    match written.as_str() {
        "tcp" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        "sctp" => Some(Protocol::Sctp),
        other => {
            report
                .error(
                    node.pos,
                    Code::InvalidValue,
                    format!("`{other}` is not a supported protocol"),
                )
                .expected("`tcp`, `udp` or `sctp`");
            None
        }
    }
}

/// One port or a range of them; the standard parser takes a sign, too.
fn published_range(text: &str) -> Option<(u16, u16)> {
    let port = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u16>().ok()).flatten()
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = (port(first)?, port(last)?);
    (range.0 <= range.1).then_some(range)
}

fn check_mode(node: &Node, report: &mut Report) {
    let mode = node.get_str("mode").unwrap_or("ingress");
    if !matches!(mode, "host" | "ingress") {
        report
            .error(node.pos, Code::InvalidValue, format!("`{mode}` is not a mode of a port"))
            .expected("`host` or `ingress`");
    }
}

fn proxy_protocol(node: &Node, report: &mut Report) -> ProxyProtocol {
    let written = node.get("x-jaco").and_then(|extension| extension.get("proxy_protocol"));
    let Some(written) = written else {
        return ProxyProtocol::Off;
    };
    if node.get_str("mode") == Some("host") {
        let message = "`proxy_protocol` has no effect on a port with `mode: host`";
        report.warning(written.pos, Code::NoEffect, message).suggest("remove one of them");
    }
    match written.as_str() {
        Some("v2") => ProxyProtocol::V2,
        other => {
            let message =
                format!("`{}` is no version of the PROXY protocol", other.unwrap_or_default());
            report.error(written.pos, Code::InvalidValue, message).expected("`v2`");
            ProxyProtocol::Off
        }
    }
}

/// Whether edges can publish a port; else it is reported.
fn check_ingress(node: &Node, port: &PublishedPort, report: &mut Report) -> bool {
    if port.protocol == Protocol::Sctp {
        report
            .error(node.pos, Code::Unsupported, "ports of SCTP are not published on every node")
            .suggest(format!(
                "publish it on the nodes that run replicas: `{{target: {}, published: …, protocol: sctp, mode: \
                 host}}`",
                port.target
            ));
        return false;
    }
    if let Some(address) = port.host_ip.as_deref().filter(|text| !is_any(text))
        && address.parse::<ListenAddress>().is_err()
    {
        report
            .error(node.pos, Code::InvalidValue, format!("`{address}` is no address of nodes"))
            .expected("an IPv4 or IPv6 address of an interface");
        return false;
    }
    let is_open = (port.first, port.last) == (0, 0);
    if !is_open && PortRange::new(port.first, port.last).is_err() {
        let message = format!("`{}-{}` is not a valid range of ports", port.first, port.last);
        report
            .error(node.pos, Code::InvalidValue, message)
            .expected("a number from 1 to 65535, or a range");
        return false;
    }
    true
}

/// Whether an address stands for all addresses of a node.
pub(super) fn is_any(address: &str) -> bool {
    matches!(address, "0.0.0.0" | "::" | "")
}

/// The ports that the engine publishes with a container, as it takes them. Those of edges are no part of a container:
/// a change of them replaces none.
pub(super) fn of_container(ports: &Node, publishing: Publishing) -> Node {
    let all = ports.as_seq().unwrap_or_default().iter();
    let own = all.filter(|port| publishing.mode(port) == PortMode::Host).cloned();
    let own = own.map(|mut port| {
        for key in NOT_FOR_ENGINES {
            if let Some(map) = port.as_map_mut() {
                map.remove(key);
            }
        }
        port
    });
    Node { value: Value::Seq(own.collect()), ..ports.clone() }
}
