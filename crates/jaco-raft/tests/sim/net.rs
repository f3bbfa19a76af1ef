//! Raft messages as simulated datagrams: they are delayed, reordered and lost. A line puts its frames
//! back in order; one that is lost stops it for good, as a connection would stop.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jaco_raft::testing::Journal;
use jaco_raft::{HandleError, Pipe, Raft, RpcKind, Transport, TransportError};
use tokio::sync::{mpsc, oneshot};
use turmoil::net::UdpSocket;

use crate::line::{Line, Ordered};
use crate::oracle::Oracle;
use crate::world;

const PORT: u16 = 9000;
const MAX_DATAGRAM: usize = 1 << 20;

/// How often the machine of a process that has ended closes its connections.
const CLOSING: Duration = Duration::from_millis(4);

/// The nodes whose processes run.
pub(crate) type Running = Arc<Mutex<BTreeMap<u64, Raft<Journal>>>>;

type Answer = Result<Bytes, TransportError>;

/// A datagram: call id, whether it is a question, whether the answer is good, body.
pub(crate) struct Frame {
    pub(crate) call: u64,
    pub(crate) kind: u8,
    pub(crate) body: Bytes,
}

const QUESTION: u8 = 0;
const ANSWER: u8 = 1;
const REFUSAL: u8 = 2;
/// A frame of a line, from who opened it; and from the other end.
const LINE: u8 = 3;
const LINE_BACK: u8 = 4;

/// Where a datagram goes.
#[derive(Clone)]
pub(crate) enum To {
    Node(String),
    Address(SocketAddr),
}

pub(crate) type Outgoing = mpsc::UnboundedSender<(To, Frame)>;

impl Frame {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.call.to_be_bytes().to_vec();
        bytes.push(self.kind);
        bytes.extend_from_slice(&self.body);
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let call = u64::from_be_bytes(bytes[..8].try_into().unwrap());
        Self { call, kind: bytes[8], body: Bytes::copy_from_slice(&bytes[9..]) }
    }
}

/// Calls waiting for an answer, and lines that answers come back on.
struct Waiting {
    /// Begins at the time of the start, so that no number is used by two incarnations of a node.
    next: u64,
    calls: BTreeMap<u64, oneshot::Sender<Answer>>,
    lines: BTreeMap<u64, Ordered>,
}

impl Waiting {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// The transport of one incarnation of a node.
pub(crate) struct Datagrams {
    out: Outgoing,
    waiting: Arc<Mutex<Waiting>>,
    running: Running,
}

#[async_trait]
impl Transport for Datagrams {
    async fn call(
        &self,
        _target: u64,
        address: &str,
        _kind: RpcKind,
        body: Bytes,
        deadline: Duration,
    ) -> Answer {
        let (sender, receiver) = oneshot::channel();
        let call = {
            let mut waiting = self.waiting.lock().unwrap();
            let call = waiting.number();
            waiting.calls.insert(call, sender);
            call
        };
        drop(self.out.send((To::Node(address.to_owned()), Frame { call, kind: QUESTION, body })));
        // A second at most, so that a lost chunk of a snapshot is soon sent again.
        let answer = tokio::time::timeout(deadline.min(Duration::from_secs(1)), receiver).await;
        self.waiting.lock().unwrap().calls.remove(&call);
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(TransportError::Timeout),
        }
    }

    async fn pipe(&self, target: u64, address: &str) -> Result<Box<dyn Pipe>, TransportError> {
        // A real machine cannot say so over a cut link; it is true nevertheless.
        if !self.running.lock().unwrap().contains_key(&target) {
            return Err(TransportError::NotListening("its process has ended".to_owned()));
        }
        let (sender, incoming) = mpsc::unbounded_channel();
        let mut waiting = self.waiting.lock().unwrap();
        let number = waiting.number();
        waiting.lines.insert(number, Ordered::new(sender));
        let to = To::Node(address.to_owned());
        Ok(Box::new(Line::new(number, (to, LINE), self.out.clone(), incoming)))
    }
}

/// What `serve` needs once the node is open.
pub(crate) struct Socket {
    socket: Arc<UdpSocket>,
    out: Outgoing,
    outgoing: mpsc::UnboundedReceiver<(To, Frame)>,
    waiting: Arc<Mutex<Waiting>>,
    running: Running,
}

