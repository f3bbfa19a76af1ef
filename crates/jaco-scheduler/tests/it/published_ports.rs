//! Published ports that every node answers, as far as the planner is concerned: not at all (PL-25).

use std::num::NonZeroU16;

use jaco_state::command::EdgeBegin;
use jaco_types::port::{PortRange, ProxyProtocol, Transport};
use jaco_types::{IngressPort, Millis};

use crate::cluster::{Cluster, Service, service};

fn web(version: u8, port: Option<u16>) -> Service {
    let published = port.and_then(NonZeroU16::new).map(|port| IngressPort {
        transport: Transport::Tcp,
        target: port,
        published: PortRange::one(port),
        address: None,
        proxy_protocol: ProxyProtocol::Off,
    });
    let web = service("web", &format!("web:{version}")).replicas(3);
    web.with(|spec| spec.ingress_ports = published.into_iter().collect())
}

/// Two nodes with a network, and what runs where through a rollout.
fn story(port: Option<u16>) -> Vec<String> {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.share_network(50);
    cluster.commit(EdgeBegin.into());
    cluster.apply("shop", &[web(1, port)]);
    cluster.settle();
    let mut story = vec![cluster.show()];
    cluster.apply("shop", &[web(2, port)]);
    for _ in 0..12 {
        cluster.pass();
        story.push(cluster.show());
        cluster.obey();
        cluster.advance(Millis::from_secs(5), &[]);
    }
    assert_eq!(cluster.state.edges.ports.len(), usize::from(port.is_some()));
    story
}

/// PL-25: several replicas with a published port share a node, and are rolled as without it: the new one first.
#[test]
fn published_ports_bind_to_no_node() {
    let with = story(Some(8080));
    assert_eq!(with, story(None));
    assert_eq!(with[0], "shop-web-0@n1 shop-web-1@n2 shop-web-2@n2");
    assert!(
        with.iter().any(|shown| shown.contains("@n2<n2")),
        "old and new side by side: {with:?}"
    );
}

/// PL-25: a change of ports alone replaces nothing.
#[test]
fn changed_ports_replace_nothing() {
    let mut cluster = Cluster::of(&["n1", "n2"]);
    cluster.share_network(50);
    cluster.commit(EdgeBegin.into());
    cluster.apply("shop", &[web(1, Some(8080))]);
    cluster.settle();
    let before = cluster.state.slots.clone();
    cluster.apply("shop", &[web(1, Some(9090))]);
    cluster.settle();
    assert_eq!(cluster.state.slots, before);
}
