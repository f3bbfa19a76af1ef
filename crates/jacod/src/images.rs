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
    retries: Retries,
    seen: Option<Seen>,
}

/// Images that could not be fetched, and when they are tried again.
#[derive(Debug, Default)]
struct Retries(BTreeMap<BlobDigest, Retry>);

/// What becomes of an image that could not be fetched.
#[derive(Debug, Clone, Copy)]
struct Retry {
    at: Instant,
    pause: Duration,
}

impl Retries {
    /// An attempt has failed. Returns the pause before the next one.
    fn failed(&mut self, id: BlobDigest, now: Instant) -> Duration {
        let former = self.0.get(&id);
        let pause = former.map_or(RETRY, |former| LOOK.min(former.pause * 2));
        self.0.insert(id, Retry { at: now + pause, pause });
        pause
    }

    fn fetched(&mut self, id: BlobDigest) {
        self.0.remove(&id);
    }

    /// Another node may have what could not be fetched, or be back: all are due, and their pauses stay as long as they were.
    fn try_all(&mut self, now: Instant) {
        self.0.values_mut().for_each(|retry| retry.at = now);
    }

    /// Whether it is too early to try this one again.
    fn waits(&self, id: BlobDigest, now: Instant) -> bool {
        self.0.get(&id).is_some_and(|retry| retry.at > now)
    }

    /// When the next one is due of those that are not being fetched.
    fn next(&self, fetching: &BTreeSet<BlobDigest>) -> Option<Instant> {
        let waiting = self.0.iter().filter(|(id, _)| !fetching.contains(id));
        waiting.map(|(_, retry)| retry.at).min()
    }

    /// Forgets those that were due and have not been begun: they are not wanted any more.
    fn forget_unwanted(&mut self, fetching: &BTreeSet<BlobDigest>, now: Instant) {
        self.0.retain(|id, retry| retry.at > now || fetching.contains(id));
    }
}

/// What was looked at last.
struct Seen {
    images: Images,
    nodes: Table<NodeId, Node>,
    /// When unused blobs were removed.
    swept: Instant,
}

impl ImageKeeper {
    pub(crate) fn new(member: Arc<Member>) -> Self {
        Self {
            member,
            fetches: JoinSet::new(),
            fetching: BTreeSet::new(),
            retries: Retries::default(),
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
            let next = self.retries.next(&self.fetching).filter(|_| self.member.has_caught_up());
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

    fn fetched(&mut self, id: BlobDigest, result: Result<(), String>) {
        self.fetching.remove(&id);
        match result {
            Ok(()) => {
                self.seen = None;
                info!(image = %id, "copy of a pushed image fetched");
                self.retries.fetched(id);
            }
            Err(error) => {
                let pause = self.retries.failed(id, Instant::now()).as_secs();
                warn!(image = %id, error, "copy of a pushed image not fetched, will retry in {pause} s");
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
        let seen = self.seen.as_ref();
        let has_same_images = seen.is_some_and(|seen| {
            seen.images.rows.is_same(&state.images.rows)
                && seen.images.held.is_same(&state.images.held)
        });
        let is_same = has_same_images && seen.is_some_and(|seen| seen.nodes.is_same(&state.nodes));
        let swept = seen.map(|seen| seen.swept).filter(|at| now.duration_since(*at) < LOOK);
        if seen.is_some() && !is_same {
            self.retries.try_all(now);
        }
        let is_due = self.retries.next(&self.fetching).is_some_and(|at| at <= now);
        if is_same && swept.is_some() && !is_due {
            return;
        }
        self.fetch_wanted(&state, now);
        self.retries.forget_unwanted(&self.fetching, now);
        let held = self.held(&state);
        let reported = state.images.held.get(&self.member.id);
        let is_reported = reported.map_or(held.is_empty(), |reported| *reported == held);
        if !is_reported && let Err(error) = self.report(held.clone()).await {
            warn!(error, "held images not reported, will retry");
            self.seen = None;
            return;
        }
        // Nodes change all the time, and what they leave to be removed is not urgent.
        let swept = match swept.filter(|_| has_same_images) {
            Some(before) => before,
            None => {
                self.sweep(&state, &held).await;
                now
            }
        };
        self.seen = Some(Seen { images: state.images, nodes: state.nodes, swept });
    }

    fn fetch_wanted(&mut self, state: &ClusterState, now: Instant) {
        let own = self.member.id;
        for (id, image) in state.images.rows.iter() {
            if self.retries.waits(*id, now)
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
        let (now, mut retries) = (Instant::now(), Retries::default());
        let pauses: Vec<u64> = (0..7).map(|_| retries.failed(image(1), now).as_secs()).collect();
        assert_eq!(pauses, [3, 6, 12, 24, 48, 60, 60]);
    }

    fn image(number: u8) -> BlobDigest {
        BlobDigest([number; 32])
    }

    /// R-OPS-1: news of the cluster has all of them tried at once, and makes no pause shorter: a cluster that changes all the
    /// time does not have an image tried all the time.
    #[test]
    fn news_is_a_reason_to_try_but_not_to_start_over() {
        let (now, mut retries) = (Instant::now(), Retries::default());
        retries.failed(image(1), now);
        retries.failed(image(1), now);
        retries.failed(image(2), now);
        let (none, one) = (BTreeSet::new(), BTreeSet::from([image(2)]));
        assert!(retries.waits(image(1), now) && !retries.waits(image(3), now));
        assert_eq!(retries.next(&none), Some(now + Duration::from_secs(3)));
        assert_eq!(retries.next(&one), Some(now + Duration::from_secs(6)), "it is on its way");
        let later = now + Duration::from_secs(1);
        retries.try_all(later);
        assert!(!retries.waits(image(1), later) && retries.next(&none) == Some(later));
        assert_eq!(retries.failed(image(1), later), Duration::from_secs(12));
        // The other was due and is not wanted any more.
        retries.forget_unwanted(&none, later);
        assert_eq!(retries.next(&none), Some(later + Duration::from_secs(12)));
        retries.fetched(image(1));
        assert_eq!(retries.next(&none), None);
    }
}
