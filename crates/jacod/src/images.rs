//! Keeps copies of pushed images: fetches those that this node is to keep, reports which it holds, and removes what nobody
//! needs (ADR 0137). Which node keeps what is decided by `jaco_state::view::images`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jaco_agent::images::BlobSource;
use jaco_server::Member;
use jaco_state::command::ImagesHeld;
use jaco_state::images::{ImageBlob, Images, PushedImage};
use jaco_state::view::images::{is_surplus, keepers};
use jaco_state::{ClusterState, Outcome, Table};
use jaco_store::{Proposal, Store};
use jaco_types::{BlobDigest, Identity, Node, NodeId};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

/// Pause between looks at a state that changes all the time.
const PAUSE: Duration = Duration::from_millis(20);

/// How often it is looked anew, whatever changes: blobs of broken pushes get old.
const LOOK: Duration = Duration::from_secs(60);

/// The first pause before another attempt at an image. It doubles with each, up to `LOOK`: who holds the image may be down for
/// long.
const RETRY: Duration = Duration::from_secs(3);

/// The loop of one node.
pub(crate) struct ImageKeeper {
    member: Arc<Member>,
    fetches: JoinSet<(BlobDigest, Result<(), String>)>,
    /// The images that are being fetched.
    fetching: BTreeSet<BlobDigest>,
    /// When images that could not be fetched are tried again.
    retries: BTreeMap<BlobDigest, Retry>,
    seen: Option<Seen>,
}

/// What becomes of an image that could not be fetched.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    pause: Duration,
}

impl Retry {
    /// After one more failure.
    fn after(former: Option<Self>, now: Instant) -> Self {
        let pause = former.map_or(RETRY, |former| LOOK.min(former.pause * 2));
        Self { at: now + pause, pause }
    }
}

/// What was looked at last.
struct Seen {
    images: Images,
    nodes: Table<NodeId, Node>,
    at: Instant,
}

impl ImageKeeper {
    pub(crate) fn new(member: Arc<Member>) -> Self {
        Self {
            member,
            fetches: JoinSet::new(),
            fetching: BTreeSet::new(),
            retries: BTreeMap::new(),
            seen: None,
        }
    }

    /// Never returns, but for a store that was closed.
    pub(crate) async fn run(mut self) {
        let mut index = self.member.store.watch_index();
        loop {
            self.look().await;
            sleep(PAUSE).await;
            // Without news of the cluster nothing is tried: news wakes this loop.
            let next = self.next_retry().filter(|_| self.member.has_caught_up());
            let next =
                next.map_or(LOOK, |at| LOOK.min(at.saturating_duration_since(Instant::now())));
            tokio::select! {
                changed = index.changed() => if changed.is_err() { return },
                Some(fetched) = self.fetches.join_next() => {
                    let (id, result) =
                        fetched.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
                    self.fetched(id, result);
                }
                () = sleep(next) => {}
            }
        }
    }

    /// When the next image is due to be tried again.
    fn next_retry(&self) -> Option<Instant> {
        let waiting = self.retries.iter().filter(|(id, _)| !self.fetching.contains(id));
        waiting.map(|(_, retry)| retry.at).min()
    }

    fn fetched(&mut self, id: BlobDigest, result: Result<(), String>) {
        self.fetching.remove(&id);
        match result {
            Ok(()) => {
                self.seen = None;
                info!(image = %id, "copy of a pushed image fetched");
                self.retries.remove(&id);
            }
            Err(error) => {
                let retry = Retry::after(self.retries.get(&id).copied(), Instant::now());
                let pause = retry.pause.as_secs();
                warn!(image = %id, error, "copy of a pushed image not fetched, will retry in {pause} s");
                self.retries.insert(id, retry);
            }
        }
    }

