//! `hello serve`: accepts, answers, and leaves as soon as nobody waits for an answer.

mod bulk;
mod grpc;
mod kind;
mod route;
mod stream;
mod websocket;

use std::io::{self, BufReader};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::{self, After, Response};
use crate::say;
use crate::signal::StopSignals;
use kind::Kind;
use route::Workload;

/// A connection that stays silent for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections served at once; the rest get 503. Bounds the threads of a small container.
const CONNECTIONS_MAX: usize = 512;
/// How long a stop waits for answers that are still being written, unless `HELLO_DRAIN_MS` says otherwise.
const DRAIN_DEFAULT: Duration = Duration::from_secs(5);

/// Serves until a stop signal, then finishes what it has begun.
pub(crate) fn run(port: u16) -> ExitCode {
    match try_run(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say::error(&format!("cannot serve on port {port}: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn try_run(port: u16) -> io::Result<()> {
    let mut signals = StopSignals::catch()?;
    let listener = listen(port)?;
    let server = Arc::new(Server::new(Workload::from_env()));
    say::line(&format!("{} listens on {}", server.workload.name(), listener.local_addr()?));
    let acceptor = Arc::clone(&server);
    thread::spawn(move || accept(&acceptor, &listener));
    let signal = signals.wait();
    server.drain();
    say::line(&format!("{signal} received, leaving"));
    Ok(())
}

/// Both address families where there is IPv6, else IPv4 alone.
fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
        .or_else(|_| TcpListener::bind(("0.0.0.0", port)))
}

/// What all connections share.
#[derive(Debug)]
struct Server {
    workload: Workload,
    connections: AtomicUsize,
    /// Requests that were read and not yet answered.
    in_flight: AtomicUsize,
    terminating: AtomicBool,
}

impl Server {
    fn new(workload: Workload) -> Self {
        Self {
            workload,
            connections: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            terminating: AtomicBool::new(false),
        }
    }

    /// Waits until no request is unanswered, or for the drain time.
    fn drain(&self) {
        self.terminating.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + self.workload.drain.unwrap_or(DRAIN_DEFAULT);
        while self.in_flight.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn talk(self: &Arc<Self>, stream: &TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
        stream.set_nodelay(true)?;
        let mut input = BufReader::new(stream);
        loop {
            let request = match http::read(&mut input) {
                Ok(Some(request)) => request,
                Ok(None) => return Ok(()),
                Err(error) => return refuse(error, stream),
            };
            let _in_flight = Counted::up(self, |server| &server.in_flight);
            let kind = Kind::of(&request);
            let unread = if kind == Kind::Upload { 0 } else { request.body_length };
            if let Err(error) = http::skip_body(&mut input, unread) {
                return refuse(error, stream);
            }
            let out = &mut &*stream;
            let response = match kind {
                Kind::Answer => self.workload.answer(&request),
                Kind::Upload => bulk::upload(&request, &mut input)?,
                Kind::Download => {
                    bulk::download(&request, out)?;
                    continue;
                }
                Kind::Events => {
                    stream::events(&request, out)?;
                    continue;
                }
                Kind::Echo => return stream::echo(&mut input, out),
                Kind::Websocket => return websocket::serve(&request, &mut input, out),
            };
            let after = match self.terminating.load(Ordering::SeqCst) {
                true => After::Close,
                false => request.after,
            };
            response.write(&mut &*stream, after)?;
            if after == After::Close {
                return Ok(());
            }
        }
    }
}

/// Says what is wrong with a request, if that is what ended its reading.
fn refuse(error: io::Error, mut stream: &TcpStream) -> io::Result<()> {
    if error.kind() == io::ErrorKind::InvalidData {
        return Response::new(400, format!("{error}\n")).write(&mut stream, After::Close);
    }
    Err(error)
}

fn accept(server: &Arc<Server>, listener: &TcpListener) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors: wait for a connection to end rather than spin.
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        if server.connections.load(Ordering::SeqCst) >= CONNECTIONS_MAX {
            Response::new(503, "too many connections\n").write(&mut &stream, After::Close).ok();
            continue;
        }
        let server = Arc::clone(server);
        thread::spawn(move || {
            let _connection = Counted::up(&server, |server| &server.connections);
            // A peer that goes away in the middle is its own affair.
            converse(&server, stream).ok();
        });
    }
}

/// In whatever protocol the client begins with.
fn converse(server: &Arc<Server>, stream: TcpStream) -> io::Result<()> {
    if grpc::is_spoken(&stream)? { grpc::talk(server, stream) } else { server.talk(&stream) }
}

/// One more of something for as long as this lives, a panic included.
struct Counted {
    server: Arc<Server>,
    count: fn(&Server) -> &AtomicUsize,
}

impl Counted {
    fn up(server: &Arc<Server>, count: fn(&Server) -> &AtomicUsize) -> Self {
        count(server).fetch_add(1, Ordering::SeqCst);
        Self { server: Arc::clone(server), count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.count)(&self.server).fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Starts a server on a free port and returns its address and state.
    fn start(vars: &[(&str, &str)]) -> (SocketAddr, Arc<Server>) {
        let vars = vars.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let server = Arc::new(Server::new(Workload::new(vars.collect())));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let acceptor = Arc::clone(&server);
        thread::spawn(move || accept(&acceptor, &listener));
        (address, server)
    }

    fn get(address: SocketAddr, path: &str) -> String {
        send(address, &format!("GET {path} HTTP/1.1\r\nconnection: close\r\n\r\n"))
    }

    fn send(address: SocketAddr, text: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("server listens");
        stream.write_all(text.as_bytes()).expect("server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("server answers");
        answer
    }

    #[test]
    fn answers_name_version_and_replica() {
        let (address, _) = start(&[("HELLO_VERSION", "v7"), ("JACO_REPLICA", "shop-web-0")]);
        let answer = get(address, "/");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("hello v7 from shop-web-0\n"), "{answer}");
        assert!(get(address, "/nothing").starts_with("HTTP/1.1 404"));
        assert!(send(address, "rubbish\r\n\r\n").starts_with("HTTP/1.1 400"));
    }

    #[test]
    fn one_connection_carries_many_requests() {
        let (address, _) = start(&[]);
        let answer = send(
            address,
            "GET /healthz HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n",
        );
        assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 2, "{answer}");
    }

    #[test]
    fn health_follows_control() {
        let (address, _) = start(&[]);
        let post = |path| send(address, &format!("POST {path} HTTP/1.0\r\n\r\n"));
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 200"));
        assert!(post("/control/unhealthy").starts_with("HTTP/1.1 200"));
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 503"));
        assert!(post("/control/healthy").starts_with("HTTP/1.1 200"));
        assert!(get(address, "/healthz").starts_with("HTTP/1.1 200"));
        assert!(get(address, "/control/unhealthy").starts_with("HTTP/1.1 405"));
    }

    #[test]
    fn stop_finishes_requests_in_flight() {
        let (address, server) = start(&[]);
        let client = thread::spawn(move || get(address, "/slow?ms=300"));
        let deadline = Instant::now() + Duration::from_secs(5);
        while server.in_flight.load(Ordering::SeqCst) == 0 {
            assert!(Instant::now() < deadline, "request never arrived");
            thread::yield_now();
        }
        server.drain();
        assert!(client.join().expect("client ends").ends_with("waited 300 ms\n"));
    }

    #[test]
    fn stop_waits_at_most_the_grace_period() {
        let (address, server) = start(&[("HELLO_DRAIN_MS", "50")]);
        thread::spawn(move || get(address, "/slow?ms=5000"));
        let deadline = Instant::now() + Duration::from_secs(5);
        while server.in_flight.load(Ordering::SeqCst) == 0 {
            assert!(Instant::now() < deadline, "request never arrived");
            thread::yield_now();
        }
        let begun = Instant::now();
        server.drain();
        assert!(begun.elapsed() < Duration::from_secs(3));
    }
}
