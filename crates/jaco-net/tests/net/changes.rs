//! A router that is told what changes (NET-13): it holds what it would hold if it were told whole plans, says when it
//! cannot, and goes on rightly wherever its process ends.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use jaco_dataplane::{PlanChange, SitePlan, plan};
use jaco_net::RouterClient;
use jaco_types::{NodeId, StateIndex};

use crate::Test;
use crate::lab::{Lab, Site, ip, nft};
use crate::names::addresses_of;
use crate::packets::{Receiver, arrives};
use crate::scenario::{Scenario, address};
use crate::service::{Service, started, status};
use crate::steady::TWO_SITES;

pub(crate) const TESTS: &[Test] = &[
    ("changes_lead_where_plans_do", changes_lead_where_plans_do),
    ("a_gap_is_answered_with_a_refusal", a_gap_is_answered_with_a_refusal),
    ("a_router_killed_between_changes_goes_on_rightly", killed_between_changes),
    ("changes_of_others_are_repaired_after_a_change", repaired_after_a_change),
];

/// How often a process is killed while it is told changes.
const KILLS: u64 = 6;

/// Changes that are told without waiting, before each of these.
const CHANGES: u8 = 40;

fn site_plan(scenario: &Scenario, site: u8) -> SitePlan {
    plan(&scenario.topology(), NodeId(site.into()))
}

/// The two sites with instances more on the second one, up to this address of network 7.
fn with(last: u8) -> Scenario {
    let more = (20..last).map(|last| format!("instance 2 shop/db 7 {last} ready\n"));
    Scenario::new(&format!("{TWO_SITES}{}", more.collect::<String>()))
}

/// Tells a change, and waits until it holds.
async fn tell(client: &mut RouterClient, from: (u64, &SitePlan), to: (u64, &SitePlan)) {
    let change = PlanChange::between(from.1, to.1);
    client.change(StateIndex(from.0), StateIndex(to.0), &change).await.unwrap();
    let held = status(client, |status| status.applied() == Some(StateIndex(to.0))).await;
    assert_eq!((held.error.clone(), held.failures().count()), (None, 0));
}

/// What the kernel has of a router.
fn kernel(site: &Site) -> [String; 4] {
    let router = site.router();
    let links = |text: String| {
        let names: BTreeSet<String> = text
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .map(|name| name.split('@').next().unwrap_or(name).to_owned())
            .collect();
        format!("{names:?}")
    };
    [
        ip(&router, "route").replace(" linkdown", ""),
        nft(&router, "list ruleset"),
        links(ip(&router, "-br link")),
        links(ip(&site.engine, "-br link")),
    ]
}

/// NET-13: instances, names, whole networks and peers come and go by changes; packets arrive, names are answered, and at
/// the end the kernel has what it had at the beginning.
fn changes_lead_where_plans_do() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, services) = started(&lab, &scenario, 41);
    let site = &lab.sites[&1];
    let before = kernel(site);
    let without = |line: &str| Scenario::new(&TWO_SITES.replace(line, ""));
    let steps = [
        with(22),
        scenario.clone(),
        without("instance 1 blog/web 8 11 ready"),
        without("instance 2 shop/db 7 12 ready"),
        without("node 2"),
        scenario.clone(),
    ];
    runtime.block_on(async {
        let mut client = services[0].connect().await;
        let mut held = (41, site_plan(&scenario, 1));
        for (index, step) in (42..).zip(&steps) {
            let next = site_plan(step, 1);
            tell(&mut client, (held.0, &held.1), (index, &next)).await;
            held = (index, next);
            let routes = ip(&site.router(), "route");
            for route in ["10.65.7.20", "10.65.7.12", "10.65.8.13"] {
                let planned = held.1.routes.contains_key(&route.parse().unwrap());
                assert_eq!(routes.contains(route), planned, "{index}: {routes}");
            }
            let names = addresses_of(lab.container(1, 10), address(7, 2), "db.");
            let mut planned: Vec<_> = held.1.routes.keys().copied().collect();
            planned.retain(|address| address.octets()[2] == 7);
            assert_eq!(BTreeSet::from_iter(names), BTreeSet::from_iter(planned), "{index}");
        }
    });
    assert_eq!(kernel(site), before);
    let receiver = Receiver::new(lab.container(2, 12));
    assert!(arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12)));
}

