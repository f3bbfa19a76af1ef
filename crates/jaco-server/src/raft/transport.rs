//! The transport of raft over the connections to the members.

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use jaco_pki::DialError;
use jaco_proto::v1::RaftRequest;
use jaco_raft::{Pipe, RpcKind, StreamRenewal, Transport, TransportError, framed};
use jaco_types::NodeId;
use tonic::{Code, Status};

use crate::peers::Peers;

/// Sends raft messages over mutual TLS. The dialer verifies the identity of the node at an address before
/// anything is sent.
#[derive(Debug, Clone)]
pub struct PeerTransport {
    peers: Peers,
}

impl PeerTransport {
    /// A transport over these connections.
    #[must_use]
    pub fn new(peers: Peers) -> Self {
        Self { peers }
    }
}

#[async_trait]
impl Transport for PeerTransport {
    async fn call(
        &self,
        target: u64,
        address: &str,
        _kind: RpcKind,
        body: Bytes,
        deadline: Duration,
    ) -> Result<Bytes, TransportError> {
        let message = RaftRequest { body };
        let sent = self.peers.raft((NodeId(target), address), message, deadline);
        // The peer knows the deadline; a hung connection must not outlive it either.
        let answer = tokio::time::timeout(deadline, sent).await;
        match answer {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(status)) => Err(explain(&status)),
            Err(_) => Err(TransportError::Timeout),
        }
    }

    async fn pipe(&self, target: u64, address: &str) -> Result<Box<dyn Pipe>, TransportError> {
        match self.peers.raft_stream(NodeId(target), address).await {
            Ok(connection) => Ok(framed(connection)),
            Err(DialError::Connect(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                Err(TransportError::NotListening(error.to_string()))
            }
            Err(error) => Err(TransportError::Unreachable(with_causes(&error))),
        }
    }

    fn renewal(&self) -> StreamRenewal {
        self.peers.streams().clone()
    }
}

fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

fn explain(status: &Status) -> TransportError {
    let (code, message) = (status.code(), status.message().to_owned());
    if [Code::DeadlineExceeded, Code::Cancelled].contains(&code) {
        return TransportError::Timeout;
    }
    if code == Code::Unavailable {
        return TransportError::Unreachable(message);
    }
    TransportError::Refused(message)
}
