//! What comes before the first step of a rollout: its image on every node that it goes to.

use std::collections::BTreeMap;

use jaco_types::spec::{FailureAction, Pull};
use jaco_types::{ImageReadiness, Millis, NodeId, Rollout, RolloutState};

use crate::cluster::{Cluster, Service, key, service};

/// Three replicas of `web:1` on three nodes, all of which can prepare rollouts; then `web:2`.
fn rolled_to(second: Service) -> Cluster {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    for host in ["n1", "n2", "n3"] {
        let node = cluster.node(host);
        cluster.signals.images.insert(node, BTreeMap::new());
    }
    cluster.apply("shop", &[service("web", "web:1").replicas(3)]);
    cluster.settle();
    cluster.apply("shop", &[second.replicas(3)]);
    cluster.pass();
    cluster
}

fn rollout(cluster: &Cluster) -> Rollout {
    let record = cluster.state.scheduling.get(&key("shop", "web")).expect("it is kept");
    record.rollout.clone().expect("there is one")
}

fn waits_for(cluster: &Cluster) -> Vec<NodeId> {
    let preparing = rollout(cluster).preparing;
    preparing.map(|preparing| preparing.nodes.into_keys().collect()).unwrap_or_default()
}

fn tell(cluster: &mut Cluster, host: &str, readiness: ImageReadiness) {
    let revision = rollout(cluster).target_revision;
    let spec = cluster.state.service_spec(&key("shop", "web"), revision).expect("it is kept");
    let (hash, node) = (spec.hash, cluster.node(host));
    cluster.signals.images.entry(node).or_default().insert(hash, readiness);
}

/// R-ROLL-5: no replica is touched before every node that will run the new revision has its image;
/// then the rollout goes on at once. A pass that finds nothing new changes nothing.
#[test]
fn the_first_step_waits_for_every_node() {
    let mut cluster = rolled_to(service("web", "web:2"));
    let before = cluster.show();
    assert_eq!(waits_for(&cluster).len(), 3);
    tell(&mut cluster, "n1", ImageReadiness::Ready);
    tell(&mut cluster, "n2", ImageReadiness::Waiting { reason: "pulling".to_owned() });
    cluster.pass();
    assert_eq!(cluster.plan().changes, vec![]);
    let nodes = rollout(&cluster).preparing.expect("it waits").nodes;
    let (n2, n3) = (cluster.node("n2"), cluster.node("n3"));
    assert_eq!(
        (nodes.len(), nodes[&n2].as_str(), nodes[&n3].as_str()),
        (2, "pulling", "not begun yet")
    );
    tell(&mut cluster, "n2", ImageReadiness::Ready);
    tell(&mut cluster, "n3", ImageReadiness::Ready);
    assert_eq!(cluster.show(), before);
    let plan = cluster.pass();
    assert_eq!(waits_for(&cluster), vec![]);
    assert_eq!(Cluster::causes(&plan).len(), 1, "the first step goes with the end of the wait");
    cluster.settle();
    assert_eq!(rollout(&cluster).state, RolloutState::Completed);
}

/// R-ROLL-5: an image that cannot be had ends the rollout before anything is replaced, the way that
/// the service asks for; a second apply of the same does nothing else.
#[test]
fn a_failed_pull_replaces_nothing() {
    for (action, state) in [
        (FailureAction::Rollback, RolloutState::Aborted),
        (FailureAction::Pause, RolloutState::Paused),
    ] {
        let second = service("web", "web:2").with(|spec| spec.update.failure_action = action);
        let mut cluster = rolled_to(second.clone());
        let before = cluster.show();
        let reason = "web:2: no such image".to_owned();
        tell(&mut cluster, "n2", ImageReadiness::Failed { reason });
        cluster.pass();
        let ended = rollout(&cluster);
        assert_eq!(ended.state, state);
        assert_eq!(ended.failure_reason, "image_pull_failed: n2: web:2: no such image");
        assert_eq!((ended.preparing, ended.current_step), (None, 0));
        for _ in 0..2 {
            cluster.apply("shop", &[second.clone().replicas(3)]);
            cluster.settle();
            assert_eq!(cluster.show(), before, "{state:?}");
        }
    }
    let goes_on = |spec: &mut jaco_types::ServiceSpec| {
        spec.update.failure_action = FailureAction::Continue;
    };
    let mut cluster = rolled_to(service("web", "web:2").with(goes_on));
    tell(&mut cluster, "n2", ImageReadiness::Failed { reason: String::new() });
    assert_eq!(Cluster::causes(&cluster.pass()).len(), 1, "the rest goes on");
}

/// R-ROLL-5: the wait has an end, known beforehand, and the reason names a node and its image.
#[test]
fn the_wait_has_an_end() {
    let mut cluster = rolled_to(service("web", "web:2"));
    let before = cluster.show();
    let due = rollout(&cluster).preparing.expect("it waits").due;
    assert!(cluster.plan().wake_at.is_some_and(|at| at <= due));
    cluster.advance(Millis::from_secs(599), &[]);
    cluster.pass();
    assert_eq!(rollout(&cluster).state, RolloutState::InProgress);
    cluster.advance(Millis::from_secs(1), &[]);
    cluster.pass();
    let ended = rollout(&cluster);
    assert_eq!(ended.state, RolloutState::Aborted);
    assert!(ended.failure_reason.starts_with("prepare_timeout: n"), "{}", ended.failure_reason);
    assert!(ended.failure_reason.contains("web:2"), "{}", ended.failure_reason);
    assert_eq!(cluster.show(), before);
}

/// A node that is lost is not waited for, and neither is one whose daemon does not prepare; an image
/// that a node runs already is there, unless it is pulled before each start.
#[test]
fn only_nodes_that_can_and_must_are_waited_for() {
    let mut cluster = rolled_to(service("web", "web:2"));
    tell(&mut cluster, "n1", ImageReadiness::Ready);
    tell(&mut cluster, "n2", ImageReadiness::Ready);
    cluster.advance(Millis::from_secs(20), &["n3"]);
    cluster.pass();
    cluster.pass();
    assert_eq!(waits_for(&cluster), vec![]);

    let mut old = Cluster::of(&["n1"]);
    old.apply("shop", &[service("web", "web:1")]);
    old.settle();
    old.apply("shop", &[service("web", "web:2")]);
    assert_eq!(Cluster::causes(&old.pass()).len(), 1, "its daemon is of an older release");

    let other = |pull| {
        service("web", "web:1").with(|spec| {
            spec.pull = pull;
            spec.hash = jaco_types::SpecHash([77; 32]);
        })
    };
    assert_eq!(waits_for(&rolled_to(other(Pull::Missing))), vec![]);
    assert_eq!(waits_for(&rolled_to(other(Pull::Always))).len(), 3);
}
