//! Networks of a deployment, and how its services are attached to them and resolve names.
//!
//! Reads what the next stage of the product needs, as plain data; the text of a container is made elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::diagnostics::source::Pos;
use crate::facts::{Dns, NetworkAttachment, NetworkFacts, NetworkOwner, NetworkReach};
use crate::project::Project;
use crate::resolve::network_owner::{is_on, owner};
use crate::resolve::resolved::ResolvedService;
use crate::resolve::scene::{Scene, below};
use crate::yaml::access::{items, texts};
use crate::yaml::node::{Entry, Map, Node, Value};

/// The option with which Docker's bridge driver takes the size of packets.
const MTU_OPTION: &str = "com.docker.network.driver.mtu";

/// The least that every host has to take in one piece (RFC 791).
const LEAST_MTU: u16 = 576;

/// Prefix lengths of subnets: from the largest private one to the smallest that has room for replicas beside its
/// own two addresses, the gateway's and the router's.
const PREFIX_LENGTHS: std::ops::RangeInclusive<u8> = 8..=29;

/// The longest name that can be asked for, and the longest part of one, in bytes (RFC 1035).
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

const NAME_RULE: &str = "letters, digits, `-` and `_` in parts of 1 to 63, separated by dots";

/// The networks that `services` are attached to; problems of each are told once.
pub(super) fn networks(
    project: &Project,
    services: &BTreeMap<String, ResolvedService>,
    report: &mut Report,
) -> BTreeMap<String, NetworkFacts> {
    let declared = project.root.get("networks").and_then(Node::as_map);
    let attached = services.values().flat_map(|service| &service.facts.networks);
    let keys: BTreeSet<&str> = attached.map(|attachment| attachment.network.as_str()).collect();
    let networks = declared.into_iter().flat_map(Map::iter);
    networks
        .filter(|entry| keys.contains(entry.key.as_str()))
        .map(|entry| (entry.key.to_string(), network(project, &entry.key, &entry.node, report)))
        .collect()
}

fn network(project: &Project, key: &str, node: &Node, report: &mut Report) -> NetworkFacts {
    let owner = owner(&project.name, key, node);
    // The size of one that exists already is not this file's to say.
    let own = !matches!(owner, NetworkOwner::Cluster(_));
    NetworkFacts {
        owner,
        reach: if is_on(node, "internal") { NetworkReach::Internal } else { NetworkReach::Outside },
        mtu: own.then(|| mtu(node, report)).flatten(),
        prefix_length: own.then(|| prefix_length(node, report)).flatten(),
    }
}

/// Zero leaves it to the network, as for Docker.
fn mtu(network: &Node, report: &mut Report) -> Option<u16> {
    let node = below(Some(network), &["driver_opts", MTU_OPTION])?;
    let text = node.as_str().unwrap_or_default();
    let bytes = decimal(text).filter(|bytes| *bytes == 0 || *bytes >= LEAST_MTU);
    if bytes.is_none() {
        report
            .error(node.pos, Code::InvalidValue, format!("`{MTU_OPTION}` cannot be `{text}`"))
            .expected(format!("a number of bytes from {LEAST_MTU} to {}", u16::MAX));
    }
    bytes.filter(|bytes| *bytes > 0)
}

/// The first IPv4 subnet counts: a bridge has one.
fn prefix_length(network: &Node, report: &mut Report) -> Option<u8> {
    let pools = below(Some(network), &["ipam", "config"]).and_then(Node::as_seq);
    let subnets = pools.unwrap_or_default().iter().filter_map(|pool| pool.get("subnet"));
    let lengths: Vec<u8> = subnets.filter_map(|subnet| ipv4_length(subnet, report)).collect();
    lengths.first().copied()
}

fn ipv4_length(subnet: &Node, report: &mut Report) -> Option<u8> {
    let text = subnet.as_str().unwrap_or_default();
    let parts = text.split_once('/').and_then(|(ip, length)| Some((ip, decimal(length)?)));
    let length = parts.and_then(|(ip, length)| Some((ip, u8::try_from(length).ok()?)));
    match length {
        Some((ip, length))
            if PREFIX_LENGTHS.contains(&length) && ip.parse::<Ipv4Addr>().is_ok() =>
        {
            Some(length)
        }
        // Networks use IPv4 only, which a warning says.
        Some((ip, 0..=128)) if ip.parse::<Ipv6Addr>().is_ok() => None,
        Some(_) | None => {
            let (least, most) = (PREFIX_LENGTHS.start(), PREFIX_LENGTHS.end());
            report
                .error(subnet.pos, Code::InvalidValue, format!("`{text}` is not a usable subnet"))
                .expected(format!("an IPv4 prefix from /{least} to /{most}: `10.5.0.0/24`"));
            None
        }
    }
}

