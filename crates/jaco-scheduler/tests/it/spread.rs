//! Spread criteria, constraints, labels and affinities.

use std::num::NonZeroU32;

use expect_test::expect;
use jaco_scheduler::attribute::holds;
use jaco_state::command::{NodeReport, NodeSetLabels};
use jaco_types::spec::{Affinity, Operator, Placement, SpreadCriterion};
use jaco_types::{Availability, Millis};
use proptest::prelude::*;

use crate::cluster::{Cluster, Service, constraint, resources, service};

/// Data centres with so many nodes in each of these racks.
fn grid(centres: &[&str], racks: &[&str], nodes: usize) -> Cluster {
    grid_of(centres, racks, nodes, |_, _| resources(0, 0))
}

fn grid_of(
    centres: &[&str],
    racks: &[&str],
    nodes: usize,
    capacity: impl Fn(&str, &str) -> jaco_types::unit::Resources,
) -> Cluster {
    let mut cluster = Cluster::empty();
    for centre in centres {
        for rack in racks {
            for number in 0..nodes {
                let labels = [("datacenter", *centre), ("rack", *rack)];
                let host = format!("{centre}-{rack}-{number}");
                cluster.join_as(&host, capacity(centre, rack), &labels);
            }
        }
    }
    cluster.pass();
    cluster
}

fn placed(mut cluster: Cluster, service: Service, labels: &[&str]) -> String {
    cluster.apply("shop", &[service]);
    cluster.settle();
    show(&cluster, labels)
}

fn show(cluster: &Cluster, labels: &[&str]) -> String {
    let domains = cluster.domains("shop", "web", labels);
    let counts = domains.iter().map(|(domain, count)| format!("{domain}={count}"));
    counts.collect::<Vec<_>>().join(" ")
}

fn web(replicas: u32) -> Service {
    service("web", "web:1").replicas(replicas)
}

/// R-SPREAD-2: the worked cases, to the digit.
#[test]
fn documented_cases_come_out_exactly() {
    let dc = ["datacenter"];
    let two = || grid(&["us-east1", "us-west1"], &["r1", "r2"], 3);
    let three = || grid(&["us-east1", "us-east2", "us-west1"], &["r1"], 4);
    let even = web(10).spread("${node.datacenter}", 100, &[]);
    expect!["us-east1=5 us-west1=5"].assert_eq(&placed(two(), even, &dc));
    let half = web(10).spread("${node.datacenter}", 100, &[("us-east1", 50)]);
    expect!["us-east1=5 us-east2=3 us-west1=2"].assert_eq(&placed(three(), half, &dc));
    let sixty = [("us-east1", 60), ("us-west1", 40)];
    let sixty = web(10).spread("${node.datacenter}", 100, &sixty);
    expect!["us-east1=6 us-west1=4"].assert_eq(&placed(two(), sixty, &dc));
    let both = || web(12).spread("${node.datacenter}", 50, &[]).spread("${meta.rack}", 50, &[]);
    expect!["us-east1=6 us-west1=6"].assert_eq(&placed(two(), both(), &dc));
    expect!["us-east1/r1=3 us-east1/r2=3 us-west1/r1=3 us-west1/r2=3"].assert_eq(&placed(
        two(),
        both(),
        &["datacenter", "rack"],
    ));
}

/// R-SPREAD-3: what a level cannot share evenly inside its parents, it shares evenly over them.
#[test]
fn remainders_do_not_all_fall_to_the_same_value() {
    let service = web(6).spread("datacenter", 60, &[]).spread("rack", 50, &[]);
    let cluster = || grid(&["a", "b"], &["r1", "r2"], 2);
    expect!["a/r1=2 a/r2=1 b/r1=1 b/r2=2"].assert_eq(&placed(
        cluster(),
        service.clone(),
        &["datacenter", "rack"],
    ));
    expect!["r1=3 r2=3"].assert_eq(&placed(cluster(), service, &["rack"]));
}

/// R-SPREAD-4: nothing matches, and it is placed all the same; a full domain gives its surplus away.
#[test]
fn spread_is_soft() {
    let nowhere = web(4).spread("meta.nowhere", 100, &[("x", 100)]);
    expect!["a=2 b=2"].assert_eq(&placed(grid(&["a", "b"], &["r1"], 2), nowhere, &["datacenter"]));
    let small = grid_of(&["a", "b", "c"], &["r1"], 1, |centre, _| {
        resources(if centre == "a" { 1000 } else { 9000 }, 0)
    });
    let heavy = web(9).spread("datacenter", 100, &[("a", 80)]).reserves(500, 0);
    expect!["a=2 b=4 c=3"].assert_eq(&placed(small, heavy, &["datacenter"]));
}

