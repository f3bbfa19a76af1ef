//! Instances are replaced under load, each stopped as soon as the edge says that it is not busy: nothing fails, and no
//! POST arrives twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use jaco_types::StateIndex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

use crate::instances::{Server, raw};
use crate::lab::{Lab, PATIENCE, instance};
use crate::wire::{ask, read, read_head};

/// How often each POST arrived, by its body.
type Posts = Arc<Mutex<HashMap<String, usize>>>;

/// A replica that answers at once, streams events, echoes, and ends with all it has when it is dropped.
fn replica(posts: &Posts) -> Server {
    let posts = Arc::clone(posts);
    raw(move |stream, _| {
        let posts = Arc::clone(&posts);
        async move {
            let mut stream = BufStream::new(stream);
            // Whoever breaks off is the test's own business.
            let _ended = serve(&mut stream, &posts).await;
        }
    })
}

async fn serve(stream: &mut BufStream<TcpStream>, posts: &Posts) -> std::io::Result<()> {
    while let Some(head) = read_head(stream).await {
        let target = head.split(' ').nth(1).unwrap();
        match target {
            "/events" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                for _ in 0..10 {
                    stream.write_all(b"9\r\ndata: x\n\n\r\n").await?;
                    stream.flush().await?;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                stream.write_all(b"0\r\n\r\n").await?;
            }
            "/socket" => {
                let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                stream.write_all(head.as_bytes()).await?;
                stream.flush().await?;
                let mut message = [0; 4];
                while stream.read_exact(&mut message).await.is_ok() {
                    stream.write_all(&message).await?;
                    stream.flush().await?;
                }
                return Ok(());
            }
            "/post" => {
                let length =
                    head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                let mut body = vec![0; length.parse().unwrap()];
                stream.read_exact(&mut body).await?;
                let body = String::from_utf8(body).unwrap();
                *posts.lock().unwrap().entry(body).or_default() += 1;
                stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await?;
            }
            _ => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?,
        }
        stream.flush().await?;
    }
    Ok(())
}

