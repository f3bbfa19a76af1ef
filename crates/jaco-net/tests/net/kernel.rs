//! The kernel's tunnel, alone and together with one in a process. Only for kernels that have WireGuard: the machine of
//! [`crate::vm`] starts these.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jaco_dataplane::Topology;
use jaco_net::Namespace;
use jaco_types::{StateIndex, TunnelBackend};
use tokio::runtime::Runtime;

use crate::Test;
use crate::isolation::capture;
use crate::lab::{Lab, Site, ip, nft, run};
use crate::packets::{Receiver, arrives};
use crate::process::{Conversation, too_few};
use crate::rotation::{First, make_key, replace_keys, with_key};
use crate::scenario::{PORT, Scenario, address};
use crate::service::{Chosen, Service, hold, hold_all, runtime, status, tell};
use crate::steady::TWO_SITES;
use crate::underlay::{carried, find, passes, probed, unnoticed};

const TESTS: &[Test] = &[
    ("the_kernels_tunnel_is_chosen_where_there_is_one", the_kernels_tunnel_is_chosen),
    ("a_trial_that_was_cut_off_is_no_reason_against_the_kernel", a_trial_was_cut_off),
    ("both_tunnels_carry_packets_of_each_other", both_tunnels_carry_packets),
    ("a_killed_process_of_the_kernels_tunnel_is_not_noticed", killed_process_is_not_noticed),
    ("keys_of_both_tunnels_are_replaced_under_a_connection", keys_are_replaced),
    ("a_long_way_that_loses_packets_is_outlived", a_long_way_is_outlived),
    ("a_tunnel_gives_way_to_one_of_the_other_kind", a_tunnel_gives_way),
    ("a_tunnel_is_made_although_the_host_has_one_of_its_name", the_host_has_one_of_its_name),
    ("a_tunnel_whose_port_is_in_use_comes_once_it_is_free", port_is_in_use),
    ("a_peer_has_thousands_of_addresses", a_peer_has_thousands_of_addresses),
];

/// Tests of other modules whose subject is the tunnel: they show something else here, where both sites have the kernel's.
const WITH_THE_KERNELS: [&str; 12] = [
    "forged_packets_are_not_delivered",
    "changes_of_others_are_repaired",
    "what_is_not_planned_is_removed",
    "a_router_that_starts_again_takes_up_what_is_there",
    "a_killed_process_goes_on_with_its_plan_alone",
    "changes_lead_where_plans_do",
    "a_router_killed_between_changes_goes_on_rightly",
    "a_router_killed_while_its_key_is_replaced_goes_on_rightly",
    "a_cut_wire_is_named_and_outlived",
    "a_tunnel_follows_an_address_that_changes",
    "a_wire_of_1280_bytes_carries_full_packets",
    "a_site_joins_and_leaves",
];

/// All that are run where the kernel has WireGuard.
pub(crate) fn tests() -> Vec<Test> {
    let others = crate::ALL.concat();
    let named = |name: &&str| {
        let test = others.iter().find(|(other, _)| other == name);
        *test.unwrap_or_else(|| panic!("there is no test {name}"))
    };
    [TESTS, &WITH_THE_KERNELS.iter().map(named).collect::<Vec<_>>()].concat()
}

/// How long a process is away in whose place nothing is noticed: a userspace tunnel would be away as long.
const AWAY: Duration = Duration::from_secs(4);

/// Longer than a handshake of the kernel can be taken for an older one than that of a userspace tunnel.
const GIVES_WAY: Duration = Duration::from_secs(40);

/// How long packets take in each direction on the long way.
const DELAY: Duration = Duration::from_millis(50);

/// Whether the kernel can make WireGuard interfaces.
pub(crate) fn has_wireguard() -> bool {
    let ip = |arguments: &[&str]| {
        let mut command = Command::new("ip");
        command.args(arguments).stderr(Stdio::null()).status().unwrap().success()
    };
    ip(&["link", "add", "trial", "type", "wireguard"]) && ip(&["link", "del", "trial"])
}

