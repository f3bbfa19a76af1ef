//! Clients of the edges: from a network namespace outside of all machines, each in a loop, until they are stopped.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jaco_testkit::{engines, eventually_within, namespace};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep_until, timeout};

use crate::grpc::{Call, Channel, Heard};
use crate::http::{echo, expect, upgrade};
use crate::rate::Rate;

/// How long an answer may take: more than the drain time of the services.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// `GET /` over a connection that is kept.
    Get,
    /// `POST /record?id=N`, each with an id of its own, over a connection that is kept.
    Post,
    /// `GET /events`, to the last event.
    Events,
    /// An upgraded connection with ten messages that come back.
    Socket,
    /// gRPC: a call that is recorded as a POST is, with an id of its own, over a connection that is kept.
    Call,
    /// gRPC: a call that is answered by ten messages, over a connection that is kept.
    Watch,
}

impl Kind {
    /// All there are.
    pub(crate) const ALL: [Self; 6] =
        [Self::Get, Self::Post, Self::Events, Self::Socket, Self::Call, Self::Watch];
}

/// How many requests of each kind an edge answers before a load has gone on.
const FURTHER: u64 = 5;

/// The port of the ledger, at the address of the clients.
pub(crate) const LEDGER: u16 = 9900;

/// Requests that were made, and those that failed.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    stop: AtomicBool,
    next_post: AtomicU64,
    declined: AtomicU64,
    done: Mutex<BTreeMap<(Kind, SocketAddr), u64>>,
    failures: Mutex<Vec<Failure>>,
    /// How long each client took after a failure until it was answered again.
    recoveries: Mutex<Vec<Duration>>,
    /// How often each POST arrived at a replica, by its id.
    arrived: Mutex<BTreeMap<u64, usize>>,
}

/// A load that runs.
pub(crate) struct Load {
    tally: Arc<Tally>,
    begun: Instant,
    edges: Vec<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

/// How much was asked.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    /// The same by kind.
    pub(crate) kinds: BTreeMap<Kind, u64>,
    pub(crate) posts: u64,
    /// Calls that an edge did not look at, as it was closing the connection; they were made over another one.
    pub(crate) declined: u64,
    /// How often each POST arrived, by its id; calls that are recorded are among them.
    pub(crate) arrived: BTreeMap<u64, usize>,
    pub(crate) per_second: u64,
    pub(crate) failures: Vec<Failure>,
    /// The longest that a client took after a failure until it was answered again.
    pub(crate) recovery: Duration,
}

/// A request that was not answered as it should be.
#[derive(Debug, Clone)]
#[expect(dead_code, reason = "what was seen is for who reads the message of a failed test")]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) edge: SocketAddr,
    /// When its connection was made. `None`: it was not.
    pub(crate) connected: Option<Instant>,
    /// When the request was sent, or should have been.
    pub(crate) asked: Instant,
    after: Duration,
    seen: String,
}

impl Load {
    /// Starts clients in a network namespace, for each of these edges.
    pub(crate) fn start(outside: PathBuf, edges: &[SocketAddr], rate: Rate) -> Self {
        let tally = Arc::new(Tally::default());
        let begun = Instant::now();
        let all = edges.to_vec();
        let (own, edges) = (Arc::clone(&tally), edges.to_vec());
        let thread = thread::spawn(move || {
            namespace::enter(&outside);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("there is a runtime").block_on(async {
                let ledger = TcpListener::bind(("0.0.0.0", LEDGER)).await.expect("it is free");
                tokio::spawn(write_down(ledger, Arc::clone(&own)));
                let mut running = tokio::task::JoinSet::new();
                for (kind, pause) in rate.clients(edges.len()) {
                    for edge in edges.iter().copied() {
                        let client = Client { edge, tally: Arc::clone(&own), begun };
                        running.spawn(client.run(kind, pause));
                    }
                }
                while let Some(ended) = running.join_next().await {
                    ended.expect("clients do not panic");
                }
            });
        });
        Self { tally, begun, edges: all, thread: Some(thread) }
    }

    /// Waits until each edge has answered requests of every kind that were made since.
    pub(crate) async fn goes_on(&self) {
        let before = self.answered();
        eventually_within(
            engines::PATIENCE,
            "every edge answers every kind of request",
            || async {
                let now = self.answered();
                let more = now.iter().filter(|(of, count)| {
                    **count >= before.get(*of).copied().unwrap_or_default() + FURTHER
                });
                if more.count() == self.edges.len() * Kind::ALL.len() {
                    Ok(())
                } else {
                    Err(format!("{now:?}"))
                }
            },
        )
        .await;
    }

