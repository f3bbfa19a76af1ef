//! What edges reach, with real packets: connections out of routers, as the edge in each makes them.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use jaco_dataplane::{Delivery, deliver_of_router, plan};
use jaco_net::Namespace;
use jaco_types::NodeId;
use socket2::{Domain, Socket, Type};

use crate::Test;
use crate::lab::{Lab, ip, nft};
use crate::packets::{Receiver, arrives};
use crate::process::{Conversation, too_few};
use crate::scenario::{Scenario, address};

pub(crate) const TESTS: &[Test] = &[
    ("edges_of_all_sites_reach_what_they_serve", edges_of_all_sites_reach_what_they_serve),
    ("large_datagrams_of_edges_arrive_whole", large_datagrams_of_edges_arrive_whole),
    ("edges_with_one_port_are_kept_apart", edges_with_one_port_are_kept_apart),
    ("edges_reach_nothing_else", edges_reach_nothing_else),
    ("no_container_reaches_the_ports_of_an_edge", no_container_reaches_the_ports_of_an_edge),
    ("only_connections_of_edges_are_tracked", only_connections_of_edges_are_tracked),
    ("an_edges_connection_outlives_the_routers_processes", outlives_the_routers_processes),
    ("what_others_change_of_the_way_of_edges_is_repaired", changes_are_repaired),
];

/// The third site has no instance and no port; the first one has a part in network 7 alone.
const SERVED: &str = "
    node 1
    node 2
    node 3
    network 7 external
    network 8 internal
    instance 1 shop/web 7 10 ready
    instance 2 shop/db 7 12 ready
    instance 2 blog/web 8 13 ready
    instance 2 blog/db 8 14 ready
    instance 2 shop/cache 7 15 ready
    instance 2 both/x 7,8 16 ready
    served 12
    served 13
    served 16
";

/// What edges serve, as network and last byte.
const TARGETS: [(u64, u8); 3] = [(7, 12), (8, 13), (7, 16)];

/// Longer than a handshake of the tunnel that was lost takes to be tried again.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long is waited for what must not come.
const SILENCE: Duration = Duration::from_millis(700);

/// Answers each connection with the address that it comes from.
fn serve(container: &Namespace, target: SocketAddr) {
    let listener = container.run(|| TcpListener::bind(target).unwrap()).unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, from)) = listener.accept() {
            // Who asked may be gone.
            drop(stream.write_all(from.to_string().as_bytes()));
        }
    });
}

/// What the server says of a connection; `None` if there is none in this time.
fn ask(from: &Namespace, target: SocketAddr, patience: Duration) -> Option<SocketAddr> {
    let connect = || TcpStream::connect_timeout(&target, patience);
    let mut stream = from.run(connect).unwrap().ok()?;
    stream.set_read_timeout(Some(patience)).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    Some(said.parse().unwrap())
}

/// The same over a tunnel that may still be shaking hands.
fn ask_until_answered(from: &Namespace, target: SocketAddr) -> SocketAddr {
    let begun = Instant::now();
    loop {
        if let Some(seen) = ask(from, target, Duration::from_secs(3)) {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{target} does not answer");
    }
}

/// NET-7: from each site, whether it has a port in the network or none at all. The container sees the router of its own
/// site, in its own network.
fn edges_of_all_sites_reach_what_they_serve() {
    let scenario = Scenario::new(SERVED);
    let lab = Lab::started(&scenario);
    for (network, last) in TARGETS {
        let target = SocketAddr::from((address(network, last), 8080));
        serve(lab.container(2, last), target);
        for site in lab.sites.values() {
            let seen = ask_until_answered(&site.router(), target);
            assert_eq!(seen.ip(), address(network, 2), "site {} to {target}", site.number);
        }
    }
    // The address that it comes with to the other site is that of the tunnel, although this site has a port there.
    let router = lab.sites[&1].router();
    let route = ip(&router, &format!("route get {}", address(7, 12)));
    assert!(route.contains("dev wg0 src 10.64.0.1 "), "{route}");
    assert!(!ip(&lab.sites[&3].router(), "-o link").contains("s7"));
}

/// Datagrams larger than a packet, in both directions, also between containers.
fn large_datagrams_of_edges_arrive_whole() {
    let lab = Lab::started(&Scenario::new(SERVED));
    let target = SocketAddr::from((address(8, 13), 8080));
    serve(lab.container(2, 13), target);
    ask_until_answered(&lab.sites[&3].router(), target);
    for (from, to, target) in [
        (lab.sites[&3].router(), lab.container(2, 13), address(8, 13)),
        (lab.sites[&2].router(), lab.container(2, 13), address(8, 13)),
        (
            Namespace::ensure(lab.container(1, 10).path()).unwrap(),
            lab.container(2, 12),
            address(7, 12),
        ),
    ] {
        let target = SocketAddr::from((target, 9000));
        let server = to.run(|| UdpSocket::bind(target).unwrap()).unwrap();
        let client = from.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap()).unwrap();
        [&server, &client].into_iter().for_each(|it| it.set_read_timeout(Some(PATIENCE)).unwrap());
        let sent: Vec<u8> = (0..9000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
        from.run(|| client.send_to(&sent, target).unwrap()).unwrap();
        let mut buffer = vec![0; 10_000];
        let (length, source) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], sent.as_slice());
        server.send_to(&sent, source).unwrap();
        let (length, answered) = client.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], answered), (sent.as_slice(), target));
    }
}

