//! The sockets of the edge: opened by the process of the router in the namespace of the node, used by a process of another
//! user in the namespace of the router. Either of the two is killed while clients connect.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use jaco_dataplane::Topology;
use jaco_net::Namespace;
use jaco_net::handover::{Event, Inbox};
use jaco_types::StateIndex;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, sendmsg,
};
use tokio::io::AsyncWriteExt;

use crate::Test;
use crate::lab::{Lab, Site};
use crate::packets::{Receiver as Datagrams, arrives};
use crate::scenario::{Scenario, address, underlay};
use crate::service::{Service, hold_topology, runtime, started, status, tell};
use crate::steady::TWO_SITES;

pub(crate) const TESTS: &[Test] = &[
    ("an_edge_without_privileges_serves_port_80", an_edge_without_privileges_serves_port_80),
    ("no_connection_is_refused_while_the_router_is_killed", router_is_killed),
    ("connections_wait_while_the_edge_is_killed", edge_is_killed),
    ("a_port_of_another_program_is_named_and_taken_later", a_port_of_another_program),
    ("a_listener_that_is_dropped_is_closed_at_both_ends", a_listener_is_dropped),
    ("a_socket_of_another_namespace_is_refused", a_socket_of_another_namespace),
];

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A user without rights.
const NOBODY: u32 = 65534;

/// Where the edge of the router in this folder listens: in a folder of its own, which is another user's.
pub(crate) fn socket_path(runtime_dir: &Path) -> PathBuf {
    runtime_dir.with_extension("edge").join("listeners")
}

/// `edge SOCKET`: says what it is handed, and tells each client who it is.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let serve = async {
        let mut inbox = Inbox::listen(Path::new(&arguments[0])).unwrap();
        println!("listens");
        let mut serving = BTreeMap::new();
        loop {
            match inbox.next().await {
                Event::Take(key, socket) => {
                    let number = rustix::fs::fstat(&socket).unwrap().st_ino;
                    serving.insert(key, tokio::spawn(answer(socket)));
                    println!("take {key} {number}");
                }
                Event::Drop(key) => {
                    let served = serving.remove(&key).unwrap();
                    served.abort();
                    // The socket is closed once its task is gone.
                    assert!(served.await.unwrap_err().is_cancelled());
                    println!("drop {key}");
                }
            }
        }
    };
    runtime().block_on(serve)
}

async fn answer(socket: OwnedFd) {
    let listener = tokio::net::TcpListener::from_std(socket.into()).unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        // The client may be gone.
        drop(stream.write_all(who().as_bytes()).await);
    }
}

/// Process, user, capabilities and namespace.
fn who() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    let capabilities = ["CapEff:", "CapPrm:", "CapAmb:"].map(field).join(" ");
    format!("{} {} {capabilities} {}", std::process::id(), field("Uid:"), namespace())
}

fn namespace() -> String {
    fs::read_link("/proc/thread-self/ns/net").unwrap().to_str().unwrap().to_owned()
}

/// The process of an edge.
struct Edge {
    child: Child,
    said: Receiver<String>,
}

