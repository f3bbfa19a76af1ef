//! Where every domain of the tests leads: asks the edges of all machines for what the authority asks, and sees to it that
//! they say the same. It looks at the edges itself, too, to see when they have a certificate.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jaco_testkit::namespace::enter;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How long an edge may take: longer than it holds a question.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often an edge is asked whether it has a certificate.
const LOOK: Duration = Duration::from_millis(5);

/// Runs until the test's process has ended.
#[derive(Clone)]
pub(super) struct Gate {
    edges: Arc<Mutex<Vec<SocketAddr>>>,
    door: Arc<watch::Sender<Door>>,
    seen: Arc<watch::Sender<Seen>>,
    runtime: tokio::runtime::Handle,
}

/// Whether questions of the authority at port 80 go on to the edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    Open,
    /// They wait.
    Closed,
    /// They are dropped, as if a firewall let nothing through to port 80.
    Locked,
}

/// What came of the questions.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// How many came.
    pub(super) asked: usize,
    /// To how many all edges gave the same answer.
    pub(super) agreed: usize,
    /// What they said to the others.
    pub(super) differed: Vec<String>,
    /// How many connections to port 443 each edge got.
    pub(super) handshakes: BTreeMap<SocketAddr, usize>,
}

impl Gate {
    /// Listens at the ports 80 and 443 in a network namespace.
    pub(super) fn start(namespace: PathBuf, edges: &[SocketAddr]) -> Self {
        let (handle, made) = std::sync::mpsc::channel();
        let edges = edges.to_vec();
        thread::spawn(move || {
            enter(&namespace);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("there is a runtime");
            runtime.block_on(async {
                let listener = TcpListener::bind(("0.0.0.0", 80)).await.expect("it is free");
                let tls = TcpListener::bind(("0.0.0.0", 443)).await.expect("it is free");
                let gate = Self {
                    edges: Arc::new(Mutex::new(edges)),
                    door: Arc::new(watch::Sender::new(Door::Open)),
                    seen: Arc::default(),
                    runtime: tokio::runtime::Handle::current(),
                };
                handle.send(gate.clone()).expect("the test waits for it");
                tokio::spawn(gate.clone().distribute(tls));
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(gate.clone().forward(stream));
                }
            });
        });
        made.recv().expect("the gate is made")
    }

    /// Holds questions back, or lets them go on.
    pub(super) fn set(&self, door: Door) {
        self.door.send_replace(door);
    }

    /// What came so far, and what comes.
    pub(super) fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    /// An edge that is not asked any more.
    pub(super) fn forget(&self, edge: SocketAddr) {
        self.edges.lock().expect("nobody panics").retain(|one| *one != edge);
    }

    async fn forward(self, mut stream: TcpStream) {
        let Ok(question) = read_head(&mut stream).await else { return };
        self.seen.send_modify(|seen| seen.asked += 1);
        let mut door = self.door.subscribe();
        let door = door.wait_for(|door| *door != Door::Closed).await.map(|door| *door);
        if door.expect("the gate is there as long as this") == Door::Locked {
            return;
        }
        let edges = self.edges.lock().expect("nobody panics").clone();
        let asked = edges.iter().map(|edge| ask(*edge, &question));
        let answers: Vec<String> = futures::future::join_all(asked).await;
        let is_one = answers.windows(2).all(|pair| body(&pair[0]) == body(&pair[1]));
        let is_given = answers.iter().all(|answer| answer.starts_with("HTTP/1.1 200 "));
        self.seen.send_modify(|seen| match is_one && is_given {
            true => seen.agreed += 1,
            false => seen.differed.push(format!("{question} {answers:?}")),
        });
        let answer = answers.last().cloned().unwrap_or_default();
        // The authority may not wait for it.
        drop(stream.write_all(answer.as_bytes()).await);
        drop(stream.shutdown().await);
    }

    /// Forwards connections to port 443, as they are, to one edge after the other.
    async fn distribute(self, listener: TcpListener) {
        for number in 0.. {
            let Ok((mut client, _)) = listener.accept().await else { return };
            let edges = self.edges.lock().expect("nobody panics").clone();
            let edge = edges[number % edges.len()];
            self.seen.send_modify(|seen| *seen.handshakes.entry(edge).or_default() += 1);
            tokio::spawn(async move {
                let mut server = TcpStream::connect((edge.ip(), 443)).await?;
                copy_bidirectional(&mut client, &mut server).await
            });
        }
    }

    /// When each edge has begun to lead clients of a domain to TLS, which it does once it has a certificate: milliseconds
    /// since 1970.
    pub(super) fn encrypted(
        &self,
        domain: &str,
    ) -> tokio::task::JoinHandle<BTreeMap<SocketAddr, i64>> {
        let edges = self.edges.lock().expect("nobody panics").clone();
        let question = format!("GET / HTTP/1.1\r\nHost: {domain}\r\nConnection: close\r\n\r\n");
        self.runtime.spawn(async move {
            let watched = edges.into_iter().map(|edge| {
                let question = question.clone();
                async move {
                    while !ask(edge, &question).await.starts_with("HTTP/1.1 308 ") {
                        sleep(LOOK).await;
                    }
                    (edge, now_ms())
                }
            });
            futures::future::join_all(watched).await.into_iter().collect()
        })
    }
}

/// The head of a request, for a connection of its own.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let (mut head, mut part) = (Vec::new(), [0; 2048]);
    while !head.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut part).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..count]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let is_other = |line: &&str| !line.to_ascii_lowercase().starts_with("connection:");
    let lines: Vec<&str> = head.trim_end().split("\r\n").filter(is_other).collect();
    Ok(format!("{}\r\nConnection: close\r\n\r\n", lines.join("\r\n")))
}

/// All that an edge answers; nothing if it does not.
async fn ask(edge: SocketAddr, question: &str) -> String {
    let answered = async {
        let mut stream = TcpStream::connect(edge).await?;
        stream.write_all(question.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok::<_, std::io::Error>(answer)
    };
    timeout(PATIENCE, answered).await.ok().and_then(Result::ok).unwrap_or_default()
}

fn body(answer: &str) -> Option<&str> {
    answer.split_once("\r\n\r\n").map(|(_, body)| body)
}

pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_millis()).expect("it fits")
}
