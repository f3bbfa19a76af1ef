//! What served leaves the endpoints before it stops, and those who follow them are waited for.

use expect_test::expect;
use jaco_state::audit::AuditKind;
use jaco_state::command::EdgeBegin;
use jaco_state::view::{endpoints, in_routing};
use jaco_types::route::DrainTime;
use jaco_types::{Acknowledgement, Availability, InstanceId, Millis};
use proptest::prelude::*;

use crate::cluster::{Cluster, key, service};
use crate::events::{HOSTS, events, happen};

fn web(version: u8) -> crate::cluster::Service {
    service("web", &format!("web:{version}")).replicas(2)
}

/// Three nodes, two replicas, and a consumer that follows them.
fn followed() -> Cluster {
    let mut cluster = Cluster::of(&HOSTS[..3]);
    cluster.attach("edge", Millis::from_secs(30));
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster
}

fn terminating(cluster: &Cluster) -> String {
    let ids = cluster.state.terminating.keys().map(|id| id.replica.to_string());
    ids.collect::<Vec<_>>().join(" ")
}

/// PL-13: the old instance runs on, out of the endpoints, until the consumer has acknowledged.
#[test]
fn replaced_instance_stops_once_consumers_acknowledged() {
    let mut cluster = followed();
    cluster.apply("shop", &[web(2).with(|spec| spec.update.monitor = Some(Millis(0)))]);
    cluster.pass();
    cluster.run_all();
    cluster.pass();
    assert_eq!(terminating(&cluster), "shop-web-0");
    let (old, row) = cluster.state.terminating.iter().next().unwrap();
    let (old, left_at) = (old.clone(), row.left_at);
    assert!(!in_routing(&cluster.state, &old) && cluster.is_desired(&old));
    let listed = &endpoints(&cluster.state, None)[&key("shop", "web")];
    assert!(listed.iter().all(|endpoint| endpoint.id != old) && listed.len() == 2);
    cluster.acknowledge("edge", jaco_types::StateIndex(left_at.0 - 1));
    cluster.pass();
    assert_eq!(terminating(&cluster), "shop-web-0", "an older list may still have it");
    cluster.acknowledge("edge", left_at);
    cluster.pass();
    assert_eq!(terminating(&cluster), "");
    assert!(!cluster.is_desired(&old));
}

/// R-EDGE-1: a slow request holds its own instance and no other; it is over when the consumer says so, or with the
/// deadline.
#[test]
fn busy_instance_alone_is_waited_for() {
    let mut cluster = followed();
    cluster.apply("shop", &[web(1).replicas(0)]);
    cluster.pass();
    let ids: Vec<InstanceId> = cluster.state.terminating.keys().cloned().collect();
    let newest = cluster.state.index;
    let busy = Acknowledgement { index: newest, busy: [ids[1].clone()].into() };
    cluster.say("edge", busy.clone());
    cluster.pass();
    assert_eq!(terminating(&cluster), "shop-web-1");
    let mut late = cluster.clone();
    cluster.acknowledge("edge", newest);
    cluster.pass();
    assert_eq!(terminating(&cluster), "");
    late.advance(Millis(10_000), &[]);
    late.say("edge", busy);
    late.pass();
    assert_eq!(terminating(&late), "", "no longer than the deadline");
}

/// PL-13: a consumer that says nothing is waited for until the deadline, not longer.
#[test]
fn silent_acknowledgement_is_awaited_until_the_deadline() {
    let mut cluster = followed();
    cluster.apply("shop", &[web(1).replicas(1)]);
    cluster.pass();
    assert_eq!(terminating(&cluster), "shop-web-1");
    cluster.advance(Millis(9_999), &[]);
    cluster.pass();
    assert_eq!(terminating(&cluster), "shop-web-1");
    assert_eq!(cluster.plan().wake_at, Some(cluster.now.after(Millis(1))));
    cluster.advance(Millis(1), &[]);
    cluster.pass();
    assert_eq!(terminating(&cluster), "");
}

/// R-EDGE-1: a service says how long its instances wait for those that do not acknowledge; without its revision the
/// planner's own patience counts.
#[test]
fn silent_acknowledgement_is_awaited_for_the_drain_time() {
    for (drain, patience) in [(30_000, 30_000), (2_000, 2_000), (0, 1)] {
        let mut cluster = Cluster::of(&HOSTS[..3]);
        cluster.commit(EdgeBegin.into());
        cluster.attach("edge", Millis::from_secs(60));
        let drain = DrainTime::new(Millis(drain)).ok();
        let drained = |replicas| web(1).replicas(replicas).with(|spec| spec.drain = drain);
        cluster.apply("shop", &[drained(2)]);
        cluster.settle();
        cluster.apply("shop", &[drained(1)]);
        cluster.pass();
        assert_eq!(terminating(&cluster), "shop-web-1");
        cluster.advance(Millis(patience - 1), &[]);
        cluster.pass();
        assert_eq!(terminating(&cluster), "shop-web-1", "{patience}");
        cluster.advance(Millis(1), &[]);
        cluster.pass();
        assert_eq!(terminating(&cluster), "", "{patience}");
    }
}

/// One that is silent for its lease is forgotten, and nothing waits for it any more.
#[test]
fn consumer_expires_with_its_lease() {
    let mut cluster = Cluster::of(&HOSTS[..1]);
    cluster.attach("edge", Millis::from_secs(5));
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.advance(Millis::from_secs(5), &[]);
    cluster.apply("shop", &[web(1).replicas(0)]);
    cluster.pass();
    assert!(cluster.state.consumers.is_empty());
    assert_eq!(terminating(&cluster), "");
    assert_eq!(cluster.audited(AuditKind::ConsumerDetached), 1);
}