/// What the clients of a test have done.
#[derive(Default)]
struct Tally {
    stop: AtomicBool,
    done: AtomicUsize,
    posted: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Tally {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    fn note(&self, what: &str, is_fine: bool, seen: &dyn std::fmt::Debug) {
        self.done.fetch_add(1, Ordering::SeqCst);
        if !is_fine {
            self.failures.lock().unwrap().push(format!("{what}: {seen:?}"));
        }
    }
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
const EVENTS: &str = "GET /events HTTP/1.1\r\nHost: a.example\r\n\r\n";
const SOCKET: &str = "GET /socket HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";

async fn gets(address: std::net::SocketAddr, tally: Arc<Tally>) {
    let mut client = TcpStream::connect(address).await.unwrap();
    while tally.goes_on() {
        let reply = ask(&mut client, GET).await;
        tally.note("get", reply.status == 200, &reply.head);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn posts(address: std::net::SocketAddr, tally: Arc<Tally>) {
    let mut client = TcpStream::connect(address).await.unwrap();
    while tally.goes_on() {
        let body = format!("{:08}", tally.posted.fetch_add(1, Ordering::SeqCst));
        let head = "POST /post HTTP/1.1\r\nHost: a.example\r\nContent-Length: 8\r\n\r\n";
        let reply = ask(&mut client, &format!("{head}{body}")).await;
        tally.note("post", reply.status == 201, &reply.head);
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

async fn events(address: std::net::SocketAddr, tally: Arc<Tally>) {
    let mut client = TcpStream::connect(address).await.unwrap();
    while tally.goes_on() {
        let reply = ask(&mut client, EVENTS).await;
        tally.note("events", reply.body.len() == 90, &(&reply.head, reply.body.len()));
    }
}

async fn sockets(address: std::net::SocketAddr, tally: Arc<Tally>) {
    while tally.goes_on() {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(SOCKET.as_bytes()).await.unwrap();
        let reply = read(&mut client).await;
        let mut echoed = 0;
        while echoed < 10 {
            let mut message = [0; 4];
            let sent = client.write_all(b"ping").await;
            if sent.is_err() || client.read_exact(&mut message).await.is_err() {
                break;
            }
            echoed += 1;
            tokio::time::sleep(Duration::from_millis(4)).await;
        }
        tally.note("socket", echoed == 10, &(reply, echoed));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_replacements_fail_nothing() {
    let arrived = Posts::default();
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    let mut servers: Vec<(u64, Server)> =
        (0..3).map(|number| (number, replica(&arrived))).collect();
    let places = |servers: &[(u64, Server)]| -> Vec<_> {
        servers.iter().map(|(number, server)| (*number, server.address)).collect()
    };
    let drain = PATIENCE;
    lab.instances(drain, &places(&servers), &[]);
    lab.apply();
    let tally = Arc::new(Tally::default());
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..4 {
        clients.spawn(gets(lab.clear, Arc::clone(&tally)));
        clients.spawn(posts(lab.clear, Arc::clone(&tally)));
        clients.spawn(events(lab.clear, Arc::clone(&tally)));
        clients.spawn(sockets(lab.clear, Arc::clone(&tally)));
    }
    let mut busy_at_first = 0;
    for number in 3..53 {
        servers.push((number, replica(&arrived)));
        let (old, former) = servers.remove(0);
        lab.instances(drain, &places(&servers), &[(old, former.address)]);
        lab.apply();
        busy_at_first += usize::from(lab.status().busy.contains(&instance(old)));
        lab.wait_for(|status| !status.busy.contains(&instance(old))).await;
        drop(former);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tally.stop.store(true, Ordering::SeqCst);
    let ended =
        tokio::time::timeout(PATIENCE, async { while clients.join_next().await.is_some() {} });
    ended.await.expect("the clients end");
    let failures = tally.failures.lock().unwrap().clone();
    assert_eq!(failures, [""; 0], "of {}", tally.done.load(Ordering::SeqCst));
    assert!(tally.done.load(Ordering::SeqCst) > 500, "there was load");
    assert!(busy_at_first > 10, "some were busy when they left: {busy_at_first}");
    let arrived = arrived.lock().unwrap();
    assert_eq!(arrived.len(), tally.posted.load(Ordering::SeqCst), "each POST arrived");
    let twice: Vec<&String> = arrived.iter().filter(|one| *one.1 != 1).map(|one| one.0).collect();
    assert!(twice.is_empty(), "twice: {twice:?}");
}

/// The acknowledgement names who is busy, until it is not or its drain time is over.
#[tokio::test]
async fn an_instance_is_busy_as_long_as_it_has_a_request() {
    let arrived = Posts::default();
    let (one, two) = (replica(&arrived), replica(&arrived));
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    lab.instances(PATIENCE, &[(1, one.address)], &[]);
    lab.apply();
    let mut client = lab.connect().await;
    let reply = ask(&mut client, SOCKET).await;
    assert_eq!(reply.status, 101);
    lab.instances(PATIENCE, &[(2, two.address)], &[(1, one.address)]);
    lab.apply();
    assert_eq!(lab.status().busy, [instance(1)].into());
    assert_eq!(crate::wire::get(&lab, "a.example", "/").await.status, 200);
    assert_eq!((one.connections(), two.connections()), (1, 1), "nothing new goes to the old one");
    // It is gone from the plan; what it has to do is not.
    lab.instances(PATIENCE, &[(2, two.address)], &[]);
    lab.apply();
    assert_eq!(lab.status().busy, [instance(1)].into());
    drop(client);
    lab.wait_for(|status| status.busy.is_empty()).await;

    let mut client = lab.connect().await;
    assert_eq!(ask(&mut client, SOCKET).await.status, 101);
    lab.instances(Duration::from_millis(100), &[], &[(2, two.address)]);
    lab.apply();
    assert_eq!(lab.status().busy, [instance(2)].into());
    lab.wait_for(|status| status.busy.is_empty()).await;
    let mut last = Vec::new();
    let read = tokio::time::timeout(PATIENCE, client.read_to_end(&mut last));
    read.await.expect("its time is over").unwrap();
    assert_eq!(last, jaco_edge::wire::websocket::GOING_AWAY, "the client is told");
}

/// One that leaves and comes back is as good as before.
#[tokio::test]
async fn an_instance_may_come_back() {
    let arrived = Posts::default();
    let one = replica(&arrived);
    let mut lab = Lab::new();
    lab.route("a.example", "/", |_| {});
    for _ in 0..3 {
        lab.instances(PATIENCE, &[(1, one.address)], &[]);
        lab.apply();
        assert_eq!(crate::wire::get(&lab, "a.example", "/").await.status, 200);
        let mut client = lab.connect().await;
        assert_eq!(ask(&mut client, SOCKET).await.status, 101);
        lab.instances(PATIENCE, &[], &[(1, one.address)]);
        lab.apply();
        assert_eq!(lab.status().busy, [instance(1)].into());
        assert_eq!(crate::wire::get(&lab, "a.example", "/").await.reason(), "no_endpoints");
        lab.instances(PATIENCE, &[(1, one.address)], &[]);
        lab.apply();
        assert_eq!(lab.status().busy, [].into());
        client.write_all(b"ping").await.unwrap();
        let mut echoed = [0; 4];
        client.read_exact(&mut echoed).await.unwrap();
    }
}

/// A plan of before does not undo one of now.
#[tokio::test]
async fn an_older_plan_is_ignored() {
    let lab = Lab::new();
    let apply = |version| {
        lab.edge.apply(StateIndex(version), Arc::default(), Arc::default());
        lab.status().applied
    };
    assert_eq!(
        [apply(5), apply(4), apply(5), apply(6)],
        [5, 5, 5, 6].map(|version| Some(StateIndex(version)))
    );
}
