//! What happens between the sites: the wire is cut, in one direction or both, takes less than it should, and a site comes
//! by another address, joins or leaves. Routers find each other again by themselves, and probes say what is broken.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use jaco_dataplane::Topology;
use jaco_net::{Namespace, PeerReport, ProbeQuestion, RouterClient};
use jaco_types::NodeId;
use tokio::runtime::Runtime;

use crate::Test;
use crate::lab::{Lab, ip, nft};
use crate::packets::{Receiver, arrives, send};
use crate::process::{Conversation, too_few};
use crate::scenario::{PORT, Scenario, address};
use crate::service::{started, started_with, tell};
use crate::steady::TWO_SITES;
use crate::vm;

pub(crate) const TESTS: &[Test] = &[
    ("a_cut_wire_is_named_and_outlived", a_cut_wire_is_named_and_outlived),
    ("a_tunnel_follows_an_address_that_changes", a_tunnel_follows_an_address_that_changes),
    ("a_wire_of_1280_bytes_carries_full_packets", a_wire_of_1280_bytes_carries_full_packets),
    ("a_site_joins_and_leaves", a_site_joins_and_leaves),
];

/// Longer than a handshake that was lost takes to be tried again.
const PATIENCE: Duration = Duration::from_secs(15);

/// The longest that a message may take where nothing happens, on a machine that is busy, or emulated.
pub(crate) fn unnoticed() -> Duration {
    Duration::from_secs(if vm::is_emulated() { 2 } else { 1 })
}

/// What the routers of sites 1 and 2 find out about each other, asked at the same time.
pub(crate) fn probed(runtime: &Runtime, lab: &Lab) -> [PeerReport; 2] {
    let question = ProbeQuestion { window_ms: 500, ..ProbeQuestion::default() };
    let ask = |site: u8| RouterClient::probe(&lab.sites[&site].folder, question.clone());
    let (first, second) = runtime.block_on(async { tokio::join!(ask(1), ask(2)) });
    [first, second].map(|report| {
        let report = report.unwrap();
        assert_eq!(report.error, None);
        report.peers.into_iter().next().unwrap()
    })
}

/// The two sites with an instance more on the second one.
fn with_another(last: u8) -> Scenario {
    Scenario::new(&format!("{TWO_SITES}instance 2 shop/db 7 {last} ready\n"))
}

/// Asks until both find it so.
pub(crate) fn find(
    runtime: &Runtime,
    lab: &Lab,
    is_so: impl Fn(&PeerReport) -> bool,
) -> ([PeerReport; 2], Duration) {
    let begun = Instant::now();
    loop {
        let found = probed(runtime, lab);
        if found.iter().all(&is_so) {
            return (found, begun.elapsed());
        }
        assert!(begun.elapsed() < PATIENCE, "{found:?}");
    }
}

/// Waits until full packets pass in both directions, and returns how long that took.
pub(crate) fn passes(runtime: &Runtime, lab: &Lab) -> Duration {
    find(runtime, lab, |peer| peer.answered_full).1
}

/// Who hears whom, small packets that is, and whether any is answered.
fn heard(found: &[PeerReport; 2]) -> ([bool; 2], bool) {
    let [first, second] = found;
    let answered = found.iter().any(|peer| peer.answered_us.is_some());
    ([first.hears, second.hears], answered)
}

