//! What the metrics of a node are made of: what is counted while it happens, and what the daemon reads when it is asked.
//!
//! How they are written is the business of [`crate::openmetrics`].

mod readings;
mod tallies;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::Instant;

pub use self::readings::{
    DiskReading, EdgeReading, PeerReading, ProcessReading, ReadNode, Readings, RouteReading,
    RouterReading, UsageReading,
};
pub use self::tallies::Tallies;

/// How long what was written is handed out again: however many ask, a node computes its metrics a few times a second.
const KEPT_FOR: Duration = Duration::from_millis(250);

/// The sources of a node's metrics, and what was made of them last.
pub struct Metrics {
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) node: Arc<dyn ReadNode>,
    kept: Mutex<Option<(Instant, Bytes)>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("tallies", &self.tallies).finish_non_exhaustive()
    }
}

impl Metrics {
    /// Of what is counted in `tallies` and read by `node`.
    #[must_use]
    pub fn new(tallies: Arc<Tallies>, node: Arc<dyn ReadNode>) -> Self {
        Self { tallies, node, kept: Mutex::default() }
    }

    /// What was written last if that was just now, else what `write` writes. Who asks meanwhile gets the same.
    pub(crate) async fn kept(&self, write: impl Future<Output = Bytes>) -> Bytes {
        let mut kept = self.kept.lock().await;
        if let Some((_, document)) = kept.as_ref().filter(|(at, _)| at.elapsed() < KEPT_FOR) {
            return document.clone();
        }
        let document = write.await;
        *kept = Some((Instant::now(), document.clone()));
        document
    }
}
