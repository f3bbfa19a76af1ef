//! Raft messages as simulated datagrams: they are delayed, reordered and lost.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jaco_raft::testing::Journal;
use jaco_raft::{HandleError, Raft, RpcKind, Transport, TransportError};
use tokio::sync::{mpsc, oneshot};
use turmoil::net::UdpSocket;

use crate::oracle::Oracle;

const PORT: u16 = 9000;
const MAX_DATAGRAM: usize = 1 << 20;

type Answer = Result<Bytes, TransportError>;

/// A datagram: call id, whether it is a question, whether the answer is good, body.
struct Frame {
    call: u64,
    kind: u8,
    body: Bytes,
}

const QUESTION: u8 = 0;
const ANSWER: u8 = 1;
const REFUSAL: u8 = 2;

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

/// Calls waiting for an answer.
#[derive(Default)]
struct Waiting {
    next: u64,
    calls: BTreeMap<u64, oneshot::Sender<Answer>>,
}

/// The transport of one incarnation of a node.
pub(crate) struct Datagrams {
    out: mpsc::UnboundedSender<(String, Frame)>,
    waiting: Arc<Mutex<Waiting>>,
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
            waiting.next += 1;
            let call = waiting.next;
            waiting.calls.insert(call, sender);
            call
        };
        drop(self.out.send((address.to_owned(), Frame { call, kind: QUESTION, body })));
        // A second at most, so that a lost chunk of a snapshot is soon sent again.
        let answer = tokio::time::timeout(deadline.min(Duration::from_secs(1)), receiver).await;
        self.waiting.lock().unwrap().calls.remove(&call);
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(TransportError::Timeout),
        }
    }
}

/// What `serve` needs once the node is open.
pub(crate) struct Socket {
    socket: Arc<UdpSocket>,
    outgoing: mpsc::UnboundedReceiver<(String, Frame)>,
    waiting: Arc<Mutex<Waiting>>,
}

pub(crate) async fn bind() -> std::io::Result<(Arc<Datagrams>, Socket)> {
    let socket = Arc::new(UdpSocket::bind(("0.0.0.0", PORT)).await?);
    let (out, outgoing) = mpsc::unbounded_channel();
    let waiting = Arc::new(Mutex::new(Waiting::default()));
    let transport = Arc::new(Datagrams { out, waiting: Arc::clone(&waiting) });
    Ok((transport, Socket { socket, outgoing, waiting }))
}

/// Sends, receives and answers until the node crashes.
pub(crate) async fn serve(
    socket: Socket,
    raft: Raft<Journal>,
    oracle: Oracle,
) -> std::io::Result<()> {
    let Socket { socket, mut outgoing, waiting } = socket;
    let (reply, mut replies) = mpsc::unbounded_channel::<(SocketAddr, Frame)>();
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        tokio::select! {
            biased;
            Some((to, frame)) = replies.recv() => {
                // A cut link refuses; to raft that is a lost datagram.
                drop(socket.send_to(&frame.encode(), to).await);
            }
            Some((host, frame)) = outgoing.recv() => {
                drop(socket.send_to(&frame.encode(), (host.as_str(), PORT)).await);
            }
            received = socket.recv_from(&mut buffer) => {
                let (len, from) = received?;
                let frame = Frame::decode(&buffer[..len]);
                if frame.kind == QUESTION {
                    let (raft, reply, oracle) = (raft.clone(), reply.clone(), oracle.clone());
                    drop(tokio::spawn(answer(raft, reply, oracle, from, frame)));
                } else if let Some(call) = waiting.lock().unwrap().calls.remove(&frame.call) {
                    let refused = || TransportError::Refused("by the peer".to_owned());
                    let good = frame.kind == ANSWER;
                    drop(call.send(good.then_some(frame.body).ok_or_else(refused)));
                }
            }
        }
    }
}

async fn answer(
    raft: Raft<Journal>,
    reply: mpsc::UnboundedSender<(SocketAddr, Frame)>,
    oracle: Oracle,
    to: SocketAddr,
    question: Frame,
) {
    let (kind, body) = match raft.handle(question.body).await {
        Ok(body) => (ANSWER, body),
        Err(error) => {
            if let HandleError::Divergence { index } = error {
                oracle.violation(format!("node {} diverges at entry {index}", raft.id()));
            }
            (REFUSAL, Bytes::new())
        }
    };
    drop(reply.send((to, Frame { call: question.call, kind, body })));
}
