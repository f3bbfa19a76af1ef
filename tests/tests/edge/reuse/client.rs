//! A client in a container's network that holds connections, and keeps addresses for as long as nobody else may have them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jaco_testkit::namespace;
use jaco_testkit::random::Random;

use super::dns;

/// How long an address is used after the name server told it: shortly less than the quarantine of a freed address (NET-4).
const KEPT: Duration = Duration::from_secs(57);

/// How often names are asked for.
const RESOLVED: Duration = Duration::from_millis(500);

/// How long a connection or an answer may take. An instance that has ended says nothing.
const ANSWERED: Duration = Duration::from_millis(250);

/// Connections that are held; the oldest goes for the next.
const HELD: usize = 32;

/// Between two requests.
const PAUSE: Duration = Duration::from_millis(5);

/// Where a client is.
pub(super) struct Seat {
    pub(super) namespace: PathBuf,
    pub(super) name_server: IpAddr,
    pub(super) seed: u64,
}

/// What came of its requests.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    /// Requests to addresses that were kept, and answered by the service that they were told of.
    pub(super) answered: u64,
    /// Of those to addresses that were kept, the ones that nobody answered.
    pub(super) vain: u64,
    /// How long those took, all together.
    pub(super) waited: Duration,
    /// Requests over connections that were held, and answered by the same instance.
    pub(super) held: u64,
    /// Connections that ended while they were held.
    pub(super) ended: u64,
}

/// An answer to a name.
#[derive(Debug, Clone, Copy)]
struct Answer {
    service: &'static str,
    address: Ipv4Addr,
    at: Instant,
}

struct Connection {
    stream: BufReader<TcpStream>,
    /// What the instance calls itself.
    instance: String,
}

/// Asks these services until it is stopped.
///
/// # Errors
/// When another service, or another instance over the same connection, has answered.
pub(super) fn run(
    seat: Seat,
    services: [&'static str; 2],
    stop: &AtomicBool,
) -> Result<Tally, String> {
    namespace::enter(&seat.namespace);
    let (mut random, mut tally) = (Random::new(seat.seed), Tally::default());
    let (mut told, mut held) = (Vec::<Answer>::new(), Vec::<Connection>::new());
    let mut next = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        let now = Instant::now();
        if now >= next {
            next = now + RESOLVED;
            for service in services {
                // A router that is busy may be late: what was told before is used on.
                let found = dns::addresses(seat.name_server, service).unwrap_or_default();
                told.retain(|one| one.service != service || !found.contains(&one.address));
                told.extend(found.into_iter().map(|address| Answer { service, address, at: now }));
            }
        }
        told.retain(|one| one.at.elapsed() < KEPT);
        if !told.is_empty() {
            let one = random.one_of(&told);
            let asked = Instant::now();
            match Connection::open(one)? {
                Some(connection) => {
                    tally.answered += 1;
                    held.push(connection);
                    held.drain(..held.len().saturating_sub(HELD));
                }
                None => {
                    tally.vain += 1;
                    tally.waited += asked.elapsed();
                }
            }
        }
        if !held.is_empty() {
            let at = random.below(held.len());
            match held[at].says_the_same()? {
                Still::There => tally.held += 1,
                Still::Ended => {
                    held.remove(at);
                    tally.ended += 1;
                }
            }
        }
        thread::sleep(PAUSE);
    }
    Ok(tally)
}

/// Whether a connection can be used again.
enum Still {
    There,
    Ended,
}

impl Connection {
    /// `None` if nobody answers.
    fn open(told: Answer) -> Result<Option<Self>, String> {
        let address = SocketAddr::from((told.address, 8080));
        let Ok(stream) = TcpStream::connect_timeout(&address, ANSWERED) else { return Ok(None) };
        stream.set_read_timeout(Some(ANSWERED)).expect("it is no zero");
        let mut connection = Self { stream: BufReader::new(stream), instance: String::new() };
        let Ok(said) = connection.ask() else { return Ok(None) };
        if !said.contains(&format!("hello {} from ", told.service)) {
            let after = told.at.elapsed();
            return Err(format!("{said:?} was said at {told:?}, {after:?} after it was told"));
        }
        connection.instance = said;
        Ok(Some(connection))
    }

    fn says_the_same(&mut self) -> Result<Still, String> {
        let Ok(said) = self.ask() else { return Ok(Still::Ended) };
        match said == self.instance {
            true => Ok(Still::There),
            false => Err(format!("{said:?} over a connection to {:?}", self.instance)),
        }
    }

    /// The body of the answer to `GET /`.
    fn ask(&mut self) -> std::io::Result<String> {
        self.stream.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: one\r\n\r\n")?;
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let head = line.trim_end().to_ascii_lowercase();
            if head.is_empty() {
                break;
            }
            if let Some(number) = head.strip_prefix("content-length: ") {
                length = number.parse().map_err(std::io::Error::other)?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}
