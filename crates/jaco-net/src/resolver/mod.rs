//! The resolver of a site, on the addresses of its router.
//!
//! It knows who asks by the address that the question comes from; the rules let none through that is not of the
//! network of its interface.

mod answer;
mod limit;
mod served;
mod upstream;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{RData, Record};
use jaco_dataplane::{Lookup, Names, lookup};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::counts::{Count, QuestionCounters};
use crate::error::{NetError, refused};
use crate::namespace::Namespace;
use answer::{Outcome, answer};
use limit::Limit;
pub(crate) use served::ServedNames;
use upstream::{Transport, Upstream};

/// The longest question over UDP that is read.
const QUESTION: usize = 4096;

/// How long a connection may wait for its next question.
const IDLE: Duration = Duration::from_secs(10);

/// Connections at a time.
const CONNECTIONS: usize = 256;

/// A running resolver. It ends when this is dropped.
#[derive(Debug)]
pub struct Resolver {
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// What all questions share.
#[derive(Debug)]
struct Shared {
    names: Arc<ServedNames>,
    limit: Mutex<Limit>,
    upstream: Upstream,
}

impl Resolver {
    pub(crate) async fn start(
        namespace: &Namespace,
        names: Arc<ServedNames>,
        resolvers: Vec<SocketAddr>,
    ) -> Result<Self, NetError> {
        let open = || {
            let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 53))?;
            let tcp = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 53))?;
            udp.set_nonblocking(true)?;
            tcp.set_nonblocking(true)?;
            io::Result::Ok((udp, tcp))
        };
        let what = "open the resolver's sockets";
        let (udp, tcp) = namespace.run(open)?.map_err(refused(what))?;
        let udp = tokio::net::UdpSocket::from_std(udp).map_err(refused(what))?;
        let tcp = tokio::net::TcpListener::from_std(tcp).map_err(refused(what))?;
        let upstream = Upstream::new(resolvers);
        let shared = Arc::new(Shared { names, limit: Mutex::default(), upstream });
        let tasks = vec![
            tokio::spawn(serve_datagrams(Arc::new(udp), Arc::clone(&shared))),
            tokio::spawn(serve_connections(tcp, shared)),
        ];
        Ok(Self { tasks })
    }
}

/// What a name leads to for who asks from this address, in the order of an answer; `None` if nothing asks from there,
/// or the name is not one of the cluster that it may know.
pub(crate) fn addresses(names: &Names, asker: Ipv4Addr, name: &str) -> Option<Vec<Ipv4Addr>> {
    match lookup(names, names.askers.get(&asker)?, name) {
        Lookup::Known(addresses) => Some(answer::order(&addresses, 0)),
        Lookup::Unknown | Lookup::Foreign => None,
    }
}

/// What becomes of a question.
enum Reply {
    Now(Message),
    /// For these resolvers outside, or those of the node if there are none.
    Forward(Message, Vec<IpAddr>),
    Nothing,
}

impl Shared {
    fn reply(&self, question: &[u8], from: IpAddr) -> Reply {
        let counters = &self.names.counters;
        let IpAddr::V4(from) = from else { return Reply::Nothing };
        let Ok(question) = Message::from_vec(question) else {
            counters.invalid.one();
            return Reply::Nothing;
        };
        let names = self.names.read();
        let now = Instant::now();
        let Some(asker) = names.askers.get(&from) else {
            counters.refused.one();
            return Reply::Now(refusal(&question, ResponseCode::Refused));
        };
        let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        if !limit.admits(from, now, |address| names.askers.contains_key(&address)) {
            counters.limited.one();
            return Reply::Nothing;
        }
        drop(limit);
        match answer(&names, asker, &question, seed()) {
            Outcome::Answer(message) => {
                counters.of(message.metadata.response_code).one();
                self.names.note(message.answers.iter().filter_map(address), now);
                Reply::Now(message)
            }
            Outcome::Forward => Reply::Forward(question, asker.resolvers.clone()),
        }
    }