impl Edge {
    fn start(site: &Site) -> Self {
        let path = socket_path(&site.folder);
        let folder = path.parent().unwrap();
        fs::create_dir_all(folder).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o711)).unwrap();
        chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        let mut command = Command::new("/proc/self/exe");
        command.arg("edge").arg(path).stdin(Stdio::null()).stdout(Stdio::piped());
        command.uid(NOBODY).gid(NOBODY);
        let mut child = site.router().run(|| command.spawn().unwrap()).unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (said, receiver) = channel();
        thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            lines.map_while(|line| said.send(line).ok()).for_each(drop);
        });
        let edge = Self { child, said: receiver };
        edge.says("listens");
        edge
    }

    /// Waits for the next line, and returns what follows the beginning of it.
    fn says(&self, beginning: &str) -> String {
        let line = self.said.recv_timeout(PATIENCE).unwrap();
        let rest = line.strip_prefix(beginning);
        rest.unwrap_or_else(|| panic!("{line:?} in place of {beginning:?}")).trim().to_owned()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // It may have been killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Two sites, whose edges have these ports.
fn with(ports: &[u16]) -> Scenario {
    let listeners: String = ports.iter().map(|port| format!("listen {port}\n")).collect();
    Scenario::new(&format!("{TWO_SITES}{listeners}"))
}

/// Where clients reach a port of the first site.
fn public(port: u16) -> SocketAddr {
    (underlay(1), port).into()
}

/// What the edge says to a client in this namespace.
fn ask(client: &Namespace, target: SocketAddr) -> std::io::Result<String> {
    let connected = client.run(|| TcpStream::connect_timeout(&target, PATIENCE)).unwrap();
    connected.and_then(hear)
}

fn hear(mut stream: TcpStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}

/// The port is open in the namespace of the node, for both families, and served in that of the router by a process
/// that may nothing.
fn an_edge_without_privileges_serves_port_80() {
    let scenario = with(&[80, 443]);
    let lab = Lab::new(&scenario);
    let (_runtime, _services) = started(&lab, &scenario, 41);
    let site = &lab.sites[&1];
    let edge = Edge::start(site);
    assert!(edge.says("take tcp/80").parse::<u64>().is_ok());
    edge.says("take tcp/443");
    let inside = site.router().run(namespace).unwrap();
    assert_ne!(site.engine.run(namespace).unwrap(), inside);
    let none = "0000000000000000";
    let expected = format!("{} {NOBODY} {none} {none} {none} {inside}", edge.child.id());
    for port in [80, 443] {
        assert_eq!(ask(&lab.sites[&2].engine, public(port)).unwrap(), expected);
        let here = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        assert_eq!(ask(&site.engine, here).unwrap(), expected);
    }
}

/// Connects one after the other until it is stopped, and returns how many were answered.
struct Clients {
    stopped: Arc<AtomicBool>,
    thread: thread::JoinHandle<usize>,
}

impl Clients {
    fn begin(lab: &Lab) -> Self {
        let client = Namespace::ensure(lab.sites[&2].engine.path()).unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let thread = thread::spawn(move || {
            let mut answered = 0;
            while !stop.load(Ordering::Relaxed) {
                let said = ask(&client, public(80)).unwrap();
                assert!(!said.is_empty(), "connection {answered} was not answered");
                answered += 1;
            }
            answered
        });
        Self { stopped, thread }
    }

    fn end(self) -> usize {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.join().expect("none was refused or lost")
    }
}

/// `kill -9` of the router's process: the edge goes on, and the next process takes over the socket that the edge has. It
/// outlives the edge, too.
fn router_is_killed() {
    let scenario = with(&[80]);
    let lab = Lab::new(&scenario);
    let (runtime, mut services) = started(&lab, &scenario, 41);
    let edge = Edge::start(&lab.sites[&1]);
    let number = edge.says("take tcp/80");
    let clients = Clients::begin(&lab);
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(200));
        services[0].kill();
        thread::sleep(Duration::from_millis(200));
        services[0] = Service::again(&lab.sites[&1]);
        runtime.block_on(async {
            let client = services[0].connect().await;
            let held = status(&client, |status| status.applied() == Some(StateIndex(41))).await;
            assert_eq!(held.listener_failures(), &BTreeMap::new());
        });
    }
    let answered = clients.end();
    println!("{answered} connections");
    assert!(answered > 100, "{answered}");
    edge.kill();
    let next = Edge::start(&lab.sites[&1]);
    assert_eq!(next.says("take tcp/80"), number, "it is the same socket");
}

/// `kill -9` of the edge: who connects meanwhile waits, and the next edge serves them. So it is with one that takes the
/// place of another that still runs.
fn edge_is_killed() {
    let scenario = with(&[80]);
    let lab = Lab::new(&scenario);
    let (_runtime, _services) = started(&lab, &scenario, 41);
    let client = &lab.sites[&2].engine;
    let connect = || TcpStream::connect_timeout(&public(80), PATIENCE).unwrap();
    let connect_all = || (0..100).map(|_| client.run(connect).unwrap()).collect::<Vec<_>>();
    let mut edges = Vec::new();
    let mut number = None;
    for round in 0..3 {
        // The first ones come before there is any edge.
        let waiting = connect_all();
        let edge = Edge::start(&lab.sites[&1]);
        let begun = Instant::now();
        let taken = edge.says("take tcp/80");
        println!("round {round}: sockets after {:.0?}", begun.elapsed());
        assert_eq!(number.get_or_insert_with(|| taken.clone()), &taken);
        for stream in waiting {
            assert!(hear(stream).unwrap().starts_with(&format!("{} ", edge.child.id())));
        }
        edge.kill();
    }
    // An upgrade: the new one is there before the old one goes.
    for _ in 0..2 {
        let edge = Edge::start(&lab.sites[&1]);
        assert_eq!(Some(edge.says("take tcp/80")), number);
        edges.push(edge);
    }
    assert!(edges[0].said.recv_timeout(Duration::from_millis(500)).is_err());
    edges.remove(0).kill();
    let said = ask(client, public(80)).unwrap();
    assert!(said.starts_with(&format!("{} ", edges[0].child.id())), "{said}");
}

