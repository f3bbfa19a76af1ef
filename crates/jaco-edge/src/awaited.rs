//! Challenges that an edge does not know yet. An authority asks once, and may ask an edge that has its plan a moment
//! later than others: its question waits for that, for a bounded time and in bounded number.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::caps::Caps;
use crate::options::Limits;
use crate::view::View;

/// Where questions wait for the view that answers them.
#[derive(Debug)]
pub(crate) struct Awaited {
    view: Arc<ArcSwap<View>>,
    changed: watch::Sender<()>,
    caps: Arc<Caps>,
    limit: Duration,
}

impl Awaited {
    pub(crate) fn new(view: Arc<ArcSwap<View>>, limits: &Limits) -> Self {
        let caps = Caps::new(limits.challenges_held_max, limits.challenges_held_per_source_max);
        Self { view, changed: watch::Sender::default(), caps, limit: limits.challenge_hold }
    }

    /// There is another view.
    pub(crate) fn note_view(&self) {
        self.changed.send_replace(());
    }

    /// What `find` finds in the view of now, or of a moment later. `None`: nothing came in time, or too many wait.
    pub(crate) async fn find<T>(
        &self,
        source: IpAddr,
        find: impl Fn(&View) -> Option<T>,
    ) -> Option<T> {
        // Before the first look: a view that comes after it is not missed.
        let mut changed = self.changed.subscribe();
        if let Some(found) = find(&self.view.load()) {
            return Some(found);
        }
        let _permit = self.caps.enter(source)?;
        let found = async {
            while changed.changed().await.is_ok() {
                if let Some(found) = find(&self.view.load()) {
                    return Some(found);
                }
            }
            None
        };
        timeout(self.limit, found).await.ok().flatten()
    }
}
