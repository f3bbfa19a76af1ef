//! A cluster as a client sees it: its nodes, the connections to them, and the credential.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jaco_proto::rpc::{AUTHORITIES, STALE_MS, STALE_NODE};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::Request;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::transport::Channel;
use zeroize::Zeroizing;

use crate::connect::connect;
use crate::error::ClientError;
use crate::members;
use crate::retry::Connected;
use crate::target::{Endpoint, Target};

/// The largest response that is read: the status of thousands of replicas.
pub(crate) const RESPONSE_BYTES_MAX: usize = 64 << 20;

/// How long a node is tried before the next one is tried as well: a few round trips across a continent.
const HEAD_START: Duration = Duration::from_millis(200);

/// Stands for "no node has been connected to".
const NEVER: usize = usize::MAX;

/// A client of one cluster. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Client {
    nodes: Arc<[Node]>,
    /// The node that was connected to last, or [`NEVER`].
    preferred: Arc<AtomicUsize>,
    authorization: Option<MetadataValue<Ascii>>,
    /// No call takes longer than until then.
    deadline: Option<Instant>,
    staleness: Arc<std::sync::Mutex<Option<Staleness>>>,
    members: Arc<std::sync::Mutex<Vec<String>>>,
    authorities: Arc<std::sync::Mutex<Option<String>>>,
    waiting: Arc<Waiting>,
}

/// Is told why a call is repeated.
type Tell = dyn Fn(&ClientError) + Send + Sync;

/// What is told while an answer is waited for.
#[derive(Default)]
struct Waiting {
    tell: OnceLock<Box<Tell>>,
    /// Once the caller shows the progress of something, or it was told.
    is_over: AtomicBool,
}

/// How old an answer may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staleness {
    /// The node that answered.
    pub node: String,
    /// How long it has had no contact with a quorum.
    pub age: Duration,
}

pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    channel: Mutex<Option<Channel>>,
}

impl Client {
    /// A client of this target. It connects at the first call.
    #[must_use]
    pub fn new(target: Target) -> Self {
        let node = |endpoint| Node { endpoint, channel: Mutex::new(None) };
        let authorization = target.token.map(|token| {
            let text = Zeroizing::new(format!("Bearer {}", *token.reveal()));
            let value = MetadataValue::try_from(text.as_str());
            let mut value = value.expect("a token is made of letters, digits and dots");
            value.set_sensitive(true);
            value
        });
        Self {
            nodes: target.endpoints.into_iter().map(node).collect(),
            preferred: Arc::new(AtomicUsize::new(NEVER)),
            authorization,
            deadline: None,
            staleness: Arc::default(),
            members: Arc::default(),
            authorities: Arc::default(),
            waiting: Arc::default(),
        }
    }

    /// Calls this once if an answer takes longer than a second because a call is repeated, with why it is repeated; not after
    /// [`Client::shows_progress`].
    pub fn on_long_wait(&self, tell: impl Fn(&ClientError) + Send + Sync + 'static) {
        // The first one stays.
        self.waiting.tell.set(Box::new(tell)).ok();
    }

    /// A call is repeated for more than a second.
    pub(crate) fn tell_wait(&self, why: &ClientError) {
        if let Some(tell) = self.waiting.tell.get()
            && !self.waiting.is_over.swap(true, Ordering::Relaxed)
        {
            tell(why);
        }
    }

    /// From now on the caller shows the progress of something: no wait is told any more.
    pub fn shows_progress(&self) {
        self.waiting.is_over.store(true, Ordering::Relaxed);
    }

