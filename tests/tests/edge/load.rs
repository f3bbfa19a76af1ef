//! Clients of the edges: from a network namespace outside of all machines, each in a loop, until they are stopped.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jaco_testkit::{engines, eventually_within};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep_until, timeout};

use crate::http::{echo, expect, upgrade};

/// How long an answer may take: more than the drain time of the services.
const PATIENCE: Duration = Duration::from_secs(20);

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
}

/// How many kinds there are.
const KINDS: usize = 4;

/// How many requests of each kind an edge answers before a load has gone on.
const FURTHER: u64 = 5;

/// The port of the ledger, at the address of the clients.
pub(crate) const LEDGER: u16 = 9900;

/// Requests that were made, and those that failed.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    stop: AtomicBool,
    next_post: AtomicU64,
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
    pub(crate) posts: u64,
    /// How often each POST arrived, by its id.
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

/// So many clients of a kind for each edge, with a pause between two requests of each.
pub(crate) type Clients = [(Kind, usize, Duration)];

impl Load {
    /// Starts clients in a network namespace, for each of these edges.
    pub(crate) fn start(namespace: PathBuf, edges: &[SocketAddr], clients: &Clients) -> Self {
        let tally = Arc::new(Tally::default());
        let begun = Instant::now();
        let all = edges.to_vec();
        let (own, edges, clients) = (Arc::clone(&tally), edges.to_vec(), clients.to_vec());
        let thread = thread::spawn(move || {
            let file = File::open(namespace).expect("the namespace is there");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("it can be entered");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("there is a runtime").block_on(async {
                let ledger = TcpListener::bind(("0.0.0.0", LEDGER)).await.expect("it is free");
                tokio::spawn(write_down(ledger, Arc::clone(&own)));
                let mut running = tokio::task::JoinSet::new();
                for edge in edges {
                    for (kind, count, pause) in &clients {
                        for _ in 0..*count {
                            let client = Client { edge, tally: Arc::clone(&own), begun };
                            running.spawn(client.run(*kind, *pause));
                        }
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
                if more.count() == self.edges.len() * KINDS {
                    Ok(())
                } else {
                    Err(format!("{now:?}"))
                }
            },
        )
        .await;
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
        let requests = self.answered().values().sum::<u64>();
        let recoveries = self.tally.recoveries.lock().expect("nobody panics").clone();
        Outcome {
            requests,
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
    stream: TcpStream,
    connected: Instant,
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
        if kept.is_none() {
            let stream = TcpStream::connect(self.edge).await;
            let stream = stream.map_err(|error| format!("connect: {error}"))?;
            *kept = Some(Kept { stream, connected: Instant::now() });
        }
        let stream = &mut kept.as_mut().expect("it was just made").stream;
        match kind {
            Kind::Get => expect(stream, "GET / HTTP/1.1", "hello ").await,
            Kind::Post => {
                let id = self.tally.next_post.fetch_add(1, Ordering::SeqCst);
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