/// A connection from this port of a router.
fn connect_from(router: &Namespace, port: u16, target: SocketAddr) -> TcpStream {
    let connect = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into()).unwrap();
        socket.connect_timeout(&target.into(), PATIENCE).map(|()| TcpStream::from(socket))
    };
    router.run(connect).unwrap().unwrap_or_else(|error| panic!("port {port}: {error}"))
}

/// Edges that use the same port for the same instance at the same time each have their own connection. One of them keeps the
/// port; which ones the others get is left to chance, so many are tried.
fn edges_with_one_port_are_kept_apart() {
    let lab = Lab::started(&Scenario::new(SERVED));
    let target = SocketAddr::from((address(7, 12), 8080));
    serve(lab.container(2, 12), target);
    for site in lab.sites.values() {
        ask_until_answered(&site.router(), target);
    }
    // Above those that systems choose by themselves: nobody else uses them.
    for port in 61_000..61_020 {
        // The one of its own site last: its port is taken by then.
        let routers = [1, 3, 2].map(|site| lab.sites[&site].router());
        let streams = routers.map(|router| connect_from(&router, port, target));
        let seen: BTreeSet<SocketAddr> = streams
            .into_iter()
            .map(|mut stream| {
                let mut said = String::new();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.read_to_string(&mut said).unwrap();
                said.parse().unwrap()
            })
            .collect();
        let is_tracked = |seen: &SocketAddr| seen.ip() == address(7, 2) && seen.port() >= 32_768;
        assert!(seen.len() == 3 && seen.iter().all(is_tracked), "{seen:?}");
    }
}

/// NET-7: not the other instances of a network that the site has no part in, nor a second address of what is served; and
/// a router that believes otherwise is refused by the other one.
fn edges_reach_nothing_else() {
    let scenario = Scenario::new(SERVED);
    let topology = scenario.topology();
    let plans = [1, 2, 3].map(|site| (NodeId(site), plan(&topology, NodeId(site)))).into();
    let mut lab = Lab::started(&scenario);
    let served = SocketAddr::from((address(8, 13), 8080));
    serve(lab.container(2, 13), served);
    let hidden = [(14, address(8, 14)), (16, address(8, 16)), (15, address(7, 15))];
    for (last, address) in hidden {
        serve(lab.container(2, last), (address, 8080).into());
    }
    for round in ["as planned", "a router that believes otherwise"] {
        for site in [1, 3] {
            ask_until_answered(&lab.sites[&site].router(), served);
            for (_, address) in hidden {
                let model = deliver_of_router(&plans, NodeId(site.into()), address);
                assert!(matches!(model, Delivery::Dropped(_)), "{model:?}");
                let answer = ask(&lab.sites[&site].router(), (address, 8080).into(), SILENCE);
                assert_eq!(answer, None, "{round}: site {site} to {address}");
            }
        }
        // What is hidden is served as far as sites 1 and 3 are told.
        let lie = format!("{}served 14\nserved 15\n", SERVED.replace("7,8 16", "8,7 16"));
        for site in [1, 3] {
            let site = lab.sites.get_mut(&site).unwrap();
            site.tell_cluster(&Scenario::new(&lie));
            assert!(site.ask("apply").contains("failed=0"));
        }
    }
    let routes = ip(&lab.sites[&3].router(), "route");
    assert!(hidden.iter().all(|(_, address)| routes.contains(&address.to_string())), "{routes}");
}