    /// This client with a deadline for all its calls, retries included.
    #[must_use]
    pub fn until(&self, deadline: Option<Instant>) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// How old the answers so far may be; `None` if all were current.
    #[must_use]
    pub fn staleness(&self) -> Option<Staleness> {
        self.staleness.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what the headers of an answer say about its age.
    pub(crate) fn note_age(&self, headers: &MetadataMap) {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        let age = text(STALE_MS).and_then(|age| age.parse().ok()).map(Duration::from_millis);
        let Some(age) = age else { return };
        let node = text(STALE_NODE).unwrap_or_default().to_owned();
        let mut staleness = self.staleness.lock().unwrap_or_else(PoisonError::into_inner);
        *staleness = Some(Staleness { node, age });
    }

    /// The name of the authorities that the node trusts which answered last, as `TrustBundle::digest` makes it; `None` before
    /// an answer over TLS.
    #[must_use]
    pub fn authorities(&self) -> Option<String> {
        self.authorities.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes what the headers of an answer say about the authorities.
    pub(crate) fn note_authorities(&self, headers: &MetadataMap) {
        let name = headers.get(AUTHORITIES).and_then(|name| name.to_str().ok());
        if let Some(name) = name {
            let mut known = self.authorities.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some(name.to_owned());
        }
    }

    /// The addresses of the cluster's members, as the last answer that lists them gave them; empty without
    /// such an answer.
    #[must_use]
    pub fn members(&self) -> Vec<String> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The endpoint that calls are sent to, once one has been connected to.
    #[must_use]
    pub fn answering(&self) -> Option<String> {
        match self.preferred.load(Ordering::Relaxed) {
            NEVER => None,
            index => Some(self.nodes[index].endpoint.to_string()),
        }
    }

    /// Notes which members an answer lists.
    pub(crate) fn note_members(&self, answer: &dyn Any) {
        if let Some(listed) = members::listed_in(answer) {
            *self.members.lock().unwrap_or_else(PoisonError::into_inner) = listed;
        }
    }

    /// What is left of `limit` until the deadline.
    pub(crate) fn remaining(&self, limit: Duration) -> Duration {
        let left = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        left.map_or(limit, |left| left.min(limit))
    }

    /// A channel to the first node that can be connected to, the preferred one first, and the index of
    /// that node. A node that takes longer than [`HEAD_START`] competes with the next ones: it may be off.
    pub(crate) async fn any_channel(&self) -> Result<(usize, Channel), ClientError> {
        let mut waiting = self.order();
        let mut connecting = FuturesUnordered::new();
        let mut unreachable = None;
        loop {
            let next = waiting.next();
            let is_last = next.is_none();
            connecting.extend(
                next.map(|index| async move { (index, self.nodes[index].channel().await) }),
            );
            let head_start = async {
                match is_last {
                    true => std::future::pending().await,
                    false => tokio::time::sleep(HEAD_START).await,
                }
            };
            tokio::select! {
                biased;
                connected = connecting.next() => match connected {
                    Some((index, Ok(channel))) => {
                        self.preferred.store(index, Ordering::Relaxed);
                        return Ok((index, channel));
                    }
                    Some((_, Err(error))) => unreachable = Some(error),
                    None => return Err(unreachable.expect("a target has at least one endpoint")),
                },
                () = head_start => {}
            }
        }
    }

    /// A channel that nothing else uses, to the first node that can be connected to, and the endpoint of that node.
    pub(crate) async fn own_channel(&self) -> Result<(String, Channel), ClientError> {
        let mut unreachable = None;
        for index in self.order() {
            match self.nodes[index].open().await {
                Ok(channel) => {
                    self.preferred.store(index, Ordering::Relaxed);
                    return Ok((self.nodes[index].endpoint.to_string(), channel));
                }
                Err(error) => unreachable = Some(error),
            }
        }
        Err(unreachable.expect("a target has at least one endpoint"))
    }

    pub(crate) fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// Adds this client's credential to a message.
    pub(crate) fn authorized<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(value) = &self.authorization {
            request.metadata_mut().insert("authorization", value.clone());
        }
        request
    }

    /// Whether any node has been connected to.
    pub(crate) fn connected(&self) -> Connected {
        match self.preferred.load(Ordering::Relaxed) {
            NEVER => Connected::Never,
            _ => Connected::Before,
        }
    }

    /// The nodes in the order to try them.
    fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let first = match self.preferred.load(Ordering::Relaxed) {
            NEVER => 0,
            preferred => preferred,
        };
        let count = self.nodes.len();
        (0..count).map(move |step| (first + step) % count)
    }

    /// Makes the next call try another node first.
    pub(crate) fn skip(&self, node: usize) {
        let next = (node + 1) % self.nodes.len();
        // Only if the node is still the preferred one: a concurrent call may have changed it.
        self.preferred.compare_exchange(node, next, Ordering::Relaxed, Ordering::Relaxed).ok();
    }
}

impl Node {
    async fn channel(&self) -> Result<Channel, ClientError> {
        let mut channel = self.channel.lock().await;
        if let Some(open) = channel.as_ref() {
            return Ok(open.clone());
        }
        Ok(channel.insert(self.open().await?).clone())
    }

    async fn open(&self) -> Result<Channel, ClientError> {
        connect(&self.endpoint).await.map_err(|source| ClientError::NoConnection {
            endpoint: self.endpoint.to_string(),
            source,
        })
    }

    /// Drops the channel, so that the next call opens a new one.
    pub(crate) async fn disconnect(&self) {
        *self.channel.lock().await = None;
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let endpoints = self.nodes.iter().map(|node| node.endpoint.to_string());
        f.debug_list().entries(endpoints).finish()
    }
}
