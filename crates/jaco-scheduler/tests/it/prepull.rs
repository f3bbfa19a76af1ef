//! Pre-pull, before the first step of a rollout: its image on every node that it goes to.

use std::collections::BTreeMap;

use jaco_types::spec::{FailureAction, PullPolicy};
use jaco_types::{ImageDigest, ImageNeed, ImageReadiness, Millis, NodeId, Rollout, RolloutState};

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
    let preparing = rollout(cluster).prepull;
    preparing.map(|preparing| preparing.nodes.into_keys().collect()).unwrap_or_default()
}

fn tell(cluster: &mut Cluster, host: &str, readiness: ImageReadiness) {
    let revision = rollout(cluster).target_revision;
    let spec = cluster.state.service_spec(&key("shop", "web"), revision).expect("it is kept");
    let digest = cluster.state.image_digest(&key("shop", "web"), revision).cloned();
    let (need, node) = (ImageNeed { spec: spec.hash, digest }, cluster.node(host));
    cluster.signals.images.entry(node).or_default().insert(need, readiness);
}

fn digest(digit: char) -> ImageDigest {
    ImageDigest::parse(&format!("web@sha256:{}", digit.to_string().repeat(64))).expect("hex")
}

/// A node that has what the registry calls so.
fn has(digit: char) -> ImageReadiness {
    ImageReadiness::Ready { digest: Some(digest(digit)) }
}

/// A node that has the image from no registry.
const UNNAMED: ImageReadiness = ImageReadiness::Ready { digest: None };

fn settled(cluster: &Cluster) -> Option<ImageDigest> {
    let revision = rollout(cluster).target_revision;
    cluster.state.image_digest(&key("shop", "web"), revision).cloned()
}

fn reason(cluster: &Cluster, host: &str) -> Option<String> {
    rollout(cluster).prepull?.nodes.get(&cluster.node(host)).cloned()
}

/// R-ROLL-5: no replica is touched before every node that will run the new revision has its image;
/// then the rollout goes on at once. A pass that finds nothing new changes nothing.
#[test]
fn first_step_waits_for_every_node() {
    let mut cluster = rolled_to(service("web", "web:2"));
    let before = cluster.show();
    assert_eq!(waits_for(&cluster).len(), 3);
    tell(&mut cluster, "n1", has('a'));
    cluster.pass();
    tell(&mut cluster, "n2", ImageReadiness::Waiting { reason: "pulling".to_owned() });
    cluster.pass();
    assert_eq!(cluster.plan().changes, vec![]);
    assert_eq!(waits_for(&cluster).len(), 2);
    assert_eq!(reason(&cluster, "n2").as_deref(), Some("pulling"));
    assert_eq!(reason(&cluster, "n3").as_deref(), Some("not begun yet"));
    tell(&mut cluster, "n2", has('a'));
    tell(&mut cluster, "n3", has('a'));
    assert_eq!(cluster.show(), before);
    let plan = cluster.pass();
    assert_eq!(waits_for(&cluster), vec![]);
    assert_eq!(Cluster::causes(&plan).len(), 1, "the first step is taken as the wait ends");
    cluster.settle();
    assert_eq!(rollout(&cluster).state, RolloutState::Completed);
}

/// R-ROLL-5, R-SPREAD-7, PL-20: the nodes that the steps will go to are asked, also those that have no
/// replica yet; where one goes decides where the next one does.
#[test]
fn nodes_that_the_spread_lacks_fetch_the_image_first() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.apply("shop", &[service("web", "web:1").replicas(3)]);
    cluster.settle();
    for host in ["n2", "n3"] {
        cluster.join(host);
    }
    for host in ["n1", "n2", "n3"] {
        let node = cluster.node(host);
        cluster.signals.images.insert(node, BTreeMap::new());
    }
    cluster.pass();
    cluster.apply("shop", &[service("web", "web:2").replicas(3)]);
    cluster.pass();
    let asked = waits_for(&cluster);
    assert_eq!(asked, ["n1", "n2", "n3"].map(|host| cluster.node(host)));
    for host in ["n1", "n2", "n3"] {
        tell(&mut cluster, host, has('a'));
        cluster.pass();
    }
    cluster.settle();
    let on = cluster.counts("shop", "web");
    assert_eq!(on.into_values().collect::<Vec<_>>(), [1, 1, 1]);
}