/// Two sites that hold a plan of index 41, of which the first has the kernel's tunnel, and the second one that of its process.
struct Mixed {
    lab: Lab,
    runtime: Runtime,
    services: Vec<Service>,
    topology: Topology,
}

impl Mixed {
    fn new() -> Self {
        let scenario = Scenario::new(TWO_SITES);
        let (lab, topology) = (Lab::new(&scenario), scenario.topology());
        let chosen = lab.sites.values().zip([Chosen::ByItself, Chosen::Userspace]);
        let services: Vec<Service> =
            chosen.map(|(site, tunnel)| Service::start_on(site, tunnel)).collect();
        let runtime = hold_all(&services, &lab, &topology, 41);
        assert_eq!(lab.sites.values().map(kind).collect::<Vec<_>>(), ["wireguard", "tun"]);
        let mixed = Self { lab, runtime, services, topology };
        passes(&mixed.runtime, &mixed.lab);
        mixed
    }

    /// Bytes from the one to the other, and back over another connection.
    fn carries(&self, port: u16, bytes: usize) {
        let ends = [self.lab.container(1, 10), self.lab.container(2, 12)];
        let [there, back] = [12, 10].map(|last| SocketAddr::from((address(7, last), port)));
        assert_eq!(carried(ends[0], ends[1], there, bytes), bytes);
        assert_eq!(carried(ends[1], ends[0], back, bytes), bytes);
    }

    /// Starts the process of the first site in place of the one that was killed, and waits until it holds its plan.
    fn start_again(&mut self, tunnel: Chosen) {
        self.services[0] = Service::again_on(&self.lab.sites[&1], tunnel);
        self.runtime.block_on(async {
            let client = self.services[0].connect().await;
            status(&client, |status| status.applied() == Some(StateIndex(41))).await;
        });
    }
}

/// What kind of interface a site's tunnel is.
fn kind(site: &Site) -> &'static str {
    let shown = ip(&site.router(), "-d link show wg0");
    let is = |kind: &&&str| shown.lines().any(|line| line.trim().starts_with(**kind));
    ["wireguard", "tun"].iter().find(is).unwrap_or_else(|| panic!("{shown}"))
}

/// Nobody tells a router; it says which one it has, and the tunnel's port is open in the namespace of the engine and not in
/// its own.
fn the_kernels_tunnel_is_chosen() {
    let mixed = Mixed::new();
    let backends: Vec<_> = mixed.runtime.block_on(async {
        let mut backends = Vec::new();
        for service in &mixed.services {
            backends.push(service.connect().await.status().borrow().backend());
        }
        backends
    });
    assert_eq!(backends, [TunnelBackend::Kernel, TunnelBackend::Userspace]);
    let open = |namespace: &Namespace| {
        let table =
            |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap();
        let sockets = namespace.run(|| table("udp") + &table("udp6")).unwrap();
        sockets.contains(&format!(":{PORT:04X} "))
    };
    for site in mixed.lab.sites.values() {
        assert!(open(&site.engine) && !open(&site.router()), "site {}", site.number);
    }
}

/// A process that is killed while it tries whether the kernel can leaves an interface behind.
fn a_trial_was_cut_off() {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::new(&scenario);
    let site = lab.sites.get_mut(&1).unwrap();
    ip(&site.router(), "link add wgtrial type wireguard");
    site.start();
    let begun = &site.process.as_ref().unwrap().begun;
    assert!(begun.contains("backend=Kernel"), "{begun}");
    assert!(!ip(&site.router(), "-o link").contains("wgtrial"));
}

/// NET-10: full packets pass in both directions, whoever begins, and nothing is on the wire in clear.
fn both_tunnels_carry_packets() {
    let mixed = Mixed::new();
    let wire = capture(&mixed.lab.wire, "wire", || mixed.carries(7600, 1 << 19));
    assert!(wire.len() > 1 << 20, "{} bytes", wire.len());
    // What is sent is full of the same byte.
    assert!(!wire.windows(32).any(|part| part == [3; 32]));
    find(&mixed.runtime, &mixed.lab, |peer| peer.answered_full && peer.hears_full);
}

