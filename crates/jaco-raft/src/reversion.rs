//! A log that lost what it acknowledged: an older copy of the data directory, or a copy that runs beside its original.
//!
//! A leader knows for its term what each follower has acknowledged. What is acknowledged is on the follower's disk, and
//! only a leader of a later term may truncate it; a follower that has heard of one refuses the messages of this term. So
//! a follower that accepts the term and lacks the entry has lost it, and with it the promise of its vote. It must not
//! vote, nor be brought up to date under the same id: entries that a majority acknowledged may exist once less than the
//! majority needs, and nobody knows which votes it gave. Must never act on less than that.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::disk::sync_dir;
use crate::types::LogId;

/// Left in the data directory of a node that has found out, so that it does not start again.
const MARK: &str = "reverted";
/// Pause after a follower was refused; doubled each time.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What a follower acknowledged, and where its log ends now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reverted {
    /// The last entry that it acknowledged to the leader of the term.
    pub(crate) acknowledged: LogId,
    /// The entry that it lacks or, if it said so, the last one that it has.
    pub(crate) end: Option<LogId>,
}

impl Reverted {
    /// What a follower has lost that acknowledged `acknowledged` and lacks `lacking`; nothing if that is newer.
    pub(crate) fn of(acknowledged: LogId, lacking: LogId) -> Option<Self> {
        let end = lacking.index.checked_sub(1).map(|index| LogId { index, ..lacking });
        (lacking <= acknowledged).then_some(Self { acknowledged, end })
    }
}

impl fmt::Display for Reverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.end.map_or(0, |end| end.index);
        write!(
            f,
            "it acknowledged entry {} and its log ends before {}: its data is an older copy",
            self.acknowledged.index,
            self.acknowledged.index.min(end + 1)
        )
    }
}

/// What the followers have acknowledged to this node as a leader. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acknowledged {
    peers: Arc<Mutex<BTreeMap<u64, Peer>>>,
}

/// One follower, in the newest term in which this node led.
#[derive(Debug)]
struct Peer {
    term: u64,
    upto: Option<LogId>,
    refused: Option<Refused>,
}

#[derive(Debug)]
struct Refused {
    reverted: Reverted,
    pause: Duration,
    next: Instant,
}

impl Acknowledged {
    /// Follower `id` has acknowledged everything up to `upto` to the leader of `term`.
    pub(crate) fn record(&self, id: u64, term: u64, upto: LogId) {
        let mut peers = self.lock();
        let peer = of_term(&mut peers, id, term);
        // Only a higher term could make it less, and that is another row.
        peer.upto = peer.upto.max(Some(upto));
        peer.refused = None;
    }

    /// What follower `id` has acknowledged to the leader of `term`.
    pub(crate) fn upto(&self, id: u64, term: u64) -> Option<LogId> {
        self.lock().get(&id).filter(|peer| peer.term == term)?.upto
    }

    /// Refuses follower `id` in this term: the pause begins, twice as long as the one before. Returns whether that is
    /// new.
    pub(crate) fn refuse(&self, id: u64, term: u64, reverted: Reverted) -> bool {
        let mut peers = self.lock();
        let peer = of_term(&mut peers, id, term);
        let before = peer.refused.as_ref();
        let is_new = before.is_none();
        let pause = before.map_or(PAUSE_MIN, |refused| (2 * refused.pause).min(PAUSE_MAX));
        peer.refused = Some(Refused { reverted, pause, next: Instant::now() + pause });
        is_new
    }

    /// How long nothing is sent to follower `id`, because it was refused.
    pub(crate) fn pause(&self, id: u64) -> Option<Duration> {
        let peers = self.lock();
        let refused = peers.get(&id)?.refused.as_ref()?;
        let remaining = refused.next.saturating_duration_since(Instant::now());
        (!remaining.is_zero()).then_some(remaining)
    }