pub(crate) async fn bind(running: Running) -> std::io::Result<(Arc<Datagrams>, Socket)> {
    let socket = Arc::new(UdpSocket::bind(("0.0.0.0", PORT)).await?);
    let (out, outgoing) = mpsc::unbounded_channel();
    let next = u64::try_from(turmoil::elapsed().as_nanos()).unwrap();
    let waiting = Waiting { next, calls: BTreeMap::new(), lines: BTreeMap::new() };
    let waiting = Arc::new(Mutex::new(waiting));
    let transport = Arc::new(Datagrams {
        out: out.clone(),
        waiting: Arc::clone(&waiting),
        running: Arc::clone(&running),
    });
    Ok((transport, Socket { socket, out, outgoing, waiting, running }))
}

/// Sends, receives and answers until the node crashes.
pub(crate) async fn serve(
    socket: Socket,
    raft: Raft<Journal>,
    oracle: Oracle,
) -> std::io::Result<()> {
    let Socket { socket, out, mut outgoing, waiting, running } = socket;
    let mut answering = BTreeMap::new();
    let mut closing = tokio::time::interval(CLOSING);
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        tokio::select! {
            biased;
            // A cut link refuses; to raft that is a lost datagram.
            Some((to, frame)) = outgoing.recv() => match to {
                To::Node(host) => {
                    drop(socket.send_to(&frame.encode(), (host.as_str(), PORT)).await);
                }
                To::Address(address) => drop(socket.send_to(&frame.encode(), address).await),
            },
            _ = closing.tick() => {
                let running = running.lock().unwrap();
                let runs = |from: &SocketAddr| running.keys().any(|id| is_at(*id, from));
                answering.retain(|(from, _), _| runs(from));
            }
            received = socket.recv_from(&mut buffer) => {
                let (len, from) = received?;
                let frame = Frame::decode(&buffer[..len]);
                match frame.kind {
                    QUESTION => {
                        let (raft, oracle) = (raft.clone(), oracle.clone());
                        drop(tokio::spawn(answer(raft, out.clone(), oracle, from, frame)));
                    }
                    LINE => {
                        let line = answering.entry((from, frame.call)).or_insert_with(|| {
                            let (sender, incoming) = mpsc::unbounded_channel();
                            let to = (To::Address(from), LINE_BACK);
                            let line = Line::new(frame.call, to, out.clone(), incoming);
                            drop(tokio::spawn(answer_line(raft.clone(), oracle.clone(), line)));
                            Ordered::new(sender)
                        });
                        line.take(&frame.body);
                    }
                    LINE_BACK => {
                        if let Some(line) = waiting.lock().unwrap().lines.get_mut(&frame.call) {
                            line.take(&frame.body);
                        }
                    }
                    kind => {
                        if let Some(call) = waiting.lock().unwrap().calls.remove(&frame.call) {
                            let refused = || TransportError::Refused("by the peer".to_owned());
                            drop(call.send((kind == ANSWER).then_some(frame.body).ok_or_else(refused)));
                        }
                    }
                }
            }
        }
    }
}

fn is_at(id: u64, address: &SocketAddr) -> bool {
    turmoil::lookup(world::name(id)) == address.ip()
}

async fn answer(
    raft: Raft<Journal>,
    out: Outgoing,
    oracle: Oracle,
    to: SocketAddr,
    question: Frame,
) {
    let (kind, body) = match raft.handle(question.body).await {
        Ok(body) => (ANSWER, body),
        Err(error) => {
            report(&raft, &oracle, &error);
            (REFUSAL, Bytes::new())
        }
    };
    drop(out.send((To::Address(to), Frame { call: question.call, kind, body })));
}

/// A simulated network knows no identities: every sender is believed.
async fn answer_line(raft: Raft<Journal>, oracle: Oracle, line: Line) {
    if let Err(error) = raft.serve(Box::new(line), |_| Ok(())).await {
        report(&raft, &oracle, &error);
    }
}

fn report(raft: &Raft<Journal>, oracle: &Oracle, error: &HandleError) {
    if let HandleError::Divergence { index } = error {
        oracle.violation(format!("node {} diverges at entry {index}", raft.id()));
    }
}