/// The address is named, nothing else fails for it, and it is taken once it is free.
fn a_port_of_another_program() {
    let scenario = with(&[80, 443]);
    let lab = Lab::new(&scenario);
    let bind = || TcpListener::bind("0.0.0.0:80").unwrap();
    let other = lab.sites[&1].engine.run(bind).unwrap();
    let (runtime, services) = started(&lab, &scenario, 41);
    let edge = Edge::start(&lab.sites[&1]);
    edge.says("take tcp/443");
    let receiver = Datagrams::new(lab.container(2, 12));
    assert!(arrives(lab.container(1, 10), address(7, 10), &receiver, address(7, 12)));
    runtime.block_on(async {
        let mut client = services[0].connect().await;
        let failed = status(&client, |status| !status.listener_failures().is_empty()).await;
        assert_eq!((failed.error.clone(), failed.failures().next()), (None, None));
        let [(name, why)] = failed.listener_failures().iter().collect::<Vec<_>>()[..] else {
            panic!("{failed:?}")
        };
        assert_eq!(name, "tcp/80");
        assert!(why.starts_with("another program has it: stop that one"), "{why}");
        // Other plans are carried out meanwhile, and do not forget it.
        hold_topology(&mut client, 42, &scenario.topology(), 1).await;
        let held = status(&client, |status| status.applied() == Some(StateIndex(42))).await;
        assert_eq!(held.listener_failures().len(), 1);
        drop(other);
        status(&client, |status| status.listener_failures().is_empty()).await;
    });
    edge.says("take tcp/80");
    ask(&lab.sites[&2].engine, public(80)).unwrap();
}

/// A plan that has it no more, told whole or as a change by a daemon.
fn a_listener_is_dropped() {
    let scenario = with(&[80, 443]);
    let lab = Lab::new(&scenario);
    let (runtime, services) = started(&lab, &scenario, 41);
    let edge = Edge::start(&lab.sites[&1]);
    edge.says("take tcp/80");
    edge.says("take tcp/443");
    let client = &lab.sites[&2].engine;
    ask(client, public(443)).unwrap();
    let holds = |index: u64, topology: &Topology| {
        runtime.block_on(tell(&services[0], index, topology, 1));
    };
    holds(42, &with(&[80]).topology());
    edge.says("drop tcp/443");
    let refused = ask(client, public(443)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    ask(client, public(80)).unwrap();
    holds(43, &with(&[]).topology());
    edge.says("drop tcp/80");
    assert!(ask(client, public(80)).is_err());
    // Nobody has it: another program may.
    lab.sites[&1].engine.run(|| TcpListener::bind("0.0.0.0:80").unwrap()).unwrap();
    holds(44, &with(&[80]).topology());
    edge.says("take tcp/80");
    ask(client, public(80)).unwrap();
}

/// An edge that was broken into hands back a socket of its own namespace, bound as the one of the node would be: it gets
/// the right one, and so do clients.
fn a_socket_of_another_namespace() {
    let scenario = with(&[80]);
    let lab = Lab::new(&scenario);
    let site = &lab.sites[&1];
    let forged = site.router().run(|| TcpListener::bind("[::]:80").unwrap()).unwrap();
    let path = socket_path(&site.folder);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let flags = SocketFlags::CLOEXEC;
    let listener =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let service = Service::start(site);
    let router = rustix::net::accept(&listener).unwrap();
    let record = |kind: u8| {
        let mut bytes = [0; 24];
        (bytes[0], bytes[1], bytes[2], bytes[5]) = (1, kind, 1, 80);
        bytes
    };
    let sockets = [forged.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&sockets));
    let hand_back = record(3);
    sendmsg(&router, &[IoSlice::new(&hand_back)], &mut control, SendFlags::empty()).unwrap();
    rustix::net::send(&router, &record(4), SendFlags::empty()).unwrap();
    // Refused at once, although no plan says what is to be there.
    let mut heard = [0; 24];
    let hear = |heard: &mut [u8; 24]| {
        rustix::net::recv(&router, &mut heard[..], rustix::net::RecvFlags::empty()).unwrap();
    };
    hear(&mut heard);
    assert_eq!(heard, record(2));
    runtime().block_on(tell(&service, 41, &scenario.topology(), 1));
    hear(&mut heard);
    assert_eq!(heard, record(1));
    drop((router, listener));
    let edge = Edge::start(site);
    edge.says("take tcp/80");
    ask(&lab.sites[&2].engine, public(80)).unwrap();
}
