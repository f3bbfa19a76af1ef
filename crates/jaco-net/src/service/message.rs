//! What is said over the socket of the router: JSON, each message with its length before it.
//!
//! Both ends are of one program and one version, on one machine; what cannot be read ends the connection.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use jaco_dataplane::PublicKey;
use jaco_dataplane::edge::ListenerKey;
use jaco_types::{NetworkId, StateIndex, TunnelBackend};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::change_message::ChangeMessage;
use super::key::Keys;
use super::plan_message::PlanMessage;
use crate::counts::RouterCounts;
use crate::handover::Missing;
use crate::probe::{ProbeQuestion, ProbeReport};
use crate::tunnel::Backend;

/// The longest message: a plan of several hundred thousand addresses.
const LENGTH_MAX: usize = 256 << 20;

/// Memory for a message of which nothing has arrived yet.
const RESERVED_MAX: usize = 64 << 10;

/// What the router is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Hold this.
    Plan(Box<PlanMessage>),
    /// Hold what this makes of the plan that is held.
    Change(Box<ChangeMessage>),
    /// Try again at once what failed for want of a bridge.
    Retry,
    /// Find out what holds between this router and others. Answered by [`Said::Probed`].
    Probe(ProbeQuestion),
    /// Say what was counted. Answered by [`Said::Counted`]; a router of an earlier version ends the connection.
    Count,
    /// Make another key, for plans to name. Answered by [`Said::NextKey`].
    MakeKey,
}

/// What a router says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    /// What it holds; said first, and whenever it changes.
    Status(RouterStatus),
    /// The answer to the question that was asked over this connection.
    Probed(Box<ProbeReport>),
    /// What was counted; none if the tunnel could not be asked.
    Counted(Option<RouterCounts>),
    /// The public part of the key that plans may name from now on, or why there is none.
    NextKey(Result<[u8; 32], String>),
}

/// What a router says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouterStatus {
    key: [u8; 32],
    next_key: Option<[u8; 32]>,
    /// The UDP port that it listens on.
    pub port: u16,
    userspace: bool,
    applied: Option<u64>,
    forgotten: Option<u64>,
    refused: Option<u64>,
    failed: BTreeMap<u32, String>,
    listeners_failed: BTreeMap<String, String>,
    /// Those whose address is another node's.
    #[serde(default)]
    listeners_elsewhere: BTreeSet<String>,
    /// Why the last plan could not be carried out, if that is so.
    pub error: Option<String>,
}

/// Why a router has no port in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkFailure {
    /// The network.
    pub network: NetworkId,
    /// Why.
    pub reason: String,
}

impl RouterStatus {
    pub(super) fn new(keys: &Keys, port: u16, backend: Backend) -> Self {
        let userspace = backend == Backend::Userspace;
        Self {
            key: keys.current.public_key().0,
            next_key: keys.next.as_ref().map(|next| next.public_key().0),
            port,
            userspace,
            applied: None,
            forgotten: None,
            refused: None,
            failed: BTreeMap::new(),
            listeners_failed: BTreeMap::new(),
            listeners_elsewhere: BTreeSet::new(),
            error: None,
        }
    }

    /// Its public key.
    pub fn key(&self) -> PublicKey {
        PublicKey(self.key)
    }

    /// The public key that it takes in place of that, once a plan names it.
    pub fn next_key(&self) -> Option<PublicKey> {
        self.next_key.map(PublicKey)
    }

    /// Where its tunnel runs.
    pub fn backend(&self) -> TunnelBackend {
        match self.userspace {
            true => TunnelBackend::Userspace,
            false => TunnelBackend::Kernel,
        }
    }

    /// The state that the plan is of which it holds. What failed in it is in [`RouterStatus::failure`].
    pub fn applied(&self) -> Option<StateIndex> {
        self.applied.map(StateIndex)
    }

    /// The newest state of which nobody remembers a name of this router that it no longer has: no answer leads to
    /// what had left by then. `None` before that is so of any.
    pub fn forgotten(&self) -> Option<StateIndex> {
        self.forgotten.map(StateIndex)
    }

    /// The state of a change that it was told and could not take, as it did not hold the plan that this is a change of:
    /// it needs a whole one. `None` once it has one.
    pub fn refused(&self) -> Option<StateIndex> {
        self.refused.map(StateIndex)
    }

    /// Why it has no port in one of these networks, if that is so.
    pub fn failure(&self, networks: &[NetworkId]) -> Option<NetworkFailure> {
        networks.iter().find_map(|network| {
            let reason = self.failed.get(&network.0)?.clone();
            Some(NetworkFailure { network: *network, reason })
        })
    }

