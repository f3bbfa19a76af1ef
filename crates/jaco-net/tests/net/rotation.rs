//! The key of a tunnel is replaced under an open connection, and by processes that are killed on the way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use jaco_dataplane::{PublicKey, Topology};
use jaco_net::{ProbeQuestion, ProbeReport, RouterClient};
use jaco_types::{NodeId, StateIndex};
use tokio::runtime::Runtime;

use crate::Test;
use crate::isolation::capture;
use crate::lab::{Lab, Site, ip};
use crate::process::{Conversation, too_few};
use crate::scenario::{Scenario, key};
use crate::service::{Service, hold_topology, started, status, tell};
use crate::steady::TWO_SITES;

pub(crate) const TESTS: &[Test] = &[
    ("a_key_is_replaced_under_a_connection", a_key_is_replaced_under_a_connection),
    ("a_router_killed_while_its_key_is_replaced_goes_on_rightly", killed_on_the_way),
];

/// The longest pause of a connection, besides the time in which only one of two routers knew the key.
const PAUSE: Duration = Duration::from_secs(1);

/// How long one of two routers alone knows the key, where that is tested.
const LAG: Duration = Duration::from_millis(400);

/// What all messages of a conversation are full of.
const SAID: [u8; 32] = [7; 32];

/// Who is told of the key first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum First {
    Both,
    Own,
    Others,
}

pub(crate) fn with_key(topology: &Topology, site: u8, key: PublicKey) -> Topology {
    let mut topology = topology.clone();
    let node = topology.nodes.get_mut(&NodeId(site.into())).unwrap();
    node.link.as_mut().unwrap().key = key;
    topology
}

pub(crate) fn make_key(runtime: &Runtime, site: &Site) -> PublicKey {
    runtime.block_on(RouterClient::make_key(&site.folder)).unwrap()
}

/// Both routers are asked at the same time.
fn probed(runtime: &Runtime, lab: &Lab) -> [ProbeReport; 2] {
    let question = ProbeQuestion { window_ms: 300, ..ProbeQuestion::default() };
    let ask = |site: u8| RouterClient::probe(&lab.sites[&site].folder, question.clone());
    let (first, second) = runtime.block_on(async { tokio::join!(ask(1), ask(2)) });
    [first.unwrap(), second.unwrap()]
}

/// A connection between two containers is not reset and pauses shortly, whoever is told of the key first; while only one
/// router knows it, probes say that no packet passes; the private key is in the file of its owner and nowhere else.
fn a_key_is_replaced_under_a_connection() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, services) = started(&lab, &scenario, 41);
    let cases = [(1, First::Both), (2, First::Own), (2, First::Others)];
    replace_keys(&runtime, &lab, &services, scenario.topology(), &cases);
}

/// Replaces keys of sites that hold this topology as the plan of index 41, one after the other.
pub(crate) fn replace_keys(
    runtime: &Runtime,
    lab: &Lab,
    services: &[Service],
    mut topology: Topology,
    cases: &[(u8, First)],
) {
    for (index, &(site, first)) in (42..).zip(cases) {
        let other = 3 - site;
        let port = 7000 + u16::try_from(index).unwrap();
        let conversation = Conversation::begin(lab, port);
        thread::sleep(Duration::from_millis(300));
        let before = topology.nodes[&NodeId(site.into())].link.as_ref().unwrap().key;
        let next = make_key(runtime, &lab.sites[&site]);
        assert_ne!(next, before);
        assert_eq!(make_key(runtime, &lab.sites[&site]), next, "who asks again gets the same");
        topology = with_key(&topology, site, next);
        let service = |site: u8| &services[usize::from(site) - 1];
        let own = async || tell(service(site), index, &topology, site).await;
        let others = async || tell(service(other), index, &topology, other).await;
        let apart = || {
            thread::sleep(LAG);
            let reports = probed(runtime, lab);
            assert!(reports.iter().all(|report| report.peers[0].answered_us.is_none()));
            // The other one has a peer of this key, or has not.
            let knows = reports[usize::from(other) - 1].peers[0].key == next.0;
            assert_eq!(knows, first == First::Others);
        };
        let begun = Instant::now();
        match first {
            First::Both => {
                runtime.block_on(async { tokio::join!(own(), others()) });
            }
            First::Own => {
                runtime.block_on(own());
                apart();
                runtime.block_on(others());
            }
            First::Others => {
                runtime.block_on(others());
                apart();
                runtime.block_on(own());
            }
        }
        let apart_for = begun.elapsed();
        // Long enough to see the pause end.
        thread::sleep(Duration::from_millis(1500));
        let (count, longest) = conversation.end();
        println!(
            "site {site}, {first:?}: told within {apart_for:.0?}, longest pause {longest:.0?}, {count} messages"
        );
        // What was lost is sent again after twice the time, each time.
        assert!(
            count > too_few() && longest < PAUSE + 2 * apart_for,
            "{count} messages, {longest:?}"
        );
        runtime.block_on(async {
            let status = status(&service(site).connect().await, |_| true).await;
            assert_eq!((status.key(), status.next_key()), (next, None));
        });
        is_secret(&lab.sites[&site]);
    }
}