/// A number of digits alone; the standard parser takes a sign, too.
fn decimal(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The networks of a service as its containers are attached to them: the one with the highest `gw_priority` first,
/// then by `priority` and by key.
pub(super) fn attachments(scene: &Scene<'_>, report: &mut Report) -> Vec<NetworkAttachment> {
    let networks = scene.service.get("networks").and_then(Node::as_map);
    let mut networks: Vec<_> = networks.into_iter().flat_map(Map::iter).collect();
    let ranks = |entry: &Entry| ["gw_priority", "priority"].map(|key| rank(entry.node.get(key)));
    // The sort is stable, and entries are in the order of their keys.
    networks.sort_by(|a, b| {
        let ([gateway_a, a], [gateway_b, b]) = (ranks(a), ranks(b));
        gateway_b.total_cmp(&gateway_a).then(b.total_cmp(&a))
    });
    let attach = |network: &Entry| {
        let written = network.node.get("aliases").and_then(Node::as_seq).unwrap_or_default();
        written.iter().for_each(|alias| check_alias(scene, alias, report));
        let aliases = written.iter().filter_map(Node::as_str).map(str::to_owned).collect();
        NetworkAttachment { network: network.key.to_string(), aliases }
    };
    networks.into_iter().map(attach).collect()
}

/// What is no number was reported when the tree was checked.
fn rank(node: Option<&Node>) -> f64 {
    let rank = node.map_or(0.0, |node| match &node.value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Null | Value::Bool(_) | Value::Str(_) | Value::Seq(_) | Value::Map(_) => 0.0,
    });
    // What is sent cannot hold an infinity, and must come to the same order.
    if rank.is_finite() { rank } else { 0.0 }
}

/// The names that a service has on each of its networks; none without one.
pub(super) fn names(scene: &Scene<'_>, report: &mut Report) -> BTreeSet<String> {
    if scene.service.contains("network_mode") {
        return BTreeSet::new();
    }
    let mut names =
        BTreeSet::from([scene.name.to_owned(), format!("{}.{}", scene.name, scene.deployment)]);
    // As engines do it within one network of their own; one that is no name is of use in its container alone.
    let host_name = scene.service.get("hostname").and_then(Node::as_str);
    names.extend(host_name.filter(|name| is_dns_name(name)).map(str::to_owned));
    if let Some(node) = scene.service.get("container_name") {
        let name = node.as_str().unwrap_or_default();
        if is_dns_name(name) {
            names.insert(name.to_owned());
        } else {
            let message = format!(
                "the container name of service `{}` is not a DNS name, so it is no alias",
                scene.name
            );
            report.warning(node.pos, Code::NoEffect, message).expected(NAME_RULE);
        }
    }
    names
}

fn check_alias(scene: &Scene<'_>, alias: &Node, report: &mut Report) {
    let name = alias.as_str().unwrap_or_default();
    // An alias that nobody wrote is that of a link.
    if alias.pos != Pos::default() && !is_dns_name(name) {
        refuse_alias(scene.name, name, alias.pos, report);
    }
}

/// Refuses aliases of links that no name can be; `services` are as they were written.
pub(super) fn check_links(services: &Map, report: &mut Report) {
    for service in services.iter() {
        let links = service.node.get("links").and_then(Node::as_seq).unwrap_or_default();
        for link in links {
            let alias = link.as_str().and_then(|link| link.split_once(':')).map(|(_, alias)| alias);
            if let Some(alias) = alias.filter(|alias| !is_dns_name(alias)) {
                refuse_alias(&service.key, alias, link.pos, report);
            }
        }
    }
}

fn refuse_alias(service: &str, alias: &str, pos: Pos, report: &mut Report) {
    let shown: String = alias.chars().take(LABEL_MAX).collect();
    let message = format!("service `{service}` has the alias `{shown}`, which is no name");
    report.error(pos, Code::InvalidValue, message).expected(NAME_RULE);
}

/// Whether a resolver can ask for a name. Underscores are no part of host names, but of many services.
fn is_dns_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label =
        |label: &str| (1..=LABEL_MAX).contains(&label.len()) && label.bytes().all(is_letter);
    name.len() <= NAME_MAX && name.split('.').all(is_label)
}

/// How the containers of a service resolve names of the outside. What is no address asks nobody.
pub(super) fn dns(service: &Map, report: &mut Report) -> Dns {
    let list = |key: &str| texts(service, key).map(str::to_owned).collect();
    let mut servers = Vec::new();
    for node in items(service, "dns") {
        let written = node.as_str().unwrap_or_default();
        match written.parse::<IpAddr>() {
            Ok(address) => servers.push(address),
            Err(_) => {
                let message = format!("`{written}` is not the address of a DNS server");
                report
                    .warning(node.pos, Code::NoEffect, message)
                    .expected("an IPv4 or IPv6 address");
            }
        }
    }
    Dns { servers, search: list("dns_search"), options: list("dns_opt") }
}