/// A wire that is cut in both directions, in one, and whose interface is down so that nothing can even be sent: each is
/// told apart, an open connection goes on afterwards, and a plan that changed meanwhile holds on both sides.
fn a_cut_wire_is_named_and_outlived() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, services) = started(&lab, &scenario, 41);
    passes(&runtime, &lab);
    let conversation = Conversation::begin(&lab, 7200);
    let drop_udp = format!(
        "table inet cut {{ chain input {{ type filter hook input priority 0; udp dport {PORT} drop; }}; }}"
    );
    let engines = [&lab.sites[&1].engine, &lab.sites[&2].engine];
    // In both directions, while a plan changes.
    ip(&lab.wire, "link set w2 down");
    assert_eq!(heard(&probed(&runtime, &lab)), ([false, false], false));
    let more = with_another(20);
    runtime.block_on(tell(&services[0], 42, &more.topology(), 1));
    ip(&lab.wire, "link set w2 up");
    runtime.block_on(tell(&services[1], 42, &more.topology(), 2));
    let both = passes(&runtime, &lab);
    // From the first to the second, then the other way.
    let mut one_way = Vec::new();
    for (deaf, expected) in [(1, [true, false]), (0, [false, true])] {
        nft(engines[deaf], &drop_udp);
        assert_eq!(heard(&probed(&runtime, &lab)), (expected, false), "{deaf} hears nothing");
        nft(engines[deaf], "delete table inet cut");
        one_way.push(passes(&runtime, &lab));
    }
    // Without a route the kernel refuses to send.
    ip(engines[1], "link set eth0 down");
    assert_eq!(heard(&probed(&runtime, &lab)), ([false, false], false));
    ip(engines[1], "link set eth0 up");
    let down = passes(&runtime, &lab);
    thread::sleep(Duration::from_millis(500));
    let (count, longest) = conversation.end();
    println!(
        "passes again after {both:.0?}, one way {one_way:.0?}, interface down {down:.0?}; longest pause {longest:.0?}, {count} messages"
    );
    assert!(count > too_few());
}

/// A site that comes by another address is found by its own packets, before any plan says so; a plan that does say so
/// changes nothing then, and is enough where both sites have moved.
fn a_tunnel_follows_an_address_that_changes() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    let (runtime, services) = started(&lab, &scenario, 41);
    passes(&runtime, &lab);
    let conversation = Conversation::begin(&lab, 7300);
    thread::sleep(Duration::from_millis(300));
    let moves = |site: u8, from: &str, to: &str| {
        let engine = &lab.sites[&site].engine;
        ip(engine, &format!("addr del {from}/24 dev eth0"));
        ip(engine, &format!("addr add {to}/24 dev eth0"));
    };
    moves(2, "192.0.2.2", "192.0.2.22");
    let alone = passes(&runtime, &lab);
    let endpoint = |found: [PeerReport; 2]| found.map(|peer| peer.endpoint.unwrap().to_string());
    let heard_at = ["192.0.2.22:51820", "192.0.2.1:51820"];
    assert_eq!(endpoint(probed(&runtime, &lab))[0], heard_at[0]);
    // A plan that changes something else of it leaves it there.
    let mut topology = with_another(20).topology();
    runtime.block_on(tell(&services[0], 42, &topology, 1));
    assert_eq!(endpoint(probed(&runtime, &lab)), heard_at);
    let declare = |topology: &mut Topology, site: u64, address: &str| {
        let link = topology.nodes.get_mut(&NodeId(site)).unwrap().link.as_mut().unwrap();
        link.endpoint = Some(format!("{address}:{PORT}").parse().unwrap());
    };
    declare(&mut topology, 2, "192.0.2.22");
    runtime.block_on(tell(&services[0], 43, &topology, 1));
    assert_eq!(endpoint(probed(&runtime, &lab)), heard_at);
    // Both at once, without a packet in between by which the one would hear of the other: neither knows where the other is.
    ip(&lab.wire, "link set w2 down");
    moves(1, "192.0.2.1", "192.0.2.11");
    moves(2, "192.0.2.22", "192.0.2.23");
    ip(&lab.wire, "link set w2 up");
    assert_eq!(heard(&probed(&runtime, &lab)), ([false, false], false));
    declare(&mut topology, 1, "192.0.2.11");
    declare(&mut topology, 2, "192.0.2.23");
    runtime.block_on(async {
        for site in [1, 2] {
            tell(&services[usize::from(site) - 1], 44, &topology, site).await;
        }
    });
    let both = passes(&runtime, &lab);
    thread::sleep(Duration::from_millis(500));
    let (count, longest) = conversation.end();
    println!(
        "one moved: {alone:.0?}, both: {both:.0?}; longest pause {longest:.0?}, {count} messages"
    );
    assert!(count > too_few());
}

/// Sends so many bytes over a connection of its own, and returns how many arrived.
pub(crate) fn carried(from: &Namespace, to: &Namespace, target: SocketAddr, bytes: usize) -> usize {
    let listener = to.run(|| TcpListener::bind(target).unwrap()).unwrap();
    let reader = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).map_or(0, |_| all.len())
    });
    let mut stream = from.run(|| TcpStream::connect(target).unwrap()).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&vec![3; bytes]).unwrap();
    drop(stream);
    reader.join().unwrap()
}

