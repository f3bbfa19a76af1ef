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

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep_until, timeout};

/// How long an answer may take: more than the drain time of the services.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// `GET /` over a connection that is kept.
    Get,
    /// `POST /record?id=N`, each with an id of its own, over a connection that is kept.
    Post,
    /// `GET /events`, to the last event.
    Events,
    /// An upgraded connection with ten messages that come back.
    Socket,
}

/// The port of the ledger, at the address of the clients.
pub(super) const LEDGER: u16 = 9900;

/// Requests that were made, and those that failed.
#[derive(Debug, Default)]
pub(super) struct Tally {
    stop: AtomicBool,
    next_post: AtomicU64,
    done: Mutex<BTreeMap<(Kind, SocketAddr), u64>>,
    failures: Mutex<Vec<String>>,
    /// How often each POST arrived at a replica, by its id.
    arrived: Mutex<BTreeMap<u64, usize>>,
}

/// A load that runs.
pub(super) struct Load {
    tally: Arc<Tally>,
    begun: Instant,
    thread: Option<JoinHandle<()>>,
}

/// How much was asked.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) requests: u64,
    pub(super) posts: u64,
    /// How often each POST arrived, by its id.
    pub(super) arrived: BTreeMap<u64, usize>,
    pub(super) per_second: u64,
    pub(super) failures: Vec<String>,
}

/// So many clients of a kind for each edge, with a pause between two requests of each.
pub(super) type Clients = [(Kind, usize, Duration)];

impl Load {
    /// Starts clients in a network namespace, for each of these edges.
    pub(super) fn start(namespace: PathBuf, edges: &[SocketAddr], clients: &Clients) -> Self {
        let tally = Arc::new(Tally::default());
        let begun = Instant::now();
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
        Self { tally, begun, thread: Some(thread) }
    }

    /// How many requests were answered so far.
    pub(super) fn answered(&self) -> u64 {
        self.tally.done.lock().expect("nobody panics").values().sum()
    }

    /// Lets all requests end, and tells what came of them.
    pub(super) fn end(mut self) -> Outcome {
        self.tally.stop.store(true, Ordering::SeqCst);
        let elapsed = self.begun.elapsed();
        self.thread.take().expect("it runs").join().expect("clients do not panic");
        let requests = self.answered();
        Outcome {
            requests,
            posts: self.tally.next_post.load(Ordering::SeqCst),
            per_second: requests * 1000
                / u64::try_from(elapsed.as_millis()).expect("it fits").max(1),
            failures: self.tally.failures.lock().expect("nobody panics").clone(),
            arrived: self.tally.arrived.lock().expect("nobody panics").clone(),
        }
    }
}

struct Client {
    edge: SocketAddr,
    tally: Arc<Tally>,
    begun: Instant,
}

impl Client {
    async fn run(self, kind: Kind, pause: Duration) {
        let mut kept = None;
        while !self.tally.stop.load(Ordering::SeqCst) {
            let next = tokio::time::Instant::now() + pause;
            let done = timeout(PATIENCE, self.once(kind, &mut kept)).await;
            let done = done.unwrap_or_else(|_| Err(format!("nothing for {PATIENCE:?}")));
            match done {
                Ok(()) => self.count(kind),
                Err(seen) => {
                    kept = None;
                    self.fail(kind, &seen);
                }
            }
            sleep_until(next).await;
        }
    }

    async fn once(&self, kind: Kind, kept: &mut Option<TcpStream>) -> Result<(), String> {
        let mut stream = match kept.take() {
            Some(stream) if kind != Kind::Socket => stream,
            _ => {
                TcpStream::connect(self.edge).await.map_err(|error| format!("connect: {error}"))?
            }
        };
        let goes_on = match kind {
            Kind::Get => expect(&mut stream, "GET / HTTP/1.1", "hello ").await?,
            Kind::Post => {
                let id = self.tally.next_post.fetch_add(1, Ordering::SeqCst);
                let line = format!("POST /record?id={id} HTTP/1.1\r\nContent-Length: 0");
                expect(&mut stream, &line, &format!("recorded {id}\n")).await?
            }
            Kind::Events => expect(&mut stream, "GET /events HTTP/1.1", "data: 9\n").await?,
            Kind::Socket => {
                echoes(&mut stream).await?;
                false
            }
        };
        if goes_on {
            *kept = Some(stream);
        }
        Ok(())
    }

    fn count(&self, kind: Kind) {
        let mut done = self.tally.done.lock().expect("nobody panics");
        *done.entry((kind, self.edge)).or_default() += 1;
    }

    fn fail(&self, kind: Kind, seen: &str) {
        let after = self.begun.elapsed();
        let failure = format!("{kind:?} at {} after {after:?}: {seen}", self.edge);
        self.tally.failures.lock().expect("nobody panics").push(failure);
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

const HOST: &str = "Host: shop.example.com";

/// Asks, and expects 200 with a body that has this; whether the connection can be used again.
async fn expect(stream: &mut TcpStream, line: &str, body: &str) -> Result<bool, String> {
    let request = format!("{line}\r\n{HOST}\r\n\r\n");
    let sent = stream.write_all(request.as_bytes()).await;
    sent.map_err(|error| format!("{line}: not sent: {error}"))?;
    let reply = read(stream).await.map_err(|error| format!("{line}: {error}"))?;
    if reply.starts_with("HTTP/1.1 200 ") && reply.contains(body) {
        return Ok(!reply.to_ascii_lowercase().contains("\r\nconnection: close"));
    }
    Err(format!("{line}: {reply}"))
}

/// Head and body of a response.
async fn read(stream: &mut TcpStream) -> Result<String, String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let is_whole = match length.and_then(|length| length.trim().parse::<usize>().ok()) {
                Some(length) => body.len() >= length,
                None => body.ends_with("0\r\n\r\n") || head.starts_with("http/1.1 101 "),
            };
            if is_whole {
                return Ok(text);
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) => return Err(format!("the connection ended after {text:?}")),
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) => return Err(format!("{error} after {text:?}")),
        }
    }
}

async fn echoes(stream: &mut TcpStream) -> Result<(), String> {
    let request = format!(
        "GET /socket HTTP/1.1\r\n{HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    let sent = stream.write_all(request.as_bytes()).await;
    sent.map_err(|error| format!("socket: not sent: {error}"))?;
    let reply = read(stream).await.map_err(|error| format!("socket: {error}"))?;
    if !reply.starts_with("HTTP/1.1 101 ") {
        return Err(format!("socket: {reply}"));
    }
    for number in 0..10 {
        let mut message = [0; 4];
        let sent = stream.write_all(b"ping").await;
        sent.map_err(|error| format!("socket: message {number} not sent: {error}"))?;
        let got = stream.read_exact(&mut message).await;
        got.map_err(|error| format!("socket: message {number} not echoed: {error}"))?;
        if &message != b"ping" {
            return Err(format!("socket: message {number} is {message:?}"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}
