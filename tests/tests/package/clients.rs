//! Clients outside, who ask every machine for the published service, until they are stopped.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jaco_testkit::namespace::enter;

/// Pause between two requests of a client.
const PAUSE: Duration = Duration::from_millis(20);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// What an answer of the service contains.
const ANSWER: &str = "Welcome to nginx!";

/// Clients that run, two for each address: one connects for each request, one keeps its connection as long as it may.
pub(crate) struct Clients {
    tally: Arc<Tally>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Tally {
    stop: AtomicBool,
    answered: AtomicU64,
    failures: Mutex<Vec<String>>,
    slowest: Mutex<Duration>,
}

/// What came of their requests.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answered: u64,
    pub(crate) failures: Vec<String>,
    pub(crate) slowest: Duration,
}

/// Whether a client keeps its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    Kept,
    New,
}

impl Clients {
    /// Starts them in a network namespace.
    pub(crate) fn start(namespace: &Path, addresses: &[SocketAddr]) -> Self {
        let tally = Arc::new(Tally::default());
        let mut threads = Vec::new();
        for address in addresses.iter().copied() {
            for connection in [Connection::Kept, Connection::New] {
                let (tally, namespace) = (Arc::clone(&tally), namespace.to_owned());
                threads.push(thread::spawn(move || {
                    enter(&namespace);
                    tally.ask(address, connection);
                }));
            }
        }
        Self { tally, threads }
    }

    /// How many requests were answered so far.
    pub(crate) fn answered(&self) -> u64 {
        self.tally.answered.load(Ordering::SeqCst)
    }

    /// Lets all requests end.
    pub(crate) fn end(mut self) -> Outcome {
        self.tally.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().expect("clients do not panic");
        }
        Outcome {
            answered: self.answered(),
            failures: self.tally.failures.lock().expect("nobody panics").clone(),
            slowest: *self.tally.slowest.lock().expect("nobody panics"),
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.tally.stop.store(true, Ordering::SeqCst);
    }
}

impl Tally {
    fn ask(&self, address: SocketAddr, connection: Connection) {
        let mut kept = None;
        while !self.stop.load(Ordering::SeqCst) {
            let begun = Instant::now();
            match once(address, kept.take()) {
                Ok((stream, goes_on)) => {
                    self.answered.fetch_add(1, Ordering::SeqCst);
                    kept = Some(stream).filter(|_| goes_on && connection == Connection::Kept);
                }
                Err(seen) => {
                    let mut failures = self.failures.lock().expect("nobody panics");
                    failures
                        .push(format!("{address}, {connection:?}, {:?}: {seen}", begun.elapsed()));
                }
            }
            let mut slowest = self.slowest.lock().expect("nobody panics");
            *slowest = begun.elapsed().max(*slowest);
            drop(slowest);
            thread::sleep(PAUSE);
        }
    }
}

/// A request over a connection that is there, or a new one; the connection, and whether it can be used again.
fn once(address: SocketAddr, kept: Option<TcpStream>) -> Result<(TcpStream, bool), String> {
    let connect = || {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE)).map(|()| stream)
    };
    let stream = kept.map_or_else(connect, Ok);
    let mut stream = stream.map_err(|error| format!("connect: {error}"))?;
    let sent = stream.write_all(b"GET / HTTP/1.1\r\nHost: hello.example.com\r\n\r\n");
    sent.map_err(|error| format!("not sent: {error}"))?;
    let mut seen = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&seen);
        if text.starts_with("HTTP/1.1 200 ") && text.contains(ANSWER) && text.ends_with("</html>\n")
        {
            let goes_on = !text.to_lowercase().contains("\r\nconnection: close");
            return Ok((stream, goes_on));
        }
        let mut part = [0; 4096];
        match stream.read(&mut part) {
            Ok(0) => return Err(format!("the connection ended after {text:?}")),
            Ok(count) => seen.extend_from_slice(&part[..count]),
            Err(error) => return Err(format!("{error} after {text:?}")),
        }
    }
}