/// R-SPREAD-5: inside a domain the placement chooses.
#[test]
fn packing_happens_inside_domains() {
    let cluster = grid_of(&["a", "b"], &["r1"], 3, |_, _| resources(1000, 0));
    let packed = web(4).placement(Placement::Pack).reserves(500, 0).spread("datacenter", 1, &[]);
    let mut cluster = cluster;
    cluster.apply("shop", &[packed]);
    cluster.settle();
    expect!["shop-web-0@a-r1-0 shop-web-1@b-r1-0 shop-web-2@a-r1-0 shop-web-3@b-r1-0"]
        .assert_eq(&cluster.show());
}

/// R-SPREAD-7, R-PLACE-7: scaling down and up again ends where a fresh deployment would.
#[test]
fn scaling_keeps_the_shares() {
    let sized = |count| web(count).spread("datacenter", 50, &[("a", 60)]).spread("rack", 40, &[]);
    let mut cluster = grid(&["a", "b"], &["r1", "r2"], 3);
    let mut shown = Vec::new();
    for count in [20, 10, 5, 15] {
        cluster.apply("shop", &[sized(count)]);
        cluster.settle();
        shown.push(show(&cluster, &["datacenter", "rack"]));
    }
    expect![[r#"
        a/r1=6 a/r2=6 b/r1=4 b/r2=4
        a/r1=3 a/r2=3 b/r1=2 b/r2=2
        a/r1=2 a/r2=1 b/r1=1 b/r2=1
        a/r1=5 a/r2=4 b/r1=3 b/r2=3"#]]
    .assert_eq(&shown.join("\n"));
}

/// R-CONS-3: with 3G asked for, the machine with 4G free and not the one with 6G.
#[test]
fn packing_leaves_little_capacity_unused() {
    let mut cluster = Cluster::empty();
    for (host, memory) in [("n1", 6 << 30), ("n2", 4 << 30), ("n3", 2 << 30)] {
        cluster.join_with(host, resources(0, memory));
    }
    cluster.pass();
    let asks = web(1).with(|spec| spec.scheduling.minimum = resources(0, 3 << 30));
    cluster.apply("shop", &[asks]);
    cluster.settle();
    expect!["shop-web-0@n2"].assert_eq(&cluster.show());
}

/// R-CONS-4: a change of the policy moves no replica.
#[test]
fn placed_replicas_are_not_affected() {
    let mut cluster = grid(&["a", "b"], &["r1"], 2);
    cluster.apply("shop", &[web(4)]);
    cluster.settle();
    let before = cluster.show();
    cluster.apply("shop", &[web(4).constrained("datacenter", Operator::Equal, "a")]);
    cluster.settle();
    assert_eq!(cluster.show(), before);
    cluster.apply("shop", &[web(6).constrained("datacenter", Operator::Equal, "a")]);
    cluster.settle();
    expect!["a=4 b=2"].assert_eq(&show(&cluster, &["datacenter"]));
}

/// R-SEL-1, R-CONS-7, R-LOOP-6: every node says every rule that keeps a replica off it.
#[test]
fn refusals_name_every_rule() {
    let mut cluster = grid(&["a", "b"], &["r1"], 1);
    cluster.set_availability("b-r1-0", Availability::Cordoned);
    let picky = web(2)
        .with(|spec| {
            spec.scheduling.selectors = ["worker", "gpu"].map(str::to_owned).into();
            spec.scheduling.minimum = resources(2000, 0);
        })
        .constrained("node.datacenter", Operator::NotEqual, "a");
    cluster.apply("shop", &[picky]);
    let plan = cluster.pass();
    let [entry] = &plan.report.unplaced[..] else { panic!("{:?}", plan.report) };
    let show = |node: &jaco_scheduler::report::NodeVerdict| {
        let rules: Vec<_> = node.failed.iter().map(ToString::to_string).collect();
        format!("{}: {}", node.hostname, rules.join("; "))
    };
    expect![[r#"
        a-r1-0: carries no label "gpu"; does not satisfy node.datacenter != a; has less left than 2000m of cpu and 0 B of memory
        b-r1-0: cordoned; carries no label "gpu"; has less left than 2000m of cpu and 0 B of memory"#]].assert_eq(&entry.nodes.iter().map(show).collect::<Vec<_>>().join("\n"));
    expect!["2 no_eligible_node below_minimum=2 constraint_fails=1 cordoned=1 missing_label=2"]
        .assert_eq(&cluster.reasons("shop", "web"));
}

/// R-SEL-2: a global service runs on the nodes that carry its labels, and leaves with them.
#[test]
fn selectors_make_dedicated_nodes() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.join_as("n2", resources(0, 0), &[("prometheus", "")]);
    let service = service("web", "p:1")
        .placement(Placement::Global)
        .with(|spec| spec.scheduling.selectors = ["prometheus".to_owned()].into());
    cluster.apply("shop", &[service]);
    cluster.settle();
    expect!["shop-web-n2@n2"].assert_eq(&cluster.show());
}

/// Sets the zone of a node.
fn relabel(cluster: &mut Cluster, host: &str, zone: &str) {
    let node = cluster.state.nodes.values().find(|node| node.hostname.as_str() == host).unwrap();
    let set = [("zone".to_owned(), zone.to_owned())].into();
    cluster.commit(NodeSetLabels { set, ..NodeSetLabels::new(node.id) }.into());
}

/// All daemons are of this version.
fn set_version(cluster: &mut Cluster, version: &str) {
    for node in cluster.state.nodes.values().cloned().collect::<Vec<_>>() {
        let facts = jaco_types::NodeFacts { version: version.to_owned(), ..node.facts };
        cluster.commit(NodeReport::new(node.id, node.address, facts).into());
    }
}

/// R-SEL-2, R-CONS-7: a global service leaves a node whose labels its constraints do not allow any more, and comes back with
/// them; what the node itself is makes no replica move, and neither does a label where the service is not global.
#[test]
fn global_services_follow_labels() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.join_as("n2", resources(0, 0), &[("zone", "b")]);
    cluster.join_as("n3", resources(0, 0), &[("zone", "b")]);
    let in_b = |service: Service| {
        service.with(|spec| {
            spec.scheduling.constraints = vec![
                constraint("node.zone", Operator::Equal, "b"),
                constraint("node.version", Operator::Equal, "1.0.0"),
            ];
        })
    };
    set_version(&mut cluster, "1.0.0");
    cluster.apply(
        "shop",
        &[
            in_b(service("gl", "p:1").placement(Placement::Global)),
            in_b(service("web", "w:1").replicas(2)),
        ],
    );
    cluster.settle();
    expect!["shop-gl-n2@n2 shop-gl-n3@n3 shop-web-0@n2 shop-web-1@n3"].assert_eq(&cluster.show());
    set_version(&mut cluster, "2.0.0");
    relabel(&mut cluster, "n2", "a");
    cluster.settle();
    expect!["shop-gl-n3@n3 shop-web-0@n2 shop-web-1@n3"].assert_eq(&cluster.show());
    set_version(&mut cluster, "1.0.0");
    relabel(&mut cluster, "n2", "b");
    cluster.settle();
    expect!["shop-gl-n2@n2 shop-gl-n3@n3 shop-web-0@n2 shop-web-1@n3"].assert_eq(&cluster.show());
}

/// R-SEL-2, R-ROLL-8: where an apply changes the constraints of a global service, what serves is not stopped at once: it is
/// replaced step by step, and leaves the nodes that are not allowed.
#[test]
fn global_services_leave_step_by_step() {
    let mut cluster = Cluster::of(&["n1"]);
    cluster.join_as("n2", resources(0, 0), &[("zone", "a")]);
    cluster.join_as("n3", resources(0, 0), &[("zone", "b")]);
    let in_zone = |image: &str, zone: &str| {
        let zone = constraint("node.zone", Operator::Equal, zone);
        let service = service("gl", image).placement(Placement::Global);
        service.with(|spec| spec.scheduling.constraints = vec![zone])
    };
    cluster.apply("shop", &[in_zone("p:1", "a")]);
    cluster.settle();
    expect!["shop-gl-n2@n2"].assert_eq(&cluster.show());
    cluster.apply("shop", &[in_zone("p:2", "b")]);
    cluster.pass();
    expect!["shop-gl-n2@n2 shop-gl-n3@n3"].assert_eq(&cluster.show());
    cluster.settle();
    expect!["shop-gl-n3@n3"].assert_eq(&cluster.show());
}

/// R-CONS-7: the nodes that suit best come first, and when they are full, the others.
#[test]
fn affinities_are_preferences() {
    let cluster = grid_of(&["a", "b"], &["r1"], 2, |_, _| resources(1000, 0));
    let prefers_b = web(6).reserves(500, 0).with(|spec| {
        let constraint = constraint("datacenter", Operator::Equal, "b");
        spec.scheduling.affinities.push(Affinity { constraint, weight: 50 });
    });
    expect!["a=2 b=4"].assert_eq(&placed(cluster, prefers_b, &["datacenter"]));
}

/// R-CONS-7: the operators, each where it holds and where it does not.
#[test]
fn operators_compare() {
    let mut cluster = Cluster::empty();
    let labels = [("cores", "8"), ("kernel", "5.10.2"), ("tags", "ssd, gpu"), ("zone", "b")];
    cluster.join_as("n1", resources(0, 0), &labels);
    let node = cluster.state.nodes.values().next().unwrap();
    let check = |attribute: &str, operator, yes: &[&str], no: &[&str]| {
        let holds = |value| holds(node, &constraint(attribute, operator, value));
        assert!(yes.iter().all(|value| holds(value)), "{attribute} {operator:?} {yes:?}");
        assert!(!no.iter().any(|value| holds(value)), "{attribute} {operator:?} {no:?}");
    };
    check("${node.zone}", Operator::Equal, &["b"], &["a", ""]);
    check("node.hostname", Operator::Equal, &["n1"], &["n2"]);
    check("zone", Operator::NotEqual, &["a"], &["b"]);
    check("absent", Operator::NotEqual, &["a"], &[]);
    check("absent", Operator::Equal, &[], &["", "a"]);
    check("meta.cores", Operator::Greater, &["7"], &["8", "10"]);
    check("cores", Operator::GreaterOrEqual, &["8"], &["9", "16"]);
    check("cores", Operator::Less, &["16", "many"], &["8", "7"]);
    check("cores", Operator::LessOrEqual, &["8", "16"], &["7"]);
    check("zone", Operator::IsSet, &[""], &[]);
    check("absent", Operator::IsNotSet, &[""], &[]);
    check("zone", Operator::IsNotSet, &[], &[""]);
    check(
        "kernel",
        Operator::Version,
        &["5.10.2", ">= 5.4, < 6", "> 5.10", "!= 5"],
        &["5.10", "< 5"],
    );
    check("kernel", Operator::Version, &[], &["", "~> 5", "five", ">= 5, < 5.10.2"]);
    check("zone", Operator::Version, &[], &[">= 0", "!= 1"]);
    check("tags", Operator::SetContains, &["gpu", "gpu,ssd", ""], &["gpu,hdd"]);
    check("tags", Operator::SetContainsAny, &["gpu,hdd"], &["hdd", ""]);
}

proptest! {
    /// R-SPREAD-2, R-SPREAD-3: with room everywhere, each domain is within one of its share, and
    /// so is each level for itself.
    #[test]
    fn every_cell_is_within_one_of_its_share(
        count in 0..40u32,
        centres in 1..4usize,
        racks in 1..4usize,
        percents in prop::collection::vec(0..60u8, 0..2),
    ) {
        let names = ["a", "b", "c"];
        let targets: Vec<_> = names.into_iter().zip(percents).take(centres).collect();
        let mut cluster = grid(&names[..centres], &["r1", "r2", "r3"][..racks], 1);
        let service = web(count).spread("datacenter", 90, &targets).spread("rack", 10, &[]);
        cluster.apply("shop", std::slice::from_ref(&service));
        cluster.settle();
        let share = ideal(&service.0.scheduling.spread[0], &names[..centres]);
        let by_centre = cluster.domains("shop", "web", &["datacenter"]);
        for (value, share) in names.iter().zip(&share) {
            let has = by_centre[*value] as f64;
            let wants = share * f64::from(count);
            prop_assert!((has - wants).abs() < 1.0 + 1e-9, "{value}: {has} of {wants}");
            for rack in &["r1", "r2", "r3"][..racks] {
                let cell = cluster.domains("shop", "web", &["datacenter", "rack"]);
                let here = cell[&format!("{value}/{rack}")] as f64;
                let wants = has / racks as f64;
                prop_assert!((here - wants).abs() < 1.0, "{value}/{rack}: {here} of {wants}");
            }
        }
    }

    /// R-SPREAD-7: any way up and down, with room everywhere, ends like a fresh deployment.
    #[test]
    fn every_scaling_path_leads_to_the_same_shares(steps in prop::collection::vec(0..30u32, 1..6)) {
        let sized = |count| web(count).spread("datacenter", 50, &[("a", 60)]).spread("rack", 40, &[]);
        let mut cluster = grid(&["a", "b"], &["r1", "r2"], 2);
        for count in &steps {
            cluster.apply("shop", &[sized(*count)]);
            cluster.settle();
        }
        let mut fresh = grid(&["a", "b"], &["r1", "r2"], 2);
        fresh.apply("shop", &[sized(*steps.last().unwrap())]);
        fresh.settle();
        let dc = ["datacenter"];
        prop_assert_eq!(show(&cluster, &dc), show(&fresh, &dc));
        let labels = ["datacenter", "rack"];
        let (ours, theirs) =
            (cluster.domains("shop", "web", &labels), fresh.domains("shop", "web", &labels));
        for (domain, count) in ours {
            prop_assert!(count.abs_diff(theirs[&domain]) <= 1, "{domain}");
        }
    }

    /// R-LOOP-6 against brute force: with any reservations and capacities, a replica is left out
    /// only if no assignment of as many replicas exists, on up to 4 nodes and 6 replicas.
    #[test]
    fn replicas_that_fit_are_placed(
        capacities in prop::collection::vec((0..5u64, 0..5u64), 1..5),
        needs in (1..4u64, 0..4u64),
        replicas in 0..7u32,
        placement in prop_oneof![Just(Placement::Spread), Just(Placement::Pack)],
        max in 0..4u32,
    ) {
        let mut cluster = Cluster::empty();
        for (number, (cpu, memory)) in capacities.iter().enumerate() {
            let labels = [("datacenter", if number % 2 == 0 { "a" } else { "b" })];
            cluster.join_as(&format!("n{number}"), resources(*cpu, *memory), &labels);
        }
        cluster.pass();
        let (cpu, memory) = needs;
        let service = web(replicas).placement(placement).reserves(cpu, memory);
        let service = service.with(|spec| spec.scheduling.max_per_node = NonZeroU32::new(max));
        cluster.apply("shop", &[service.spread("datacenter", 50, &[("b", 90)])]);
        cluster.settle();
        let fits = |(has_cpu, has_memory): &(u64, u64)| {
            let of = |has: u64, needs: u64| if has == 0 || needs == 0 { u64::MAX } else { has / needs };
            let most = NonZeroU32::new(max).map_or(u64::MAX, |max| u64::from(max.get()));
            of(*has_cpu, cpu).min(of(*has_memory, memory)).min(most)
        };
        let room = capacities.iter().map(fits).fold(0u64, u64::saturating_add);
        let expected = room.min(u64::from(replicas));
        prop_assert_eq!(cluster.state.slots.len() as u64, expected);
        cluster.advance(Millis(1), &[]);
    }
}

proptest! {
    /// R-PLACE-1 against brute force: no assignment that fits is more even, on up to 4 nodes with
    /// room for different numbers and up to 6 replicas. The bound on the objective is zero.
    #[test]
    fn no_assignment_is_more_even(rooms in prop::collection::vec(1..5u32, 1..5), replicas in 0..7u32) {
        let mut cluster = Cluster::empty();
        for (number, room) in rooms.iter().enumerate() {
            cluster.join_with(&format!("n{number}"), resources(u64::from(*room), 0));
        }
        cluster.pass();
        cluster.apply("shop", &[web(replicas).reserves(1, 0)]);
        cluster.settle();
        let ours = unevenness(cluster.counts("shop", "web").values().copied());
        let replicas = replicas.min(rooms.iter().sum());
        let best = assignments(&rooms, replicas).into_iter().map(|counts| unevenness(counts.into_iter()));
        prop_assert_eq!(Some(ours), best.min());
    }
}

/// The sum of squares: of all ways to share a number, the most even has the least.
fn unevenness(counts: impl Iterator<Item = usize>) -> usize {
    counts.map(|count| count * count).sum()
}

/// Every way to put so many replicas on nodes with room for so many each.
fn assignments(rooms: &[u32], replicas: u32) -> Vec<Vec<usize>> {
    let [room, rest @ ..] = rooms else {
        return if replicas == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let here = 0..=replicas.min(*room);
    let with = |count: u32| {
        let others = assignments(rest, replicas - count).into_iter();
        others.map(move |others| [vec![usize::try_from(count).unwrap()], others].concat())
    };
    here.flat_map(with).collect()
}

/// The share of each value, as a part of one.
fn ideal(criterion: &SpreadCriterion, values: &[&str]) -> Vec<f64> {
    let percent = |value: &&str| {
        let target = criterion.targets.iter().find(|target| target.value == *value)?;
        Some(f64::from(target.percent))
    };
    let listed: f64 = criterion.targets.iter().map(|target| f64::from(target.percent)).sum();
    let unlisted = values.iter().filter(|value| percent(value).is_none()).count() as f64;
    let weight = |value: &&str| match (criterion.targets.is_empty(), percent(value)) {
        (true, _) => 1.0,
        (false, Some(percent)) => percent,
        (false, None) => (100.0 - listed) / unlisted,
    };
    let total: f64 = values.iter().map(weight).sum();
    let part = |value| if total > 0.0 { weight(value) / total } else { 1.0 / values.len() as f64 };
    values.iter().map(part).collect()
}
