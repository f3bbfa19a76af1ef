//! R-ROLL-3: a revision of a deployment goes back as a whole: where one service is given up, the others
//! return to the previous revision with it.

use std::collections::BTreeMap;

use expect_test::expect;
use jaco_state::view::{Convergence, convergence};
use jaco_types::spec::{FailureAction, Placement};
use jaco_types::{Millis, ReplicaState, RolloutState};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, key, service};

/// All instances run but those of these services at the second revision, which start and get no further;
/// until nothing changes any more.
fn settle_with_hanging(cluster: &mut Cluster, hanging: &[&str]) {
    for _ in 0..150 {
        cluster.pass();
        let instances = cluster.state.slots.values().flat_map(|slot| {
            let hangs = hanging.contains(&slot.service.service.as_str());
            slot.instances().map(move |(id, live)| {
                let state = match hangs && live.revision.0 == 2 {
                    true => ReplicaState::Starting,
                    false => ReplicaState::Running,
                };
                (id, live.node, state)
            })
        });
        let instances: Vec<_> = instances.collect();
        for (id, node, state) in instances {
            if cluster.state.observed.get(&id).is_none_or(|seen| seen.state != state) {
                cluster.observe(&id, node, state);
            }
        }
        cluster.clear_up();
        cluster.advance(Millis::from_secs(4), &[]);
    }
    assert_eq!(cluster.plan().changes, vec![], "terminal");
}

/// Who runs which image, and what the planner's records say.
fn shown(cluster: &Cluster) -> String {
    let images = cluster.state.slots.values().map(|slot| {
        let spec = cluster.state.service_spec(&slot.service, slot.current.revision);
        format!("{}={}", slot.id, spec.map_or("?", |spec| &*spec.image))
    });
    let images: Vec<_> = images.collect();
    let rollouts = cluster.state.scheduling.iter().filter_map(|(key, record)| {
        let rollout = record.rollout.as_ref()?;
        let state = rollout.state.as_str();
        Some(format!("{}: {state} {}", key.service, rollout.failure_reason).trim_end().to_owned())
    });
    let rollouts: Vec<_> = rollouts.collect();
    format!("{}\n{}", images.join(" "), rollouts.join("\n"))
}

fn shop(cluster: &mut Cluster, services: &[Service]) {
    cluster.apply("shop", services);
}

fn image(name: &str, version: u32) -> Service {
    service(name, &format!("{name}:{version}")).replicas(2)
}

/// R-ROLL-3: what was completed goes back with what was aborted, and a service that did not change is
/// left alone.
#[test]
fn completed_siblings_go_back_too() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let one = |version| [image("api", version), image("db", 1), image("web", version)];
    shop(&mut cluster, &one(1));
    cluster.settle();
    shop(&mut cluster, &one(2));
    settle_with_hanging(&mut cluster, &["web"]);
    expect![[r#"
        shop-api-0=api:1 shop-api-1=api:1 shop-db-0=db:1 shop-db-1=db:1 shop-web-0=web:1 shop-web-1=web:1
        api: aborted sibling_aborted: web: step_timeout: shop-web-0 did not run within 60s
        web: aborted step_timeout: shop-web-0 did not run within 60s"#]]
    .assert_eq(&shown(&cluster));
    let deployment = cluster.state.deployments.get(&"shop".parse().unwrap()).unwrap();
    assert_eq!(convergence(&cluster.state, deployment), Convergence::RolledBack);
}

/// R-ROLL-3: what became fewer replicas in other places comes back in full.
#[test]
fn placement_goes_back_in_full() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3", "n4"]);
    let global = image("proxy", 1).placement(Placement::Global);
    shop(&mut cluster, &[global, image("web", 1)]);
    cluster.settle();
    let before = cluster.counts("shop", "proxy");
    shop(&mut cluster, &[image("proxy", 1).replicas(1), image("web", 2)]);
    settle_with_hanging(&mut cluster, &["web"]);
    assert_eq!(cluster.counts("shop", "proxy"), before, "{}", shown(&cluster));
}

/// R-ROLL-4: a service whose file asks for a pause stays as it is for who looks at it.
#[test]
fn paused_siblings_stay() {
    let mut cluster = Cluster::of(&["n1", "n2", "n3"]);
    let pauses = |version| {
        image("api", version).with(|spec| {
            spec.update.failure_action = FailureAction::Pause;
            spec.update.step_timeout = Millis::from_secs(20);
        })
    };
    shop(&mut cluster, &[pauses(1), image("web", 1)]);
    cluster.settle();
    shop(&mut cluster, &[pauses(2), image("web", 2)]);
    settle_with_hanging(&mut cluster, &["api", "web"]);
    let state = |name| cluster.state.scheduling.get(&key("shop", name)).unwrap().rollout.clone();
    assert_eq!(state("api").unwrap().state, RolloutState::Paused);
    assert_eq!(state("web").unwrap().state, RolloutState::Aborted);
}

const NAMES: [&str; 3] = ["api", "db", "web"];

/// A service before and after a change: version, number and place.
fn states() -> impl Strategy<Value = [(u32, u32, bool); 2]> {
    let one = || (1..3u32, 0..4u32, prop::bool::weighted(0.2));
    [one(), one()]
}

fn made(name: &str, (version, replicas, is_global): (u32, u32, bool)) -> Service {
    let made = image(name, version).replicas(replicas);
    if is_global { made.placement(Placement::Global) } else { made }
}

proptest! {
    /// R-ROLL-3, PL-19: whatever changes in a revision of several services, and whichever of them do not
    /// run with it: in the end either all of them are what the revision says, or all are what they were.
    #[test]
    fn a_revision_is_reached_by_all_services_or_by_none(
        changes in [states(), states(), states()],
        hangs in [any::<bool>(), any::<bool>(), any::<bool>()],
    ) {
        let mut cluster = Cluster::of(&["n1", "n2", "n3", "n4"]);
        let revision = |at: usize| -> Vec<Service> {
            NAMES.iter().zip(&changes).map(|(name, states)| made(name, states[at])).collect()
        };
        shop(&mut cluster, &revision(0));
        cluster.settle();
        shop(&mut cluster, &revision(1));
        let hanging: Vec<&str> =
            NAMES.into_iter().zip(hangs).filter(|(_, hangs)| *hangs).map(|(name, _)| name).collect();
        settle_with_hanging(&mut cluster, &hanging);
        let is_given_up = cluster.state.scheduling.values().any(|record| {
            record.rollout.as_ref().is_some_and(|one| one.state == RolloutState::Aborted)
        });
        let wanted = revision(usize::from(!is_given_up));
        for service in &wanted {
            let spec = &service.0;
            let slots = cluster.state.slots.values();
            let slots = slots.filter(|slot| slot.service.service == spec.name);
            let hashes: BTreeMap<_, _> =
                slots.map(|slot| (slot.id.clone(), slot.current.spec_hash)).collect();
            let count = if spec.placement == Placement::Global { 4 } else { spec.replicas as usize };
            prop_assert_eq!(hashes.len(), count, "{}: {}", spec.name, shown(&cluster));
            prop_assert!(hashes.values().all(|hash| *hash == spec.hash), "{}", shown(&cluster));
        }
    }
}
