//! The planner's laws. `PROPTEST_CASES` raises the number of cases (256 by default).

use jaco_scheduler::Planner;
use jaco_state::view::is_running;
use jaco_types::spec::Placement;
use jaco_types::{Availability, DesiredState, Millis, NodeStatus, Slot, Timestamp};
use proptest::prelude::*;

use crate::cluster::{Cluster, service};
use crate::events::{HOSTS, any_service, check, events, happen};

/// What becomes of a planner between two events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    AndCarriedOut,
    AndRefused,
    Nothing,
    WithTheClockSetBack,
    OfALeaderThatLeaves,
}

fn asked() -> impl Strategy<Value = Asked> {
    prop_oneof![
        12 => Just(Asked::AndCarriedOut),
        2 => Just(Asked::AndRefused),
        4 => Just(Asked::Nothing),
        1 => Just(Asked::WithTheClockSetBack),
        1 => Just(Asked::OfALeaderThatLeaves),
    ]
}

proptest! {
    /// PL-2, PL-5, PL-7, PL-8, PL-9, PL-18, ST-2: whatever happens, each pass keeps the laws, is not
    /// refused, and leaves nothing to the next one. PL-3: when the faults end, all converges
    /// within a bounded number of passes.
    #[test]
    fn every_pass_keeps_the_laws_and_the_cluster_converges(events in events(1..40)) {
        let mut cluster = Cluster::of(&HOSTS[..3]);
        for event in &events {
            happen(&mut cluster, event);
            let before = cluster.clone();
            let plan = cluster.pass();
            check(&before, &plan, &cluster);
        }
        end_faults(&mut cluster);
        let replicas = cluster.state.slots.len() + 12;
        let passes = cluster.settle();
        prop_assert!(passes <= 3 * replicas + 4, "PL-3: {passes} passes for {replicas} replicas");
        let runs = |slot: &Slot| is_running(&cluster.state, &slot.current_id());
        for slot in cluster.state.slots.values() {
            let is_here = cluster.state.nodes.get(&slot.current.node);
            let is_here = is_here.is_some_and(|node| node.status == NodeStatus::Ready);
            let is_spent = slot.restarts.exhausted == jaco_types::slot::Exhausted::Yes;
            let is_disabled = cluster.state.disabled.of_slot(slot).is_some();
            let waits = !is_disabled && slot.desired_state == DesiredState::Disabled;
            let is_over = matches!(slot.desired_state, DesiredState::Finished(_));
            let explained = !cluster.reasons_of(&slot.service).is_empty();
            prop_assert!(!waits || explained, "PL-7: {} waits for nothing", slot.id);
            prop_assert!(
                !is_here || is_spent || is_disabled || is_over || waits || runs(slot),
                "PL-3: {}",
                slot.id
            );
        }
    }

    /// PL-1: the order in which nodes joined, deployments were made and slots were written decides
    /// nothing; only names do.
    #[test]
    fn insertion_order_is_irrelevant(
        services in prop::collection::vec(any_service(), 1..3),
        order in Just(HOSTS.to_vec()).prop_shuffle(),
    ) {
        let mut sorted = Cluster::of(&HOSTS);
        sorted.apply("blog", &[service("web", "b").replicas(3)]);
        sorted.apply("shop", &services);
        let mut shuffled = Cluster::of(&order);
        shuffled.apply("shop", &services);
        shuffled.apply("blog", &[service("web", "b").replicas(3)]);
        sorted.settle();
        shuffled.settle();
        prop_assert_eq!(sorted.show(), shuffled.show());
    }

    /// PL-1: the same input gives the same plan, down to the report.
    #[test]
    fn planning_is_repeatable(events in events(1..12)) {
        let mut cluster = Cluster::of(&HOSTS[..3]);
        for event in &events {
            happen(&mut cluster, event);
            prop_assert_eq!(cluster.plan(), cluster.clone().plan());
            cluster.pass();
        }
    }

    /// PL-14, R-LOOP-1: a planner with memory answers as a fresh one, whatever was asked
    /// of it before: passes that were carried out, refused or never made, a clock that was set back,
    /// a new leader.
    #[test]
    fn planner_memory_changes_no_plan(
        events in events(1..40),
        asked in prop::collection::vec(asked(), 40),
    ) {
        let mut cluster = Cluster::of(&HOSTS[..3]);
        let mut planner = Planner::default();
        for (event, asked) in events.iter().zip(asked) {
            happen(&mut cluster, event);
            if asked == Asked::Nothing {
                continue;
            }
            if asked == Asked::WithTheClockSetBack {
                cluster.now = Timestamp(cluster.now.0.saturating_sub(20_000));
            }
            let plan = planner.plan(&cluster.input());
            prop_assert_eq!(&plan, &cluster.plan());
            prop_assert_eq!(&plan, &planner.plan(&cluster.input()), "asked twice");
            if asked != Asked::AndRefused {
                cluster.carry_out(&plan);
            }
            if asked == Asked::OfALeaderThatLeaves {
                planner = Planner::default();
            }
        }
    }

    /// R-PLACE-1: from scratch, the counts of one service differ by one at most.
    #[test]
    fn spread_is_even(nodes in 1..6usize, replicas in 0..20u32, others in 0..7u32) {
        let mut cluster = Cluster::of(&HOSTS[..nodes.min(HOSTS.len())]);
        cluster.apply("blog", &[service("api", "a").replicas(others)]);
        cluster.apply("shop", &[service("web", "w").replicas(replicas)]);
        cluster.settle();
        prop_assert!(skew(&cluster) <= 1, "{}", cluster.show());
    }

    /// R-PLACE-7: scaling down and up again keeps it even.
    #[test]
    fn scaling_keeps_the_spread(steps in prop::collection::vec(0..12u32, 1..6)) {
        let mut cluster = Cluster::of(&HOSTS);
        for replicas in steps {
            cluster.apply("shop", &[service("web", "w").replicas(replicas)]);
            cluster.settle();
            prop_assert!(skew(&cluster) <= 1, "{}", cluster.show());
        }
    }

    /// PL-6: a node that joins and a change of another deployment move no replica.
    #[test]
    fn unrelated_changes_move_no_replica(
        mine in prop::collection::vec(any_service(), 1..3),
        theirs in prop::collection::vec(any_service(), 1..3),
    ) {
        // No ports, no dependencies between deployments: what one has cannot be in another's way.
        let without_ports = |services: Vec<crate::cluster::Service>| -> Vec<_> {
            services.into_iter().map(|s| s.with(|spec| spec.host_ports.clear())).collect()
        };
        let mut cluster = Cluster::of(&HOSTS[..3]);
        cluster.apply("shop", &without_ports(mine.clone()));
        cluster.settle();
        let of_shop = |cluster: &Cluster| -> Vec<_> {
            let slots = cluster.state.slots.values();
            let slots = slots.filter(|slot| slot.service.deployment.as_str() == "shop");
            slots.map(|slot| (slot.id.clone(), slot.current.clone())).collect()
        };
        let before = of_shop(&cluster);
        cluster.apply("blog", &without_ports(theirs));
        cluster.join("n4");
        cluster.settle();
        let after = of_shop(&cluster);
        for slot in &before {
            prop_assert!(after.contains(slot), "PL-6: {slot:?} is not in {after:?}");
        }
        let is_global = |slot: &(jaco_types::ReplicaId, _)| slot.0.as_str().ends_with("n4");
        // Some may have waited for a node like the one that joins.
        let waits = mine.iter().any(|service| {
            matches!(service.0.placement, Placement::Hosts(_))
                || service.0.scheduling.max_per_node.is_some()
        });
        for slot in after.iter().filter(|slot| !before.contains(slot)) {
            prop_assert!(is_global(slot) || waits, "PL-6: {slot:?} is new");
        }
    }

    /// R-LOOP-6: a state that no history can have, and a signal book that fits nothing, are planned
    /// without a panic.
    #[test]
    fn inconsistent_state_is_planned_without_panic(events in events(1..10), salt in any::<u64>()) {
        let mut cluster = Cluster::of(&HOSTS[..2]);
        for event in &events {
            happen(&mut cluster, event);
            cluster.pass();
        }
        scramble(&mut cluster, salt);
        let plan = cluster.plan();
        prop_assert_eq!(&plan, &cluster.plan());
    }
}