    /// How many requests failed so far.
    pub(crate) fn failed(&self) -> usize {
        self.tally.failures.lock().expect("nobody panics").len()
    }

    /// How many requests were answered so far.
    fn answered(&self) -> BTreeMap<(Kind, SocketAddr), u64> {
        self.tally.done.lock().expect("nobody panics").clone()
    }

    /// Lets all requests end, and tells what came of them.
    pub(crate) fn end(mut self) -> Outcome {
        self.tally.stop.store(true, Ordering::SeqCst);
        let elapsed = self.begun.elapsed();
        self.thread.take().expect("it runs").join().expect("clients do not panic");
        let mut kinds = BTreeMap::<_, u64>::new();
        for ((kind, _), count) in self.answered() {
            *kinds.entry(kind).or_default() += count;
        }
        let requests = kinds.values().sum::<u64>();
        let recoveries = self.tally.recoveries.lock().expect("nobody panics").clone();
        Outcome {
            requests,
            kinds,
            declined: self.tally.declined.load(Ordering::SeqCst),
            posts: self.tally.next_post.load(Ordering::SeqCst),
            per_second: requests * 1000
                / u64::try_from(elapsed.as_millis()).expect("it fits").max(1),
            failures: self.tally.failures.lock().expect("nobody panics").clone(),
            recovery: recoveries.into_iter().max().unwrap_or_default(),
            arrived: self.tally.arrived.lock().expect("nobody panics").clone(),
        }
    }
}

impl Outcome {
    /// No request failed, and each POST arrived once.
    pub(crate) fn nothing_failed(&self) {
        self.nothing_failed_but(|_| false);
        assert_eq!(self.arrived.len() as u64, self.posts, "each arrived");
    }

    /// No request failed but those, and no POST arrived twice.
    pub(crate) fn nothing_failed_but(&self, may: impl Fn(&Failure) -> bool) {
        let failed: Vec<_> = self.failures.iter().filter(|failure| !may(failure)).collect();
        let some = failed.iter().take(5).collect::<Vec<_>>();
        assert!(failed.is_empty(), "{} of {}: {some:#?}", failed.len(), self.requests);
        let twice: Vec<_> = self.arrived.iter().filter(|(_, count)| **count != 1).collect();
        assert!(twice.is_empty(), "twice: {twice:?}");
    }
}

struct Client {
    edge: SocketAddr,
    tally: Arc<Tally>,
    begun: Instant,
}

/// A connection, for the next request.
struct Kept {
    line: Line,
    connected: Instant,
}

/// What is spoken over a connection.
enum Line {
    Http1(TcpStream),
    Grpc(Channel),
    /// Nothing: it broke as soon as it was made.
    Broken(String),
}

impl Client {
    async fn run(self, kind: Kind, pause: Duration) {
        let (mut kept, mut failed) = (None, None::<Instant>);
        while !self.tally.stop.load(Ordering::SeqCst) {
            let next = tokio::time::Instant::now() + pause;
            let asked = Instant::now();
            let done = timeout(PATIENCE, self.once(kind, &mut kept)).await;
            match done.unwrap_or_else(|_| Err(format!("nothing for {PATIENCE:?}"))) {
                Ok(goes_on) => {
                    self.count(kind);
                    if let Some(failed) = failed.take() {
                        let mut all = self.tally.recoveries.lock().expect("nobody panics");
                        all.push(failed.elapsed());
                    }
                    kept = kept.filter(|_| goes_on);
                }
                Err(seen) => {
                    failed.get_or_insert_with(Instant::now);
                    let connected = kept.take().map(|kept: Kept| kept.connected);
                    let (after, edge) = (self.begun.elapsed(), self.edge);
                    let failure = Failure { kind, edge, connected, asked, after, seen };
                    self.tally.failures.lock().expect("nobody panics").push(failure);
                }
            }
            sleep_until(next).await;
        }
    }