/// `kill -9`: the kernel's tunnel goes on as if nothing had happened, also for connections that begin meanwhile, and the
/// next process changes nothing of it.
fn killed_process_is_not_noticed() {
    let mut mixed = Mixed::new();
    let router = mixed.lab.sites[&1].router();
    let state = || {
        let made = ["-d link show wg0", "addr show wg0", "route"].map(|what| ip(&router, what));
        (made, nft(&router, "list ruleset"))
    };
    let before = state();
    let conversation = Conversation::begin(&mixed.lab, 7610);
    thread::sleep(Duration::from_millis(300));
    mixed.services[0].kill();
    thread::sleep(AWAY);
    mixed.carries(7620, 1 << 16);
    assert_eq!(state(), before);
    let (count, killed) = conversation.end();
    assert!(count > too_few() && killed < unnoticed(), "{count} messages, {killed:?}");
    let conversation = Conversation::begin(&mixed.lab, 7611);
    mixed.start_again(Chosen::ByItself);
    thread::sleep(Duration::from_secs(1));
    let (count, started) = conversation.end();
    println!("longest pause: killed {killed:.0?}, started again {started:.0?}");
    assert!(count > too_few() && started < unnoticed(), "{count} messages, {started:?}");
    assert_eq!(state(), before);
}

/// NET-13, at either end, whoever is told first.
fn keys_are_replaced() {
    let mixed = Mixed::new();
    let Mixed { lab, runtime, services, topology } = &mixed;
    let cases = [
        (1, First::Both),
        (1, First::Own),
        (1, First::Others),
        (2, First::Both),
        (2, First::Own),
        (2, First::Others),
    ];
    replace_keys(runtime, lab, services, topology.clone(), &cases);
}

/// Packets take 50 ms in each direction and one of a hundred is lost: connections carry all bytes, probes say how long the way
/// is, and keys are replaced at either end without a reset.
fn a_long_way_is_outlived() {
    let mixed = Mixed::new();
    let Mixed { lab, runtime, services, .. } = &mixed;
    for port in ["w1", "w2"] {
        let delay = DELAY.as_millis();
        let line = format!("qdisc add dev {port} root netem delay {delay}ms loss 1%");
        run(&lab.wire, Command::new("tc").args(line.split_whitespace()));
    }
    passes(runtime, lab);
    let there_and_back = u64::try_from(2 * DELAY.as_micros()).unwrap();
    let found = probed(runtime, lab);
    let answers: Vec<u64> = found.iter().filter_map(|peer| peer.answered_us).collect();
    assert!(answers.iter().all(|answer| *answer >= there_and_back), "{found:?}");
    mixed.carries(7630, 1 << 17);
    let conversation = Conversation::begin(lab, 7640);
    let mut topology = mixed.topology.clone();
    for (index, own) in [(42, 1), (43, 2)] {
        let next = make_key(runtime, &lab.sites[&own]);
        topology = with_key(&topology, own, next);
        runtime.block_on(async {
            for site in [1, 2] {
                tell(&services[usize::from(site) - 1], index, &topology, site).await;
            }
        });
        let again = passes(runtime, lab);
        println!("site {own}: passes again after {again:.0?}");
    }
    thread::sleep(Duration::from_secs(1));
    let (count, longest) = conversation.end();
    println!("longest pause {longest:.0?}, {count} messages");
    assert!(count > too_few() && longest > 2 * DELAY, "{count} messages, {longest:?}");
}

/// A process that gets another kind of tunnel than the one before it makes it anew. The kernel's comes later: WireGuard knows
/// the newest handshake by its time, which the kernel counts with 10 leap seconds and the userspace tunnel with 37. So what
/// the kernel begins is taken for an old one for 27 s, if the other end does not begin, as it does after 15 s without an answer.
fn a_tunnel_gives_way() {
    let mut mixed = Mixed::new();
    for (port, tunnel, expected) in
        [(7650, Chosen::Userspace, "tun"), (7660, Chosen::ByItself, "wireguard")]
    {
        mixed.services[0].kill();
        let begun = Instant::now();
        mixed.start_again(tunnel);
        assert_eq!(kind(&mixed.lab.sites[&1]), expected);
        while !probed(&mixed.runtime, &mixed.lab).iter().all(|peer| peer.answered_full) {
            assert!(begun.elapsed() < GIVES_WAY, "{expected}");
        }
        println!("{expected}: passes after {:.0?}", begun.elapsed());
        mixed.carries(port, 1 << 16);
    }
}

