//! Who reaches whom, with real packets.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use jaco_dataplane::{Delivery, Packet, deliver, plan};
use jaco_net::Namespace;
use jaco_types::NodeId;

use crate::Test;
use crate::lab::{Lab, ip, run};
use crate::packets::{Receiver, arrives, forge, send};
use crate::scenario::{Scenario, address};

pub(crate) const TESTS: &[Test] = &[
    ("members_of_a_network_reach_each_other", members_of_a_network_reach_each_other),
    ("forged_packets_are_not_delivered", forged_packets_are_not_delivered),
    ("arp_is_answered_for_members_only", arp_is_answered_for_members_only),
    ("a_router_answers_names_and_echo_only", a_router_answers_names_and_echo_only),
    ("nothing_crosses_the_wire_in_clear", nothing_crosses_the_wire_in_clear),
];

/// Three sites, two networks, one container in both. What edges serve is open to no container.
const THREE_SITES: &str = "
    node 1
    node 2
    node 3
    network 7 external
    network 8 internal
    instance 1 shop/web 7 10 ready
    instance 1 shop/app 7 11 ready
    instance 1 blog/web 8 16 ready
    instance 2 shop/db 7 12 ready
    instance 2 blog/web 8 13 ready
    instance 3 blog/db 8 14 ready
    instance 3 both/x 7,8 15 ready
    served 10
    served 13
    served 15
";

/// Site and last byte of each container with its networks.
const CONTAINERS: [(u8, u8, &[u64]); 7] = [
    (1, 10, &[7]),
    (1, 11, &[7]),
    (1, 16, &[8]),
    (2, 12, &[7]),
    (2, 13, &[8]),
    (3, 14, &[8]),
    (3, 15, &[7, 8]),
];

/// NET-7: each container reaches each other one in each network that they share, with its own address.
fn members_of_a_network_reach_each_other() {
    let lab = Lab::started(&Scenario::new(THREE_SITES));
    for (to_site, to, to_networks) in CONTAINERS {
        let receiver = Receiver::new(lab.container(to_site, to));
        for (from_site, from, from_networks) in CONTAINERS {
            let container = lab.container(from_site, from);
            for network in from_networks.iter().filter(|id| to_networks.contains(id) && from != to)
            {
                let (source, destination) = (address(*network, from), address(*network, to));
                assert!(
                    arrives(container, source, &receiver, destination),
                    "{source} on site {from_site} does not reach {destination} on site {to_site}"
                );
            }
        }
    }
}

/// NET-7: whatever a container sends in whose name ever, only members of its networks get it; and what the model of the
/// plans says of each packet is what the kernel does.
fn forged_packets_are_not_delivered() {
    let scenario = Scenario::new(THREE_SITES);
    let topology = scenario.topology();
    let plans = [1, 2, 3].map(|site| (NodeId(site), plan(&topology, NodeId(site)))).into();
    let lab = Lab::started(&scenario);
    let mesh = Ipv4Addr::new(10, 64, 0, 2);
    let sender = lab.container(1, 10);
    let honest = Receiver::new(lab.container(2, 12));
    assert!(arrives(sender, address(7, 10), &honest, address(7, 12)));
    let mut forged = 0;
    for (site, last, network) in [(2, 12, 7), (2, 13, 8), (3, 14, 8), (3, 15, 7), (3, 15, 8)] {
        let receiver =
            if last == 12 { None } else { Some(Receiver::new(lab.container(site, last))) };
        let receiver = receiver.as_ref().unwrap_or(&honest);
        let destination = address(network, last);
        // Own network: of another site, of nobody, gateway and router. The other network's. The mesh's.
        let mut sources: Vec<Ipv4Addr> = [12, 200, 1, 2].map(|last| address(7, last)).into();
        sources.extend([13, 14, 16, 2].map(|last| address(8, last)));
        sources.extend([mesh, Ipv4Addr::new(10, 64, 0, 1), Ipv4Addr::new(192, 0, 2, 2)]);
        if network == 8 {
            sources.push(address(7, 10));
        }
        for source in sources.into_iter().filter(|source| *source != destination) {
            let packet = Packet { source, destination };
            let model = deliver(&plans, NodeId(1), jaco_types::NetworkId(7), packet);
            assert!(!matches!(model, Delivery::Bridge { .. }), "{packet:?}: {model:?}");
            forge(sender, address(7, 2), source, destination);
            send(sender, source, destination, &format!("forged {packet:?}"));
            if source != address(7, 10) {
                ip(sender, &format!("addr del {source}/32 dev eth0"));
            }
            forged += 1;
        }
        // On the honest way once more, so that everything before it has arrived if it does.
        assert!(arrives(sender, address(7, 10), &honest, address(7, 12)));
        let found = receiver.collect(Duration::from_millis(200), |_| false);
        assert!(found.iter().all(|text| !text.contains("forged")), "{destination}: {found:?}");
    }
    assert!(forged > 40, "{forged}");
}