    /// Why follower `id` is refused by the leader of `term`.
    pub(crate) fn refusal(&self, id: u64, term: u64) -> Option<Reverted> {
        let peers = self.lock();
        let peer = peers.get(&id).filter(|peer| peer.term == term)?;
        peer.refused.as_ref().map(|refused| refused.reverted)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_term(peers: &mut BTreeMap<u64, Peer>, id: u64, term: u64) -> &mut Peer {
    let new = || Peer { term, upto: None, refused: None };
    let peer = peers.entry(id).or_insert_with(new);
    if peer.term < term {
        *peer = new();
    }
    peer
}

/// What this node has found out about its own log. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnLog {
    /// The data directory; `None` in a simulation.
    dir: Option<PathBuf>,
    found: Arc<OnceLock<String>>,
}

impl OwnLog {
    pub(crate) fn in_dir(dir: Option<&Path>) -> Self {
        Self { dir: dir.map(Path::to_owned), found: Arc::default() }
    }

    /// Why this node takes no part any more.
    pub(crate) fn failure(&self) -> Option<String> {
        self.found.get().cloned()
    }

    /// From now on this node takes no part, also after a restart.
    pub(crate) fn found(&self, reverted: Reverted) {
        let reason = format!("the raft log of this node lost acknowledged entries: {reverted}");
        if self.found.set(reason.clone()).is_err() {
            return;
        }
        tracing::error!(%reason, "raft log is older than it was, node takes no part any more");
        if let Some(dir) = &self.dir
            && let Err(error) = write_mark(dir, &reason)
        {
            // It stops all the same; the next leader that remembers finds out again.
            tracing::error!(%error, "that could not be written down");
        }
    }
}

/// Why the node of this data directory must not take part any more.
pub(crate) fn mark(dir: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(dir.join(MARK)) {
        Ok(reason) => Ok(Some(reason)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_mark(dir: &Path, reason: &str) -> io::Result<()> {
    let mut file = File::create(dir.join(MARK))?;
    file.write_all(reason.as_bytes())?;
    file.sync_all()?;
    sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use crate::types::log_id;

    use super::*;

    /// R-FAULT-1: only what was acknowledged in the same term is lost; a probe for the common end is none.
    #[test]
    fn only_what_was_acknowledged_can_be_lost() {
        let known = Acknowledged::default();
        assert_eq!(known.upto(2, 5), None);
        known.record(2, 5, log_id(4, 1, 7));
        known.record(2, 5, log_id(4, 1, 6));
        assert_eq!(known.upto(2, 5), Some(log_id(4, 1, 7)));
        assert_eq!((known.upto(3, 5), known.upto(2, 6)), (None, None));
        assert_eq!(Reverted::of(log_id(4, 1, 7), log_id(5, 1, 8)), None, "not acknowledged");
        let lost = Reverted::of(log_id(4, 1, 7), log_id(4, 1, 7)).expect("it was acknowledged");
        assert_eq!(lost.acknowledged, log_id(4, 1, 7));
        assert!(lost.to_string().contains("entry 7 and its log ends before 7"), "{lost}");
        known.record(2, 6, log_id(4, 1, 3));
        assert_eq!(known.upto(2, 6), Some(log_id(4, 1, 3)), "a later leader may truncate");
    }

    /// R-FAULT-1: who is refused is asked again after growing pauses, and named meanwhile.
    #[tokio::test(start_paused = true)]
    async fn a_refused_follower_is_asked_less_and_less() {
        let known = Acknowledged::default();
        known.record(2, 5, log_id(4, 1, 7));
        let lost = Reverted::of(log_id(4, 1, 7), log_id(4, 1, 5)).unwrap();
        let mut pauses = Vec::new();
        for turn in 0..7 {
            assert_eq!(known.refuse(2, 5, lost), turn == 0);
            assert_eq!(known.refusal(2, 5), Some(lost));
            let pause = known.pause(2).expect("a pause");
            pauses.push(pause.as_secs());
            tokio::time::advance(pause).await;
            assert_eq!(known.pause(2), None);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(known.refusal(2, 6), None, "another term");
        known.record(2, 5, log_id(4, 1, 8));
        assert_eq!(known.refusal(2, 5), None);
    }

    /// R-FAULT-1: the finding outlives the process.
    #[test]
    fn the_finding_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mark(dir.path()).unwrap(), None);
        let own = OwnLog::in_dir(Some(dir.path()));
        own.found(Reverted { acknowledged: log_id(1, 1, 9), end: Some(log_id(1, 1, 4)) });
        let kept = mark(dir.path()).unwrap().expect("a mark");
        assert!(kept.contains("entry 9 and its log ends before 5"), "{kept}");
        assert_eq!(own.failure(), Some(kept));
    }
}
