//! Nodes: labels, states and drains.

use std::collections::BTreeMap;

use jaco_types::{
    Availability, Drain, Hostname, Millis, Node, NodeFacts, NodeId, NodeStatus, StateIndex,
    Timestamp,
};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn node(configured: &[(&str, &str)], given: &[(&str, &str)]) -> Node {
    Node {
        id: NodeId(1),
        hostname: Hostname::new("n1").unwrap(),
        address: "127.0.0.1:7071".to_owned(),
        mesh_address: None,
        key_fingerprint: [0; 32],
        status: NodeStatus::Ready,
        status_reason: String::new(),
        availability: Availability::Active,
        availability_reason: String::new(),
        drain: None,
        facts: NodeFacts { labels: labels(configured), ..NodeFacts::default() },
        labels: labels(given),
        joined_at: Timestamp(0),
        modified: StateIndex(1),
    }
}

/// R-CONS-4: what an operator sets wins over the node's own configuration.
#[test]
fn operators_override_configured_labels() {
    let node = node(&[("zone", "a"), ("disk", "ssd")], &[("zone", "b"), ("rack", "7")]);
    assert_eq!(node.label("zone"), Some("b"));
    assert_eq!(node.label("disk"), Some("ssd"));
    assert_eq!((node.label("rack"), node.label("none")), (Some("7"), None));
    let all: Vec<(&str, &str)> = node.all_labels().into_iter().collect();
    assert_eq!(all, [("disk", "ssd"), ("rack", "7"), ("zone", "b")]);
    assert!(all.iter().all(|(key, value)| node.label(key) == Some(*value)));
}

/// R-NODE-2: the deadline moves with each replica that leaves.
#[test]
fn drains_are_due_after_their_timeout() {
    let drain = Drain {
        timeout: Millis(300),
        progress_at: Timestamp(1000),
        before: Availability::Cordoned,
    };
    assert_eq!(drain.due(), Timestamp(1300));
    assert_eq!(Drain { progress_at: Timestamp(1200), ..drain }.due(), Timestamp(1500));
    assert_eq!(Drain { timeout: Millis(u64::MAX), ..drain }.due(), Timestamp(u64::MAX));
}

#[test]
fn a_node_works_while_its_engine_answers() {
    let states = [
        (NodeStatus::Joining, "joining", false),
        (NodeStatus::Ready, "ready", true),
        (NodeStatus::Down, "down", false),
        (NodeStatus::EngineDown, "engine_down", false),
        (NodeStatus::DiskFull, "disk_full", true),
    ];
    for (status, name, is_working) in states {
        assert_eq!((status.as_str(), status.is_working()), (name, is_working));
    }
}

#[test]
fn availabilities_have_names() {
    assert_eq!(Availability::default().as_str(), "active");
    assert_eq!(Availability::Cordoned.as_str(), "cordoned");
    assert_eq!(Availability::Draining.as_str(), "draining");
}