/// The namespace of the engine may have a VPN of its own, whose interface has the name that everybody gives it.
fn the_host_has_one_of_its_name() {
    let scenario = Scenario::new(TWO_SITES);
    let mut lab = Lab::new(&scenario);
    let show = |lab: &Lab| ip(&lab.sites[&1].engine, "-d link show wg0");
    ip(&lab.sites[&1].engine, "link add wg0 type wireguard");
    let before = show(&lab);
    lab.sites.values_mut().for_each(Site::start);
    lab.apply(&scenario);
    let receiver = Receiver::new(lab.container(2, 12));
    assert!(arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12)));
    assert_eq!(show(&lab), before);
    // Left by a process that was killed before it gave it its name.
    let router = lab.sites[&1].router();
    ip(&router, "link del wg0");
    ip(&router, "link add jaconew type wireguard");
    let site = lab.sites.get_mut(&1).unwrap();
    assert!(site.ask("observe").starts_with("ok"));
    let applied = site.ask("apply");
    assert!(applied.starts_with("ok") && applied.contains("failed=0"), "{applied}");
    assert!(!ip(&router, "-o link").contains("jaconew"));
    assert!(arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12)));
}

/// NET-12: with either tunnel, it is said which port another program has, and nothing but that program's end is needed.
fn port_is_in_use() {
    let scenario = Scenario::new(TWO_SITES);
    let bind = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
    let runtime = runtime();
    for tunnel in [Chosen::ByItself, Chosen::Userspace] {
        let lab = Lab::new(&scenario);
        let site = &lab.sites[&1];
        let other = site.engine.run(bind).unwrap();
        let service = Service::start_on(site, tunnel);
        runtime.block_on(async {
            let mut client = service.connect().await;
            hold(&mut client, 41, &scenario, 1).await;
            let failed = status(&client, |status| status.error.is_some()).await;
            let error = failed.error.unwrap();
            assert!(error.contains("in use"), "{tunnel:?}: {error}");
            client.retry().await.unwrap();
            drop(other);
            let held = status(&client, |status| status.error.is_none()).await;
            assert_eq!(held.applied(), Some(StateIndex(41)), "{tunnel:?}");
        });
    }
}

/// Networks, and addresses that another site has in each.
const MANY: (u64, u8) = (10, 240);

/// NET-12: so many that neither a request to the kernel nor an answer of it has room for all. At rest nothing is written, also
/// after most are gone.
fn a_peer_has_thousands_of_addresses() {
    let scenario = |addresses: u8| {
        let mut lines = vec!["node 1".to_owned(), "node 2".to_owned()];
        for network in 1..=MANY.0 {
            lines.push(format!("network {network} external"));
            lines.push(format!("instance 1 d/web {network} 9 ready"));
            let others =
                (10..10 + addresses).map(|last| format!("instance 2 d/web {network} {last} ready"));
            lines.extend(others);
        }
        Scenario { lines }
    };
    let mut lab = Lab::new(&scenario(MANY.1));
    let site = lab.sites.get_mut(&1).unwrap();
    site.start();
    for addresses in [MANY.1, 20, MANY.1] {
        site.tell_cluster(&scenario(addresses));
        let applied = site.ask("apply");
        assert!(applied.contains("failed=0"), "{applied}");
        assert!(site.ask("observe").starts_with("ok"));
        let applied = site.ask("apply");
        assert!(applied.contains("steps=0 "), "{addresses}: {applied}");
        let routes = ip(&site.router(), "route show dev wg0");
        // Besides them the mesh.
        let expected = MANY.0 * u64::from(addresses) + 1;
        assert_eq!(routes.lines().count(), usize::try_from(expected).unwrap());
        assert!(routes.contains(&address(MANY.0, 9 + addresses).to_string()));
        assert!(routes.contains(&Ipv4Addr::new(10, 64, 0, 1).to_string()));
    }
}