/// Where the wire takes 1280 bytes and the cluster's MTU is 80 less, packets of full size pass; with an MTU that is
/// larger only small ones do, and probes say so.
fn a_wire_of_1280_bytes_carries_full_packets() {
    let scenario = Scenario::new(TWO_SITES);
    let lab = Lab::new(&scenario);
    for site in lab.sites.values() {
        ip(&lab.wire, &format!("link set w{} mtu 1280", site.number));
        ip(&site.engine, "link set eth0 mtu 1280");
        ip(&site.engine, "link set br-7 mtu 1200");
        for container in site.containers.values() {
            ip(container, "link set eth0 mtu 1200");
        }
    }
    let mut topology = scenario.topology();
    topology.mesh.as_mut().unwrap().mtu = 1200;
    let (runtime, services) = started_with(&lab, &topology, 41);
    passes(&runtime, &lab);
    let found = probed(&runtime, &lab);
    assert!(found.iter().all(|peer| peer.path_mtu == Some(1280)), "{found:?}");
    let target = SocketAddr::from((address(7, 12), 7400));
    assert_eq!(carried(lab.container(1, 10), lab.container(2, 12), target, 1 << 20), 1 << 20);
    // As behind another router: the near end takes more than the far one, which says nothing.
    for site in lab.sites.values() {
        ip(&site.engine, "link set eth0 mtu 1500");
    }
    let large = scenario.topology();
    runtime.block_on(async {
        for (service, site) in services.iter().zip([1, 2]) {
            tell(service, 42, &large, site).await;
        }
    });
    let (found, _) = find(&runtime, &lab, |peer| peer.answered_us.is_some());
    let seen =
        |peer: &PeerReport| (peer.answered_us.is_some(), peer.answered_full, peer.hears_full);
    assert!(found.iter().all(|peer| seen(peer) == (true, false, false)), "{found:?}");
}

const THREE_SITES: &str = "
    node 1
    node 2
    node 3
    network 7 external
    instance 1 shop/web 7 10 ready
    instance 2 shop/db 7 12 ready
    instance 3 shop/db 7 14 ready
";

/// A site that joins is reached by all; one that was removed neither reaches anybody nor is reached, although its own
/// router still holds its plan. The others notice nothing.
fn a_site_joins_and_leaves() {
    let all = Scenario::new(THREE_SITES);
    let two = THREE_SITES.replace("node 3", "").replace("instance 3 shop/db 7 14 ready", "");
    let two = Scenario::new(&two).topology();
    let lab = Lab::new(&all);
    let (runtime, services) = started_with(&lab, &two, 41);
    let conversation = Conversation::begin(&lab, 7500);
    let hold = |index: u64, topology: &Topology, sites: &[u8]| {
        runtime.block_on(async {
            for site in sites {
                tell(&services[usize::from(*site) - 1], index, topology, *site).await;
            }
        });
    };
    let receivers = [(1, 10), (2, 12), (3, 14)]
        .map(|(site, last)| (site, last, Receiver::new(lab.container(site, last))));
    let ways = || {
        let pairs = receivers.iter().flat_map(|from| receivers.iter().map(move |to| (from, to)));
        pairs.filter(|(from, to)| (from.0 == 3) != (to.0 == 3))
    };
    hold(42, &all.topology(), &[1, 2, 3]);
    for ((site, from, _), (_, to, receiver)) in ways() {
        let container = lab.container(*site, *from);
        assert!(arrives(container, address(7, *from), receiver, address(7, *to)), "{from} to {to}");
    }
    hold(43, &two, &[1, 2]);
    for ((site, from, _), (_, to, _)) in ways() {
        let text = "after it was removed";
        send(lab.container(*site, *from), address(7, *from), address(7, *to), text);
    }
    for (_, _, receiver) in &receivers {
        let found = receiver.collect(Duration::from_millis(300), |_| false);
        assert!(found.iter().all(|text| !text.contains("removed")), "{found:?}");
    }
    // And back again.
    hold(44, &all.topology(), &[1, 2]);
    let back = lab.container(1, 10);
    assert!(arrives(back, address(7, 10), &receivers[2].2, address(7, 14)));
    let (count, longest) = conversation.end();
    println!("between the two others: longest pause {longest:.0?}, {count} messages");
    assert!(count > too_few() && longest < unnoticed(), "{longest:?}");
}