/// Without a consumer nothing waits.
#[test]
fn without_consumers_nothing_is_awaited() {
    let mut cluster = Cluster::of(&HOSTS[..1]);
    cluster.apply("shop", &[web(1)]);
    cluster.settle();
    cluster.apply("shop", &[web(1).replicas(0)]);
    cluster.pass();
    assert_eq!(terminating(&cluster), "");
}

/// A new leader has no acknowledgements yet: it waits for the consumers that the state names.
#[test]
fn new_leader_waits_for_known_consumers() {
    let mut cluster = followed();
    cluster.apply("shop", &[web(1).replicas(1)]);
    cluster.pass();
    cluster.signals.consumers.clear();
    cluster.signals.listening_since = cluster.now;
    cluster.pass();
    assert_eq!(terminating(&cluster), "shop-web-1");
    let newest = cluster.state.index;
    cluster.acknowledge("edge", newest);
    cluster.pass();
    assert_eq!(terminating(&cluster), "");
}

/// PL-9: a terminating instance holds its port until it has stopped; who waits for the port says so.
#[test]
fn terminating_instance_keeps_its_reservation() {
    let mut cluster = Cluster::of(&HOSTS[..1]);
    cluster.attach("edge", Millis::from_secs(30));
    cluster.apply("shop", &[service("web", "web:1").host_port(80)]);
    cluster.settle();
    cluster.apply("shop", &[service("api", "api:1").host_port(80)]);
    cluster.pass();
    expect!["1 no_eligible_node host_port_taken=1"].assert_eq(&cluster.reasons("shop", "api"));
    let newest = cluster.state.index;
    cluster.acknowledge("edge", newest);
    cluster.pass();
    expect![""].assert_eq(&cluster.reasons("shop", "api"));
}

/// The slot whose old instance still leaves gets no third one.
#[test]
fn terminating_slot_is_not_replaced_again() {
    let mut cluster = followed();
    let unwatched = |service: crate::cluster::Service| {
        service.with(|spec| spec.update.monitor = Some(Millis(0)))
    };
    cluster.apply("shop", &[unwatched(web(2).replicas(1))]);
    while cluster.state.terminating.len() < 2 {
        cluster.run_all();
        cluster.pass();
    }
    cluster.apply("shop", &[web(3).replicas(1)]);
    cluster.pass();
    expect!["shop-web-0@n2"].assert_eq(&cluster.show());
    let newest = cluster.state.index;
    cluster.acknowledge("edge", newest);
    cluster.pass();
    expect!["shop-web-0@n2<n2"].assert_eq(&cluster.show());
}

/// PL-2, found by the law below: a handover that ends on a node which is being drained, too. What begins to
/// leave in a pass is reported as terminating in that pass, not only in the next.
#[test]
fn handover_completes_on_a_draining_node() {
    let mut cluster = followed();
    for host in &HOSTS[..3] {
        cluster.set_availability(host, Availability::Draining);
        cluster.pass();
        cluster.run_all();
    }
    cluster.pass();
    assert_ne!(terminating(&cluster), "");
}

proptest! {
    /// PL-13: whatever happens, an instance that was among the endpoints and still runs is kept until
    /// every consumer that is there has acknowledged a list without it, or the deadline has passed,
    /// or its node is lost.
    #[test]
    fn serving_instance_leaves_the_endpoints_before_it_stops(
        events in events(1..40),
        acknowledges in prop::collection::vec(0_u8..4, 40),
    ) {
        let mut cluster = Cluster::of(&HOSTS[..3]);
        cluster.attach("edge", Millis::from_secs(60));
        for (event, acknowledges) in events.iter().zip(acknowledges) {
            let newest = cluster.state.index;
            // Now and then it has something to finish with every second one that leaves.
            let busy = cluster.state.terminating.keys().skip(usize::from(acknowledges == 3));
            let busy = busy.step_by(2).filter(|_| acknowledges >= 2).cloned().collect();
            if acknowledges > 0 {
                cluster.say("edge", Acknowledgement { index: newest, busy });
            }
            happen(&mut cluster, event);
            let before = cluster.clone();
            cluster.pass();
            let dropped = |id: &InstanceId| before.is_desired(id) && !cluster.is_desired(id);
            for seen in before.state.observed.values().filter(|seen| dropped(&seen.id)) {
                let is_reachable = cluster.is_ready(seen.node);
                let runs = jaco_state::view::is_running(&before.state, &seen.id);
                // One that was finished left the endpoints when it ended.
                let is_followed = in_routing(&before.state, &seen.id)
                    || before.state.terminating.contains(&seen.id);
                if !is_reachable || !runs || !is_followed || cluster.state.consumers.is_empty() {
                    continue;
                }
                let row = before.state.terminating.get(&seen.id);
                prop_assert!(row.is_some(), "PL-13: {} was stopped while it served", seen.id);
                let row = row.unwrap();
                let mut names = cluster.state.consumers.keys();
                let is_known = names.all(|name| before.releases(name.as_str(), &row.id, row.left_at));
                let is_due = cluster.now >= row.since.after(Millis::from_secs(10));
                prop_assert!(is_known || is_due, "PL-13: {} was not waited for", seen.id);
            }
        }
    }
}