/// A container reaches no port of the edge in the router of its site, neither a listening one nor one that waits for an
/// answer of another instance.
fn no_container_reaches_the_ports_of_an_edge() {
    let lab = Lab::started(&Scenario::new(SERVED));
    let router = lab.sites[&2].router();
    let target = SocketAddr::from((address(7, 12), 8080));
    serve(lab.container(2, 12), target);
    assert_eq!(ask_until_answered(&router, target).ip(), address(7, 2));
    let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let _listener = router.run(|| TcpListener::bind(any(40_000)).unwrap()).unwrap();
    let socket = router.run(|| UdpSocket::bind(any(40_001)).unwrap()).unwrap();
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    // It has asked one of them.
    router.run(|| socket.send_to(b"question", target).unwrap()).unwrap();
    let mesh = Ipv4Addr::new(10, 64, 0, 2);
    for (container, own) in
        [(15, address(7, 2)), (14, address(8, 2)), (15, mesh), (12, address(7, 2))]
    {
        let namespace = lab.container(2, container);
        if own == mesh {
            ip(namespace, &format!("route add {mesh} via {}", address(7, 2)));
        }
        let connect = || TcpStream::connect_timeout(&SocketAddr::from((own, 40_000)), SILENCE);
        let error = namespace.run(connect).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{container} to {own}");
        let send = || UdpSocket::bind(any(0)).unwrap().send_to(b"hello", (own, 40_001)).unwrap();
        namespace.run(send).unwrap();
    }
    let mut buffer = [0; 100];
    let error = socket.recv_from(&mut buffer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

/// How many connections the router of a site remembers.
fn tracked(lab: &Lab, site: u8) -> usize {
    let count = || std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count").unwrap();
    lab.sites[&site].router().run(count).unwrap().trim().parse().unwrap()
}

/// What containers say to each other, to the resolver and by mistake to the router leaves nothing behind.
fn only_connections_of_edges_are_tracked() {
    let mut lab = Lab::started(&Scenario::new(SERVED));
    assert!(lab.sites.get_mut(&1).unwrap().ask("serve").starts_with("ok"));
    let receiver = Receiver::new(lab.container(2, 12));
    assert!(arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12)));
    let target = SocketAddr::from((address(7, 12), 8080));
    serve(lab.container(2, 12), target);
    assert_eq!(ask_until_answered(lab.container(1, 10), target).ip(), address(7, 10));
    let found = crate::names::addresses_of(lab.container(1, 10), address(7, 2), "db.");
    assert_eq!(found, [address(7, 12)]);
    for port in [80, 40_000] {
        assert_eq!(ask(lab.container(1, 10), (address(7, 2), port).into(), SILENCE), None);
    }
    assert_eq!([1, 2, 3].map(|site| tracked(&lab, site)), [0, 0, 0]);
    ask_until_answered(&lab.sites[&1].router(), target);
    assert_eq!([1, 2, 3].map(|site| tracked(&lab, site)), [1, 1, 0]);
}

/// `kill -9` of the router's process at either end: the state of the connection is the namespace's.
fn outlives_the_routers_processes() {
    let scenario = Scenario::new(SERVED);
    let mut lab = Lab::started(&scenario);
    for (port, (network, last)) in (5000..).zip(TARGETS) {
        let target = SocketAddr::from((address(network, last), port));
        serve(lab.container(2, last), (target.ip(), port + 100).into());
        ask_until_answered(&lab.sites[&1].router(), (target.ip(), port + 100).into());
        let from = lab.sites[&1].router();
        let conversation = Conversation::between(&from, lab.container(2, last), target);
        for number in [1, 2] {
            thread::sleep(Duration::from_millis(200));
            let site = lab.sites.get_mut(&number).unwrap();
            site.kill();
            site.start();
            site.tell_cluster(&scenario);
            assert!(site.ask("apply").starts_with("ok"));
            // Long enough to see the pause end.
            thread::sleep(Duration::from_millis(1200));
        }
        let (count, longest) = conversation.end();
        println!("{target}: longest pause {longest:.0?}, {count} messages");
        assert!(
            count > too_few() && longest < Duration::from_secs(2),
            "{count} messages, {longest:?}"
        );
    }
}

/// NET-12
fn changes_are_repaired() {
    let mut lab = Lab::started(&Scenario::new(SERVED));
    let target = SocketAddr::from((address(8, 13), 8080));
    serve(lab.container(2, 13), target);
    let router = lab.sites[&2].router();
    for sabotage in [
        "delete element inet jaco served { 10.65.8.13 }",
        "add element inet jaco served { 10.65.8.14 }",
        "flush chain inet jaco postrouting",
        "flush chain inet jaco prerouting",
        "delete table inet jaco",
    ] {
        assert_eq!(ask_until_answered(&lab.sites[&1].router(), target).ip(), address(8, 2));
        nft(&router, sabotage);
        let site = lab.sites.get_mut(&2).unwrap();
        assert!(site.ask("observe").contains("policy=false"), "{sabotage}");
        assert!(site.ask("apply").contains("steps=1 "), "{sabotage}");
        assert!(site.ask("observe").contains("policy=true"), "{sabotage}");
        assert!(site.ask("apply").contains("steps=0 "), "{sabotage}");
    }
    assert_eq!(ask_until_answered(&lab.sites[&3].router(), target).ip(), address(8, 2));
}