    /// Why it has no ports in networks, by network.
    pub fn failures(&self) -> impl Iterator<Item = NetworkFailure> {
        let failed = self.failed.iter();
        failed
            .map(|(id, reason)| NetworkFailure { network: NetworkId(*id), reason: reason.clone() })
    }

    /// The sockets of the edge that are planned and not open, such as `tcp/443`, each with the reason. Nothing else fails
    /// for them.
    pub fn listener_failures(&self) -> &BTreeMap<String, String> {
        &self.listeners_failed
    }

    /// The sockets of the edge that are planned and whose address this node does not have: they are other nodes'.
    pub fn listeners_elsewhere(&self) -> &BTreeSet<String> {
        &self.listeners_elsewhere
    }

    pub(super) fn misses_listeners(&self) -> bool {
        !self.listeners_failed.is_empty() || !self.listeners_elsewhere.is_empty()
    }

    /// Says which sockets of the edge are not open; whether that is news.
    pub(super) fn miss_listeners(&mut self, missing: BTreeMap<ListenerKey, Missing>) -> bool {
        let (mut failed, mut elsewhere) = (BTreeMap::new(), BTreeSet::new());
        for (key, missing) in missing {
            match missing {
                Missing::Failed(why) => drop(failed.insert(key.to_string(), why)),
                Missing::Elsewhere => drop(elsewhere.insert(key.to_string())),
            }
        }
        let is_news = (&self.listeners_failed, &self.listeners_elsewhere) != (&failed, &elsewhere);
        (self.listeners_failed, self.listeners_elsewhere) = (failed, elsewhere);
        is_news
    }

    pub(super) fn has_failures(&self) -> bool {
        self.error.is_some() || !self.failed.is_empty()
    }

    pub(super) fn offer(&mut self, next: PublicKey) {
        self.next_key = Some(next.0);
    }

    /// It has taken the next key.
    pub(super) fn take_key(&mut self, key: PublicKey) {
        self.key = key.0;
        self.next_key = None;
    }

    pub(super) fn forget(&mut self, index: StateIndex) {
        self.forgotten = Some(index.0);
    }

    pub(super) fn refuse(&mut self, index: StateIndex) {
        self.refused = Some(index.0);
    }

    /// It was told a whole plan.
    pub(super) fn refuse_nothing(&mut self) {
        self.refused = None;
    }

    pub(super) fn hold(&mut self, index: StateIndex, failed: BTreeMap<NetworkId, String>) {
        self.applied = Some(index.0);
        self.failed = failed.into_iter().map(|(id, reason)| (id.0, reason)).collect();
        self.error = None;
    }
}

/// Writes a message.
pub(super) async fn send<M: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &M,
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(&body).await
}

/// Reads a message; `None` at the end of the connection.
pub(super) async fn receive<M: for<'a> Deserialize<'a>>(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<M>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > LENGTH_MAX {
        return Err(io::Error::other(format!("a message of {length} bytes is too long")));
    }
    let body = read_body(stream, length).await?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// Reads `length` bytes into memory that grows as they come: a length alone costs its sender nothing.
async fn read_body(stream: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(length.min(RESERVED_MAX));
    stream.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        let message = format!("{} of {length} bytes came", body.len());
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;

    use super::*;

    #[tokio::test]
    async fn what_is_too_long_is_not_read() {
        let mut too_long: &[u8] = &[0xff; 8];
        assert!(receive::<Order>(&mut too_long).await.is_err());
    }

    /// What is offered to a stream to be filled, at most.
    struct Slow {
        bytes: &'static [u8],
        offered: usize,
    }

    impl AsyncRead for Slow {
        fn poll_read(
            mut self: Pin<&mut Self>,
            ctx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.offered = self.offered.max(buffer.remaining());
            Pin::new(&mut self.bytes).poll_read(ctx, buffer)
        }
    }

    /// R-FAULT-3: memory is taken for bytes that are there, not for those that are announced.
    #[tokio::test]
    async fn an_announced_length_takes_no_memory() {
        let announced: &[u8] = &[0x07, 0, 0, 0, b'{', b'}'];
        let mut slow = Slow { bytes: announced, offered: 0 };
        let cut = receive::<Order>(&mut slow).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
        assert!(slow.offered <= 2 * RESERVED_MAX, "{} bytes", slow.offered);
    }
}
