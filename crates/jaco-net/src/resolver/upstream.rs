//! Questions about other names, to the resolvers that a service names, or to those of the node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use std::{io, iter};

use hickory_proto::op::Message;
use hickory_proto::rr::{RData, Record};
use jaco_types::Ipv4Prefix;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long a resolver may take before the next one is asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where resolvers listen.
const PORT: u16 = 53;

/// Questions at a time: each has a socket of its own.
const QUESTIONS: usize = 512;

/// How a question came, and is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Datagram,
    Stream,
}

/// The resolvers of the node, in the order in which they are asked.
#[derive(Debug)]
pub(super) struct Upstream {
    resolvers: Vec<SocketAddr>,
    places: Semaphore,
}

impl Upstream {
    pub(super) fn new(resolvers: Vec<SocketAddr>) -> Self {
        Self { resolvers, places: Semaphore::new(QUESTIONS) }
    }

    /// The answer of the first of `resolvers` that gives one, or of the first of the node's if they are none, without addresses of
    /// `pool`; `None` if none does, or too many questions are being asked.
    pub(super) async fn ask(
        &self,
        question: &Message,
        resolvers: &[IpAddr],
        transport: Transport,
        pool: Option<Ipv4Prefix>,
    ) -> Option<Message> {
        let _place = self.places.try_acquire().ok()?;
        let own: Vec<_> = resolvers.iter().map(|address| SocketAddr::new(*address, PORT)).collect();
        for resolver in if own.is_empty() { &self.resolvers } else { &own } {
            // Another number than the container's: it cannot foresee what is asked outside.
            let mut sent = question.clone();
            sent.metadata.id = u16::try_from(super::seed() & 0xffff).unwrap_or_default();
            let answer = match transport {
                Transport::Datagram => timeout(PATIENCE, by_datagram(*resolver, &sent)).await,
                Transport::Stream => timeout(PATIENCE, by_stream(*resolver, &sent)).await,
            };
            if let Ok(Ok(mut answer)) = answer {
                answer.metadata.id = question.metadata.id;
                return Some(without_pool(answer, pool));
            }
        }
        None
    }
}

/// A socket of its own for each question, so that its port is another one each time.
async fn by_datagram(resolver: SocketAddr, question: &Message) -> io::Result<Message> {
    let any: SocketAddr = match resolver {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(resolver).await?;
    socket.send(&question.to_vec().map_err(io::Error::other)?).await?;
    let mut buffer = vec![0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // What does not answer this question is for another one, or forged: the right answer may follow.
        let answer = Message::from_vec(&buffer[..length]).ok();
        if let Some(answer) = answer.filter(|answer| answers(question, answer)) {
            return Ok(answer);
        }
    }
}

async fn by_stream(resolver: SocketAddr, question: &Message) -> io::Result<Message> {
    let mut stream = TcpStream::connect(resolver).await?;
    let bytes = question.to_vec().map_err(io::Error::other)?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[length.to_be_bytes().as_slice(), &bytes].concat()).await?;
    let mut buffer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut buffer).await?;
    let answer = Message::from_vec(&buffer).map_err(io::Error::other)?;
    let other = || io::Error::from(io::ErrorKind::InvalidData);
    if answers(question, &answer) { Ok(answer) } else { Err(other()) }
}

fn answers(question: &Message, answer: &Message) -> bool {
    answer.metadata.id == question.metadata.id && answer.queries == question.queries
}

/// Nobody outside says what an address of the cluster is called (DNS rebinding).
fn without_pool(mut answer: Message, pool: Option<Ipv4Prefix>) -> Message {
    let foreign = |record: &Record| {
        let address = if let RData::A(address) = &record.data {
            Some(address.0)
        } else if let RData::AAAA(address) = &record.data {
            address.0.to_ipv4_mapped()
        } else {
            None
        };
        !address.zip(pool).is_some_and(|(address, pool)| pool.contains(address))
    };
    for records in iter::once(&mut answer.answers).chain([&mut answer.additionals]) {
        records.retain(foreign);
    }
    answer
}
