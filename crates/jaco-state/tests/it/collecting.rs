//! What must not be lost when leftovers are collected.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::Change;
use jaco_state::command::{DeploymentDelete, NodeSetAvailability};
use jaco_state::view::needed_on;
use jaco_types::{Availability, NodeId, Revision, Scheduling, Unplaced};

use crate::history::{History, create, deploy, deployment, key, service};

/// The images whose volumes are needed on a node, and the deployments that are needed whole.
fn needed(history: &History, node: NodeId) -> (BTreeSet<String>, Vec<String>) {
    let needed = needed_on(&history.state, node);
    let images = needed.specs.iter().map(|(name, spec)| format!("{name}: {}", spec.image));
    (images.collect(), needed.whole.iter().map(ToString::to_string).collect())
}

/// The planner has placed all desired replicas of these.
fn plan(history: &mut History, services: &[&str]) {
    let revision = history.state.deployments.get(&deployment("shop")).unwrap().revision;
    let changes = services.iter().map(|service| Change::SchedulingSet {
        service: key("shop", service),
        record: Box::new(Scheduling { planned_revision: revision, ..Scheduling::default() }),
    });
    history.batch(changes.collect());
}

/// R-SEL-3: what a node has is needed there, of whatever standing, and nothing else is: not what a
/// deployment had there that was deleted, nor what it has elsewhere. One that came back is needed again.
#[test]
fn what_a_node_has_is_needed_there() {
    let mut history = History::founded();
    let (n1, n2) = (NodeId::FIRST, history.join("n2"));
    history.apply(deploy("shop", &[service("web", "web:1"), service("db", "db:1")]));
    history.batch(vec![create(&key("shop", "web"), 0, n1), create(&key("shop", "db"), 0, n2)]);
    plan(&mut history, &["web", "db"]);
    assert_eq!(needed(&history, n1), (["shop: web:1".to_owned()].into(), vec![]));
    assert_eq!(needed(&history, n2), (["shop: db:1".to_owned()].into(), vec![]));
    // What a rollout will bring is needed as well.
    history.apply(deploy("shop", &[service("web", "web:2"), service("db", "db:1")]));
    plan(&mut history, &["web", "db"]);
    let both = ["shop: web:1".to_owned(), "shop: web:2".to_owned()].into();
    assert_eq!(needed(&history, n1), (both, vec![]));
    history.apply(DeploymentDelete::new(deployment("shop")).into());
    assert_eq!(needed(&history, n1), ([].into(), vec!["shop".to_owned()]), "it still runs");
    let id = |name: &str| jaco_types::ReplicaId::parse(name).unwrap();
    let gone = ["shop-web-0", "shop-db-0"].map(|name| Change::SlotRemove { id: id(name) });
    history.batch(gone.into());
    assert_eq!(needed(&history, n1), ([].into(), vec![]));
    history.apply(deploy("shop", &[service("web", "web:3")]));
    history.batch(vec![create(&key("shop", "web"), 1, n1)]);
    plan(&mut history, &["web"]);
    assert_eq!(needed(&history, n1), (["shop: web:3".to_owned()].into(), vec![]));
}

/// R-SEL-3: a deployment that came back needs its data everywhere until all of it has a place: what waits
/// for one may come to where the data is.
#[test]
fn what_came_back_needs_its_data_until_it_is_placed() {
    let mut history = History::founded();
    let (n1, n2) = (NodeId::FIRST, history.join("n2"));
    let everything = || ([].into(), vec!["shop".to_owned()]);
    history.apply(deploy("shop", &[service("web", "web:1")]));
    assert_eq!(needed(&history, n2), everything(), "the planner has not seen it");
    let (reason, details) = ("no_eligible_node".to_owned(), BTreeMap::new());
    let waits = Unplaced { count: 1, reason, details };
    let record = Scheduling {
        planned_revision: Revision(1),
        unplaced: vec![waits],
        ..Scheduling::default()
    };
    history.batch(vec![Change::SchedulingSet {
        service: key("shop", "web"),
        record: Box::new(record),
    }]);
    assert_eq!(needed(&history, n2), everything(), "it waits for a place");
    history.batch(vec![create(&key("shop", "web"), 0, n1)]);
    plan(&mut history, &["web"]);
    assert_eq!(needed(&history, n2), ([].into(), vec![]));
    history.apply(deploy("shop", &[service("web", "web:2")]));
    assert_eq!(needed(&history, n2), everything(), "the planner has not seen the new revision");
}

/// R-SEL-3, R-NODE-2: a node that is drained loses nothing of what there is.
#[test]
fn a_drained_node_keeps_everything() {
    let mut history = History::founded();
    history.apply(deploy("shop", &[service("web", "web:1")]));
    let availability = Availability::Draining;
    history.apply(NodeSetAvailability::new(NodeId::FIRST, availability).into());
    assert_eq!(needed(&history, NodeId::FIRST), ([].into(), vec!["shop".to_owned()]));
}