/// The key on disk is its owner's, and is not in the plan beside it; there is no other one.
fn is_secret(site: &Site) {
    let file = site.folder.join("key");
    let private = fs::read(&file).unwrap();
    assert_ne!(private, [site.number; 32]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!site.folder.join("key.next").exists());
    let numbers: Vec<String> = private.iter().map(ToString::to_string).collect();
    let plan = fs::read_to_string(site.folder.join("plan")).unwrap();
    assert!(!plan.contains(&numbers.join(",")));
}

/// NET-10, NET-13: `kill -9` once the key is made, while the plan that names it is carried out, and in the other router:
/// each next process goes on alone with the key that its plan names, and nothing that was said is on the wire.
fn killed_on_the_way() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, mut services) = started(&lab, &scenario, 41);
    let (first, second) = (&lab.sites[&1], &lab.sites[&2]);
    let old = key(1).public_key();
    let conversation = Conversation::begin(&lab, 7100);
    let keys = |services: &[Service]| {
        runtime.block_on(async {
            let client = services[0].connect().await;
            let held = status(&client, |status| status.applied().is_some()).await;
            assert_eq!(held.error, None);
            (held.key(), held.next_key(), held.applied())
        })
    };
    let wire = capture(&lab.wire, "wire", || {
        let next = make_key(&runtime, first);
        services[0].kill();
        services[0] = Service::again(first);
        // The plan names the key before.
        assert_eq!(keys(&services), (old, Some(next), Some(StateIndex(41))));
        let topology = with_key(&scenario.topology(), 1, next);
        for pause in [0, 1, 4] {
            runtime.block_on(async {
                let mut client = services[0].connect().await;
                hold_topology(&mut client, 42, &topology, 1).await;
                tokio::time::sleep(Duration::from_millis(pause)).await;
            });
            services[0].kill();
            services[0] = Service::again(first);
            let (key, offered, applied) = keys(&services);
            // What was said last may not have been read, nothing else is possible.
            let taken = (next, None, Some(StateIndex(42)));
            let before = (old, Some(next), Some(StateIndex(41)));
            assert!([taken, before].contains(&(key, offered, applied)), "{key:?} {applied:?}");
        }
        runtime.block_on(async {
            tell(&services[0], 42, &topology, 1).await;
            let mut client = services[1].connect().await;
            hold_topology(&mut client, 42, &topology, 2).await;
        });
        services[1].kill();
        services[1] = Service::again(second);
        runtime.block_on(tell(&services[1], 42, &topology, 2));
        assert_eq!(keys(&services), (next, None, Some(StateIndex(42))));
        assert_eq!(fs::metadata(first.folder.join("key")).unwrap().len(), 32);
        assert!(!first.folder.join("key.next").exists());
        // Long enough to see the pause end.
        thread::sleep(Duration::from_millis(1500));
    });
    let (count, longest) = conversation.end();
    println!("killed five times: longest pause {longest:.0?}, {count} messages");
    assert!(count > too_few(), "{count}");
    let [here, there] = probed(&runtime, &lab);
    assert!(here.peers[0].answered_full && there.peers[0].answered_full);
    let in_clear = |bytes: &[u8]| bytes.windows(SAID.len()).any(|part| part == SAID);
    assert!(!in_clear(&wire) && wire.len() > 10_000, "{} bytes", wire.len());
    // The same search finds it where it is in clear.
    let conversation = Conversation::begin(&lab, 7101);
    let bridge = capture(&first.engine, "br-7", || thread::sleep(Duration::from_millis(100)));
    assert!(in_clear(&bridge), "the search finds nothing at all");
    conversation.end();
    assert!(ip(&first.router(), "route").contains("10.65.7.12"));
}