/// NET-13: a change of a plan that is not held changes nothing and is refused, until a whole plan comes.
fn a_gap_is_answered_with_a_refusal() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, services) = started(&lab, &scenario, 41);
    let before = kernel(&lab.sites[&1]);
    let (old, new) = (site_plan(&scenario, 1), site_plan(&with(22), 1));
    let change = PlanChange::between(&old, &new);
    runtime.block_on(async {
        let mut client = services[0].connect().await;
        client.change(StateIndex(42), StateIndex(43), &change).await.unwrap();
        let refused = status(&client, |status| status.refused().is_some()).await;
        let indices = (refused.refused(), refused.applied());
        assert_eq!(indices, (Some(StateIndex(43)), Some(StateIndex(41))));
        assert_eq!(kernel(&lab.sites[&1]), before);
        client.hold(StateIndex(44), &new).await.unwrap();
        let held = status(&client, |status| status.applied() == Some(StateIndex(44))).await;
        assert_eq!(held.refused(), None);
        // From there on changes are taken again.
        tell(&mut client, (44, &new), (45, &old)).await;
    });
    assert_eq!(kernel(&lab.sites[&1]), before);
}

/// `kill -9` while changes are told and carried out: the next process goes on with the plan of one of them, and the
/// kernel has exactly that one.
fn killed_between_changes() {
    let scenario = with(20);
    let lab = Lab::new(&scenario);
    let (runtime, mut services) = started(&lab, &scenario, 1);
    let plans: Vec<SitePlan> = (0..CHANGES).map(|more| site_plan(&with(20 + more), 1)).collect();
    let mut found = BTreeSet::new();
    for round in 1..=KILLS {
        let first = round * 1000;
        runtime.block_on(async {
            let mut client = services[0].connect().await;
            client.hold(StateIndex(first), &plans[0]).await.unwrap();
            status(&client, |status| status.applied() == Some(StateIndex(first))).await;
            for (base, pair) in (first..).zip(plans.windows(2)) {
                let change = PlanChange::between(&pair[0], &pair[1]);
                client.change(StateIndex(base), StateIndex(base + 1), &change).await.unwrap();
            }
            // Each time at another place of them.
            let place = StateIndex(first + round * u64::from(CHANGES) / (KILLS + 1));
            status(&client, |status| status.applied() >= Some(place)).await;
        });
        services[0].kill();
        services[0] = Service::start(&lab.sites[&1]);
        let held = runtime.block_on(async {
            let client = services[0].connect().await;
            status(&client, |status| status.applied().is_some()).await.applied().unwrap().0
        });
        assert!((first..first + u64::from(CHANGES)).contains(&held), "{held} after {first}");
        found.insert(held - first);
        let plan = &plans[usize::try_from(held - first).unwrap()];
        let routes = ip(&lab.sites[&1].router(), "route show dev wg0");
        let routes: BTreeSet<&str> =
            routes.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let planned: BTreeSet<String> = plan.routes.keys().map(ToString::to_string).collect();
        for route in &planned {
            assert!(routes.contains(route.as_str()), "{held}: {route} is missing of {routes:?}");
        }
        // Besides them the mesh.
        assert_eq!(routes.len(), planned.len() + 1, "{held}: {routes:?}");
    }
    println!("killed {KILLS} times, went on with changes {found:?} of {CHANGES}");
}

/// NET-12: what a change was carried out on is compared with the kernel like any other plan.
fn repaired_after_a_change() {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::started(&scenario);
    let more = with(21);
    let site = lab.sites.get_mut(&1).unwrap();
    site.tell_cluster(&more);
    let begun = Instant::now();
    assert!(site.ask("change").contains("steps=3 "), "a peer, a route and names");
    assert!(begun.elapsed() < Duration::from_secs(5));
    ip(&site.router(), &format!("route del {}/32", address(7, 20)));
    assert!(site.ask("observe").starts_with("ok"));
    assert!(site.ask("apply").contains("steps=1 "));
    assert!(site.ask("observe").starts_with("ok"));
    assert!(site.ask("apply").contains("steps=0 "));
}
