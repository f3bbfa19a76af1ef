//! What all connections of an edge share.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::crypto::CryptoProvider;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::awaited::Awaited;
use crate::caps::Caps;
use crate::handshake::Handshakes;
use crate::options::{AccessLog, Options};
use crate::tls::TlsToInstances;
use crate::traces::Traces;
use crate::upstream::Dialer;
use crate::view::View;

/// What all connections of an edge share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) view: Arc<ArcSwap<View>>,
    pub(crate) awaited: Arc<Awaited>,
    /// Where lines about requests go now.
    pub(crate) access_log: ArcSwapOption<AccessLog>,
    /// Whether requests are traced now.
    pub(crate) traces: ArcSwapOption<Traces>,
    pub(crate) dialer: Dialer,
    pub(crate) handshakes: Handshakes,
    pub(crate) connections: Arc<Caps>,
    /// Cancelled by the first plan: before it nothing is accepted, and clients wait in the queues of the sockets.
    pub(crate) planned: CancellationToken,
    /// Cancelled when the edge stops: connections end after what they are at.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the time for that is over: everything ends.
    pub(crate) stopping: CancellationToken,
    /// What takes connections and datagrams of sockets.
    pub(crate) acceptors: TaskTracker,
    /// All connections, and all tunnels that have left theirs.
    pub(crate) tracker: TaskTracker,
}

impl Shared {
    /// # Errors
    /// If TLS cannot be set up.
    pub(crate) fn new(
        options: Options,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, rustls::Error> {
        let limits = options.limits;
        let view = Arc::new(ArcSwap::from_pointee(View::default()));
        let dialer = Dialer {
            timeout: limits.connect_timeout,
            tls: TlsToInstances::new(Arc::clone(&provider))?,
        };
        let awaited = Arc::new(Awaited::new(Arc::clone(&view), &limits));
        let handshakes =
            Handshakes::new(provider, Arc::clone(&view), Arc::clone(&awaited), &limits)?;
        let connections = Caps::new(limits.connections_max, limits.connections_per_source_max);
        let access_log = ArcSwapOption::from_pointee(options.access_log.clone());
        Ok(Self {
            options,
            view,
            awaited,
            access_log,
            traces: ArcSwapOption::empty(),
            dialer,
            handshakes,
            connections,
            planned: CancellationToken::new(),
            draining: CancellationToken::new(),
            stopping: CancellationToken::new(),
            acceptors: TaskTracker::new(),
            tracker: TaskTracker::new(),
        })
    }
}