    async fn forward(
        &self,
        question: &Message,
        resolvers: &[IpAddr],
        transport: Transport,
    ) -> Message {
        let pool = self.names.read().pool;
        let found = self.upstream.ask(question, resolvers, transport, pool).await;
        let counters = &self.names.counters;
        match &found {
            Some(_) => counters.forwarded.one(),
            None => counters.forward_failed.one(),
        }
        found.unwrap_or_else(|| refusal(question, ResponseCode::ServFail))
    }
}

impl QuestionCounters {
    /// The one of answers with this code.
    #[expect(clippy::wildcard_enum_match_arm, reason = "we answer with no other codes")]
    fn of(&self, code: ResponseCode) -> &Count {
        match code {
            ResponseCode::NoError => &self.answered,
            ResponseCode::NXDomain => &self.no_such_name,
            ResponseCode::Refused => &self.refused,
            _ => &self.invalid,
        }
    }
}

fn address(record: &Record) -> Option<Ipv4Addr> {
    if let RData::A(address) = &record.data { Some(address.0) } else { None }
}

fn refusal(question: &Message, code: ResponseCode) -> Message {
    let mut message = Message::error_msg(question.metadata.id, question.metadata.op_code, code);
    message.metadata.recursion_desired = question.metadata.recursion_desired;
    message.add_queries(question.queries.iter().cloned());
    message
}

async fn serve_datagrams(socket: Arc<tokio::net::UdpSocket>, shared: Arc<Shared>) {
    let mut buffer = vec![0; QUESTION];
    loop {
        // An error is about an earlier answer that nobody wanted.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        match shared.reply(&buffer[..length], from.ip()) {
            Reply::Now(message) => {
                send(&socket, &message, limit_of(&buffer[..length]), from).await;
            }
            Reply::Forward(question, resolvers) => {
                let (socket, shared) = (Arc::clone(&socket), Arc::clone(&shared));
                tokio::spawn(async move {
                    let message = shared.forward(&question, &resolvers, Transport::Datagram).await;
                    send(&socket, &message, question.max_payload(), from).await;
                });
            }
            Reply::Nothing => {}
        }
    }
}

fn limit_of(question: &[u8]) -> u16 {
    Message::from_vec(question).map_or(512, |question| question.max_payload())
}

async fn send(socket: &tokio::net::UdpSocket, message: &Message, limit: u16, to: SocketAddr) {
    let limit = usize::from(limit.clamp(512, 1232));
    let whole = message.to_vec().ok().filter(|bytes| bytes.len() <= limit);
    let bytes = whole.or_else(|| message.truncate().to_vec().ok());
    if let Some(bytes) = bytes {
        // Whoever asked asks again.
        drop(socket.send_to(&bytes, to).await);
    }
}

async fn serve_connections(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, from)) = listener.accept().await else { continue };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A connection that breaks ends: there is nobody to tell.
            drop(serve_connection(stream, from.ip(), &shared).await);
            drop(place);
        });
    }
}

async fn serve_connection(mut stream: TcpStream, from: IpAddr, shared: &Shared) -> io::Result<()> {
    loop {
        let length = usize::from(timeout(IDLE, stream.read_u16()).await??);
        let mut question = vec![0; length];
        timeout(IDLE, stream.read_exact(&mut question)).await??;
        let message = match shared.reply(&question, from) {
            Reply::Now(message) => message,
            Reply::Forward(question, resolvers) => {
                shared.forward(&question, &resolvers, Transport::Stream).await
            }
            Reply::Nothing => return Ok(()),
        };
        let answer = message.to_vec().map_err(io::Error::other)?;
        let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
        let framed = [length.to_be_bytes().as_slice(), &answer].concat();
        timeout(IDLE, stream.write_all(&framed)).await??;
    }
}

/// Bits that nobody can foresee.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    filled.expect("the system has random bytes once it is up");
    u64::from_ne_bytes(bytes)
}