/// R-ROLL-5: an image that cannot be had ends the rollout before anything is replaced, the way that
/// the service asks for; a second apply of the same does nothing else.
#[test]
fn failed_pull_replaces_nothing() {
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
        assert_eq!((ended.prepull, ended.current_step), (None, 0));
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
fn prepull_times_out() {
    let mut cluster = rolled_to(service("web", "web:2"));
    let before = cluster.show();
    let due = rollout(&cluster).prepull.expect("it waits").due;
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
fn only_nodes_that_need_the_image_are_waited_for() {
    let mut cluster = rolled_to(service("web", "web:2"));
    tell(&mut cluster, "n1", has('a'));
    tell(&mut cluster, "n2", has('a'));
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
    assert_eq!(waits_for(&rolled_to(other(PullPolicy::Never))), vec![]);
    assert_eq!(waits_for(&rolled_to(other(PullPolicy::Always))).len(), 3);
}

/// R-ROLL-5, PL-20: the first node that has the image settles what it is. One that found something else
/// under the same name is asked for that, and nothing is replaced before it has it.
#[test]
fn first_node_resolves_the_digest() {
    let mut cluster = rolled_to(service("web", "web:2"));
    let before = cluster.show();
    tell(&mut cluster, "n2", has('b'));
    tell(&mut cluster, "n1", has('a'));
    cluster.pass();
    assert_eq!(settled(&cluster), Some(digest('a')), "of two at once, the older node's");
    assert_eq!(cluster.plan().changes, vec![]);
    assert_eq!(reason(&cluster, "n2").as_deref(), Some("not begun yet"));
    tell(&mut cluster, "n2", ImageReadiness::Waiting { reason: "pulling".to_owned() });
    tell(&mut cluster, "n3", has('a'));
    cluster.pass();
    assert_eq!(waits_for(&cluster), vec![cluster.node("n2")]);
    assert_eq!(cluster.show(), before);
    tell(&mut cluster, "n2", has('a'));
    assert_eq!(Cluster::causes(&cluster.pass()).len(), 1);
    cluster.settle();
    assert_eq!(settled(&cluster), Some(digest('a')));
}

/// R-ROLL-5: a node that cannot get what was settled ends the rollout, whatever it has by that name.
#[test]
fn digest_that_cannot_be_pulled_replaces_nothing() {
    let mut cluster = rolled_to(service("web", "web:2"));
    let before = cluster.show();
    tell(&mut cluster, "n1", has('a'));
    tell(&mut cluster, "n2", has('b'));
    cluster.pass();
    let reason = "web@sha256:aa: gone".to_owned();
    tell(&mut cluster, "n2", ImageReadiness::Failed { reason });
    cluster.pass();
    assert_eq!(rollout(&cluster).state, RolloutState::Aborted);
    assert_eq!(cluster.show(), before);
}

/// R-ROLL-5: images that came from no registry have nothing to settle, unless one node has its from one:
/// then the others are asked for that.
#[test]
fn local_images_are_taken_as_they_are() {
    let mut cluster = rolled_to(service("web", "web:2"));
    for host in ["n1", "n2"] {
        tell(&mut cluster, host, UNNAMED);
    }
    cluster.pass();
    assert_eq!(waits_for(&cluster).len(), 3, "n3 may still settle it");
    tell(&mut cluster, "n3", UNNAMED);
    assert_eq!(Cluster::causes(&cluster.pass()).len(), 1);
    assert_eq!(settled(&cluster), None);

    let mut cluster = rolled_to(service("web", "web:2"));
    tell(&mut cluster, "n1", UNNAMED);
    tell(&mut cluster, "n2", UNNAMED);
    tell(&mut cluster, "n3", has('c'));
    cluster.pass();
    assert_eq!(settled(&cluster), Some(digest('c')));
    assert_eq!(waits_for(&cluster).len(), 2);
}

/// R-ROLL-5: a change of something else resolves the image too, where it was not resolved before: what a
/// first apply started may be different things under one name.
#[test]
fn rollout_of_the_same_image_resolves_it() {
    let second = service("web", "web:1").with(|spec| {
        spec.hash = jaco_types::SpecHash([77; 32]);
    });
    let mut cluster = rolled_to(second);
    assert_eq!(waits_for(&cluster).len(), 3);
    tell(&mut cluster, "n1", has('a'));
    tell(&mut cluster, "n2", has('b'));
    tell(&mut cluster, "n3", has('a'));
    cluster.pass();
    assert_eq!(waits_for(&cluster), vec![cluster.node("n2")]);
    tell(&mut cluster, "n2", has('a'));
    cluster.settle();
    // From now on it is known, and another change asks no node.
    let third = service("web", "web:1").replicas(3).with(|spec| {
        spec.hash = jaco_types::SpecHash([78; 32]);
    });
    cluster.apply("shop", &[third]);
    assert_eq!(Cluster::causes(&cluster.pass()).len(), 1);
    assert_eq!(settled(&cluster), Some(digest('a')));
}

/// R-ROLL-5: nothing is resolved where users did, or want what each node has.
#[test]
fn pinned_images_are_not_resolved() {
    let never = service("web", "web:2").with(|spec| spec.pull = PullPolicy::Never);
    let by_digest = service("web", digest('d').as_str());
    for second in [never, by_digest] {
        let mut cluster = rolled_to(second);
        for (host, digit) in [("n1", 'a'), ("n2", 'b'), ("n3", 'b')] {
            tell(&mut cluster, host, has(digit));
        }
        assert_eq!(Cluster::causes(&cluster.pass()).len(), 1);
        assert_eq!(settled(&cluster), None);
    }
}

/// R-ROLL-5, ST-16: the first revision is pinned while its first replicas are watched, to what the first
/// node of them reports, and nothing waits for that. What is started later is asked for by that digest.
#[test]
fn first_revision_is_pinned_without_a_wait() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    cluster.apply("shop", &[service("web", "web:1").replicas(2)]);
    cluster.pass();
    cluster.run_all();
    cluster.pass();
    let pinned = |cluster: &Cluster| {
        let revision = cluster.state.deployments.get(&"shop".parse().unwrap()).unwrap().revision;
        cluster.state.image_digest(&key("shop", "web"), revision).cloned()
    };
    assert_eq!(pinned(&cluster), None);
    let node = cluster.slot("shop-web-0").current.node;
    let asked = jaco_state::view::prepull_on(&cluster.state, node);
    let need = asked.into_keys().next().expect("the node is asked what it runs");
    let idle = cluster.slot("shop-web-1").current.node;
    let others = cluster.state.nodes.keys().filter(|id| **id != node && **id != idle).copied();
    let others: Vec<_> = others.collect();
    for other in others {
        assert_eq!(jaco_state::view::prepull_on(&cluster.state, other), BTreeMap::new());
    }
    cluster.signals.images.entry(node).or_default().insert(need, has('a'));
    cluster.pass();
    assert_eq!(pinned(&cluster), Some(digest('a')));
    assert_eq!(jaco_state::view::prepull_on(&cluster.state, node), BTreeMap::new());
    cluster.apply("shop", &[service("web", "web:1").replicas(3)]);
    assert_eq!(pinned(&cluster), Some(digest('a')));
}