/// A router answers ARP for what is behind the tunnel and of the same network, and for nothing else.
fn arp_is_answered_for_members_only() {
    let lab = Lab::started(&Scenario::new(THREE_SITES));
    let sender = lab.container(1, 10);
    let answered = |own: Ipv4Addr, wanted: Ipv4Addr| {
        ip(sender, &format!("addr replace {own}/32 dev eth0"));
        ip(sender, &format!("route replace {wanted}/32 dev eth0 src {own}"));
        ip(sender, "neigh flush dev eth0");
        send(sender, own, wanted, "who are you");
        let known = || {
            let listed = ip(sender, &format!("neigh show to {wanted}"));
            (listed.contains("lladdr"), listed.contains("FAILED"))
        };
        // Three questions, a second apart each, and none was answered: it has failed.
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            match known() {
                (true, _) => return true,
                (_, true) => return false,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
        panic!("{wanted} is neither known nor failed");
    };
    assert!(answered(address(7, 10), address(7, 12)));
    assert!(answered(address(7, 10), address(7, 2)));
    // Of the other network, of the mesh, and in the name of others.
    for (own, wanted) in [
        (address(7, 10), address(8, 13)),
        (address(7, 10), Ipv4Addr::new(10, 64, 0, 1)),
        (address(7, 10), Ipv4Addr::new(10, 64, 0, 2)),
        (address(8, 16), address(8, 13)),
        (address(8, 16), address(7, 12)),
    ] {
        assert!(!answered(own, wanted), "{own} was answered for {wanted}");
    }
}

/// From a container a router is a resolver and an echo, on the address of its own network.
fn a_router_answers_names_and_echo_only() {
    let mut lab = Lab::started(&Scenario::new(THREE_SITES));
    let sender = &lab.sites[&1].containers[&10];
    let ping = |target: Ipv4Addr| {
        let mut command = Command::new("ping");
        command.args(["-c1", "-W1", &target.to_string()]).stdout(Stdio::null());
        sender.run(|| command.status().unwrap().success()).unwrap()
    };
    assert!(ping(address(7, 2)));
    ip(sender, &format!("route add {} via {}", address(8, 2), address(7, 2)));
    assert!(!ping(address(8, 2)));
    ip(sender, &format!("route add 10.64.0.0/16 via {}", address(7, 2)));
    assert!(!ping(Ipv4Addr::new(10, 64, 0, 1)) && !ping(Ipv4Addr::new(10, 64, 0, 2)));
    // A service of the router itself, as another port of it would be.
    let router = lab.sites[&1].router();
    let inside = Receiver::new(&router);
    for target in [address(7, 2), address(8, 2), Ipv4Addr::new(10, 64, 0, 1)] {
        send(sender, address(7, 10), target, "hello router");
    }
    assert!(ping(address(7, 2)));
    assert_eq!(inside.collect(Duration::from_millis(200), |_| true), [""; 0]);
    // Routers reach each other by echo, through the tunnel.
    run(&router, Command::new("ping").args(["-c1", "-W5", "10.64.0.2"]));
    lab.sites.clear();
}

/// NET-10: what containers say to each other is nowhere on the wire.
fn nothing_crosses_the_wire_in_clear() {
    let lab = Lab::started(&Scenario::new(THREE_SITES));
    let marker = "MARKER-7d3f0b2c-IN-CLEAR";
    let receiver = Receiver::new(lab.container(2, 12));
    assert!(arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12)));
    let wire = capture(&lab.wire, "wire", || {
        for number in 0..100 {
            let text = format!("{marker} {number}");
            send(lab.container(1, 10), address(7, 10), address(7, 12), &text);
        }
        let last = format!("{marker} 99");
        let found = receiver.collect(Duration::from_secs(5), |text| text == last);
        assert!(found.len() >= 100, "{}", found.len());
    });
    // The same search finds it where it is in clear.
    let bridge = capture(&lab.sites[&1].engine, "br-7", || {
        send(lab.container(1, 10), address(7, 10), address(7, 12), marker);
        receiver.collect(Duration::from_secs(5), |text| text == marker);
    });
    let has =
        |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has(&bridge, marker), "the search finds nothing at all");
    assert!(!has(&wire, "7d3f0b2c"));
    assert!(wire.len() > 100 * 60, "the wire was not captured: {} bytes", wire.len());
}

/// What passes an interface while `task` runs.
pub(crate) fn capture(namespace: &Namespace, interface: &str, task: impl FnOnce()) -> Vec<u8> {
    let file = namespace.path().with_extension("pcap");
    let mut command = Command::new("tcpdump");
    command.args(["-i", interface, "-U", "-n", "-s0", "-Z", "root", "-w"]).arg(&file);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = namespace.run(|| command.spawn().unwrap()).unwrap();
    // It says so once it listens.
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        assert!(std::io::BufRead::read_line(&mut said, &mut line).unwrap() > 0, "no capture");
    }
    task();
    // What has passed is on its way to the file for at most the time that the kernel collects it.
    std::thread::sleep(Duration::from_millis(1500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    child.wait().unwrap();
    std::fs::read(file).unwrap()
}