    /// Makes a request, over the connection that is kept if there is one; whether it can be used again.
    async fn once(&self, kind: Kind, kept: &mut Option<Kept>) -> Result<bool, String> {
        if let Some(Kept { line: Line::Grpc(channel), .. }) = kept
            && channel.is_given_up().await?
        {
            *kept = None;
        }
        let kept = match kept {
            Some(kept) => kept,
            None => kept.insert(self.connect(kind).await?),
        };
        match &mut kept.line {
            Line::Http1(stream) => self.ask(kind, stream).await,
            Line::Grpc(channel) => {
                let call = self.next_call(kind);
                if channel.expect(&call).await? == Heard::Answer {
                    return Ok(true);
                }
                self.tally.declined.fetch_add(1, Ordering::SeqCst);
                *kept = self.connect(kind).await?;
                self.call_again(&call, kept).await.map(|()| true)
            }
            Line::Broken(seen) => Err(seen.clone()),
        }
    }

    async fn connect(&self, kind: Kind) -> Result<Kept, String> {
        let stream = TcpStream::connect(self.edge).await;
        let stream = stream.map_err(|error| format!("connect: {error}"))?;
        let connected = Instant::now();
        let line = match kind {
            Kind::Get | Kind::Post | Kind::Events | Kind::Socket => Line::Http1(stream),
            Kind::Call | Kind::Watch => {
                Channel::open(stream).await.map_or_else(Line::Broken, Line::Grpc)
            }
        };
        Ok(Kept { line, connected })
    }

    /// An id that no other request has.
    fn next_post(&self) -> u64 {
        self.tally.next_post.fetch_add(1, Ordering::SeqCst)
    }

    /// A request over HTTP/1.1; whether the connection can be used again.
    async fn ask(&self, kind: Kind, stream: &mut TcpStream) -> Result<bool, String> {
        match kind {
            Kind::Get => expect(stream, "GET / HTTP/1.1", "hello ").await,
            Kind::Post => {
                let id = self.next_post();
                let line = format!("POST /record?id={id} HTTP/1.1\r\nContent-Length: 0");
                expect(stream, &line, &format!("recorded {id}\n")).await
            }
            Kind::Events => expect(stream, "GET /events HTTP/1.1", "data: 9\n").await,
            Kind::Socket => {
                upgrade(stream).await?;
                for _ in 0..10 {
                    echo(stream).await?;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Ok(false)
            }
            Kind::Call | Kind::Watch => unreachable!("it is gRPC"),
        }
    }

    /// A call over gRPC, with what answers it.
    fn next_call(&self, kind: Kind) -> Call {
        match kind {
            Kind::Call => {
                let id = self.next_post();
                Call {
                    method: "/hello.Ledger/Record",
                    message: id.to_string(),
                    expected: vec![format!("recorded {id}")],
                }
            }
            Kind::Watch => Call {
                method: "/hello.Events/Watch",
                message: String::new(),
                expected: (0..10).map(|number| number.to_string()).collect(),
            },
            Kind::Get | Kind::Post | Kind::Events | Kind::Socket => unreachable!("it is HTTP/1.1"),
        }
    }

    /// The same call over a new connection, once, as clients do of which the edge has said that it was not looked at. If
    /// it was all the same, it arrives twice, which is found.
    async fn call_again(&self, call: &Call, kept: &mut Kept) -> Result<(), String> {
        match &mut kept.line {
            Line::Grpc(channel) => match channel.expect(call).await? {
                Heard::Answer => Ok(()),
                Heard::Declined => Err("declined twice".to_owned()),
            },
            Line::Broken(seen) => Err(seen.clone()),
            Line::Http1(_) => unreachable!("it is gRPC"),
        }
    }

    fn count(&self, kind: Kind) {
        let mut done = self.tally.done.lock().expect("nobody panics");
        *done.entry((kind, self.edge)).or_default() += 1;
    }
}

/// Notes what replicas say that was posted to them.
async fn write_down(ledger: TcpListener, tally: Arc<Tally>) {
    while let Ok((stream, _)) = ledger.accept().await {
        let tally = Arc::clone(&tally);
        tokio::spawn(async move {
            let (mut stream, mut line) = (BufStream::new(stream), String::new());
            stream.read_line(&mut line).await?;
            let id = line.trim().parse().map_err(std::io::Error::other)?;
            *tally.arrived.lock().expect("nobody panics").entry(id).or_default() += 1;
            stream.write_all(b".").await?;
            stream.flush().await
        });
    }
}