    async fn look(&mut self) {
        // An old state must not delete what a newer one needs.
        if !self.member.has_caught_up() {
            return;
        }
        let now = Instant::now();
        let state = self.member.store.snapshot();
        let is_same = self.seen.as_ref().map(|seen| {
            seen.images.rows.is_same(&state.images.rows)
                && seen.images.held.is_same(&state.images.held)
                && seen.nodes.is_same(&state.nodes)
        });
        if is_same == Some(false) {
            // Another node may have what could not be fetched, or be back.
            self.retries.values_mut().for_each(|retry| retry.at = now);
        }
        let is_recent = self.seen.as_ref().is_some_and(|seen| now.duration_since(seen.at) < LOOK);
        let is_due = self.next_retry().is_some_and(|at| at <= now);
        if is_same == Some(true) && is_recent && !is_due {
            return;
        }
        self.fetch_wanted(&state, now);
        // What is due and was not begun is not wanted any more.
        self.retries.retain(|id, retry| retry.at > now || self.fetching.contains(id));
        let held = self.held(&state);
        let reported = state.images.held.get(&self.member.id);
        let is_reported = reported.map_or(held.is_empty(), |reported| *reported == held);
        if !is_reported && let Err(error) = self.report(held.clone()).await {
            warn!(error, "held images not reported, will retry");
            self.seen = None;
            return;
        }
        self.sweep(&state, &held).await;
        self.seen = Some(Seen { images: state.images, nodes: state.nodes, at: now });
    }

    fn fetch_wanted(&mut self, state: &ClusterState, now: Instant) {
        let own = self.member.id;
        for (id, image) in state.images.rows.iter() {
            let waits = self.retries.get(id).is_some_and(|retry| retry.at > now);
            if waits
                || self.fetching.contains(id)
                || self.has(*id, image)
                || !keepers(state, *id, image).contains(&own)
            {
                continue;
            }
            let (images, id) = (self.member.images.clone(), *id);
            let blobs: Vec<ImageBlob> = image.blobs(id).collect();
            self.fetching.insert(id);
            self.fetches.spawn(async move {
                let _pins = images.blobs().pin(blobs.iter().copied());
                for blob in blobs {
                    if images.blobs().has(blob) {
                        continue;
                    }
                    if let Err(error) = images.fetch(blob, &|_| {}).await {
                        return (id, Err(error));
                    }
                }
                (id, Ok(()))
            });
        }
    }

    /// The images that this node holds, and goes on to hold.
    fn held(&self, state: &ClusterState) -> BTreeSet<BlobDigest> {
        let own = self.member.id;
        let rows = state.images.rows.iter();
        let held = rows
            .filter(|(id, image)| self.has(**id, image) && !is_surplus(state, **id, image, own));
        held.map(|(id, _)| *id).collect()
    }

    fn has(&self, id: BlobDigest, image: &PushedImage) -> bool {
        let blobs = self.member.images.blobs();
        image.blobs(id).all(|blob| blobs.has(blob))
    }

    async fn report(&self, held: BTreeSet<BlobDigest>) -> Result<(), String> {
        let node = self.member.id;
        let command = ImagesHeld::new(node, held).into();
        let proposal = Proposal { by: Identity::Node { id: node }, request: None, command };
        match self.member.store.propose(proposal).await.map_err(|error| error.to_string())?.outcome
        {
            Outcome::Rejected(rejection) => Err(rejection.message),
            Outcome::Done | Outcome::NodeAdmitted { .. } | Outcome::Deployed { .. } => Ok(()),
        }
    }

    /// Removes the blobs of images that this node does not hold, and is not about to.
    async fn sweep(&self, state: &ClusterState, held: &BTreeSet<BlobDigest>) {
        let own = self.member.id;
        let rows = state.images.rows.iter();
        let kept = rows
            .filter(|(id, image)| held.contains(*id) || keepers(state, **id, image).contains(&own));
        let kept = kept.flat_map(|(id, image)| image.blobs(*id)).map(|blob| blob.digest);
        let (kept, blobs) = (kept.collect(), self.member.images.blobs().clone());
        let all = state.images.rows.iter().flat_map(|(id, image)| image.blobs(*id));
        let all: BTreeSet<BlobDigest> = all.map(|blob| blob.digest).collect();
        match tokio::task::spawn_blocking(move || blobs.sweep(kept, &all)).await {
            Ok(Ok(0)) => {}
            Ok(Ok(bytes)) => info!(bytes, "unused blobs of pushed images removed"),
            Ok(Err(error)) => warn!(%error, "unused blobs of pushed images not removed"),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: an image that nobody gives costs an attempt a minute in the end, not one every few seconds.
    #[test]
    fn pauses_between_attempts_grow_up_to_a_minute() {
        let now = Instant::now();
        let mut retry = None;
        let pauses: Vec<u64> = (0..7)
            .map(|_| {
                let next = Retry::after(retry, now);
                retry = Some(next);
                assert_eq!(next.at, now + next.pause);
                next.pause.as_secs()
            })
            .collect();
        assert_eq!(pauses, [3, 6, 12, 24, 48, 60, 60]);
    }
}