/// The faults end: every member talks and takes replicas.
fn end_faults(cluster: &mut Cluster) {
    let hosts: Vec<_> =
        cluster.state.nodes.values().map(|node| node.hostname.to_string()).collect();
    for host in &hosts {
        cluster.set_availability(host, Availability::Active);
    }
    cluster.advance(Millis(1), &[]);
}

fn skew(cluster: &Cluster) -> usize {
    let counts = cluster.counts("shop", "web");
    counts.values().max().unwrap_or(&0) - counts.values().min().unwrap_or(&0)
}

/// Points slots at nodes and revisions that do not exist, and counters beyond all use.
fn scramble(cluster: &mut Cluster, salt: u64) {
    let ids: Vec<_> = cluster.state.slots.keys().cloned().collect();
    for (at, id) in (salt..).zip(ids) {
        let slot = cluster.state.slots.get_mut(&id).unwrap();
        match at % 6 {
            0 => slot.current.node = jaco_types::NodeId(at),
            1 => slot.current.revision = jaco_types::Revision(u64::MAX),
            2 => slot.retiring = Some(slot.current.clone()),
            3 => slot.restarts.consecutive = u32::MAX,
            4 => slot.service.service = "gone".parse().unwrap(),
            _ => slot.current.spec_hash.0[0] ^= 1,
        }
    }
    let keys: Vec<_> = cluster.state.scheduling.keys().cloned().collect();
    for key in keys {
        let record = cluster.state.scheduling.get_mut(&key).unwrap();
        record.next_index = u64::MAX - salt % 2;
        if let Some(rollout) = &mut record.rollout {
            rollout.total_steps = u32::MAX;
            rollout.current_step = u32::try_from(salt % 7).unwrap();
            rollout.state = jaco_types::RolloutState::InProgress;
        }
    }
    let nodes: Vec<_> = cluster.state.nodes.keys().copied().collect();
    for id in nodes {
        let node = cluster.state.nodes.get_mut(&id).unwrap();
        node.facts.capacity.cpu.0 = salt % 3;
        node.joined_at.0 = salt;
    }
    cluster.signals.listening_since.0 = salt.rotate_left(7);
    cluster.now.0 ^= salt;
}
