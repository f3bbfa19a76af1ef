//! Holds back what tells a follower of commits alone, while entries follow one another.
//!
//! openraft sends an append without entries as soon as something is committed. Where a client writes one thing after the
//! other, the next entries tell it a moment later, and the append costs both ends as much as one with entries. Must never
//! hold what was asked for by itself, nor longer than [`HOLD`].

use std::future::pending;
use std::time::Duration;

use openraft::raft::AppendEntriesRequest;
use tokio::time::{Instant, sleep_until};

use crate::types::TypeConfig;

type Append = AppendEntriesRequest<TypeConfig>;

/// How soon after the last entries a follower is told of their commit at the latest: what a write or two of one client take
/// on a fast disk. Entries that follow one another more slowly are none to wait for.
const HOLD: Duration = Duration::from_millis(3);

/// The commits that one follower is not told of yet.
#[derive(Debug, Default)]
pub(crate) struct CommitNotices {
    /// When entries were sent last.
    last: Option<Instant>,
    /// Whether they followed others within [`HOLD`].
    is_busy: bool,
    held: Option<Append>,
}

impl CommitNotices {
    /// What is to be sent now of the next append. One with entries tells what was held back.
    pub(crate) fn admit(&mut self, append: Append, now: Instant) -> Option<Append> {
        if append.entries.is_empty() {
            if self.is_busy && self.due_at().is_some_and(|due| now < due) {
                self.held = Some(append);
                return None;
            }
            return Some(append);
        }
        self.is_busy = self.due_at().is_some_and(|due| now < due);
        self.last = Some(now);
        self.held = None;
        Some(append)
    }

    /// Whether something is held back.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_none()
    }

    /// What is held back, if no other append follows.
    pub(crate) fn take(&mut self) -> Option<Append> {
        self.held.take()
    }

    /// What is held back, once it is due; pends while there is nothing. Cancel-safe.
    pub(crate) async fn due(&mut self) -> Append {
        if let (Some(_), Some(due)) = (&self.held, self.due_at()) {
            sleep_until(due).await;
        }
        match self.held.take() {
            Some(append) => append,
            None => pending().await,
        }
    }

    fn due_at(&self) -> Option<Instant> {
        self.last.map(|last| last + HOLD)
    }
}

#[cfg(test)]
mod tests {
    use openraft::Vote;

    use super::*;
    use crate::types::{Entry, EntryPayload, log_id};

    fn append(entries: &[u64], committed: u64) -> Append {
        let id = |index| log_id(1, 1, index);
        let entry = |index: &u64| Entry { log_id: id(*index), payload: EntryPayload::Blank };
        AppendEntriesRequest {
            vote: Vote::new_committed(1, 1),
            prev_log_id: None,
            entries: entries.iter().map(entry).collect(),
            leader_commit: Some(id(committed)),
        }
    }

    fn committed(append: Option<Append>) -> Option<u64> {
        append.and_then(|append| append.leader_commit).map(|id| id.index)
    }

    /// A commit is told at once, unless entries came in quick succession; then it is told with the next ones.
    #[tokio::test(start_paused = true)]
    async fn a_commit_waits_for_entries_only_where_they_come_in_quick_succession() {
        let mut notices = CommitNotices::default();
        let mut at = Instant::now();
        for index in 1..5 {
            assert_eq!(committed(notices.admit(append(&[index], index - 1), at)), Some(index - 1));
            assert_eq!(committed(notices.admit(append(&[], index), at)), Some(index), "at once");
            at += HOLD;
        }
        for index in 5..9 {
            assert_eq!(committed(notices.admit(append(&[index], index - 1), at)), Some(index - 1));
            assert!(notices.is_empty(), "the entries told it");
            let told = committed(notices.admit(append(&[], index), at));
            // Of the first it is not known that another one follows soon.
            assert_eq!(told, if index == 5 { Some(index) } else { None });
            at += HOLD / 3;
        }
    }

    /// The last of many entries is committed for a follower when its time is over, not when another one comes.
    #[tokio::test(start_paused = true)]
    async fn the_last_commit_is_told_in_time() {
        let mut notices = CommitNotices::default();
        let begun = Instant::now();
        for index in 1..4 {
            assert!(notices.admit(append(&[index], index - 1), Instant::now()).is_some());
        }
        assert!(notices.admit(append(&[], 2), Instant::now()).is_none());
        assert!(notices.admit(append(&[], 3), Instant::now()).is_none());
        assert_eq!(committed(Some(notices.due().await)), Some(3), "the newest");
        assert_eq!(begun.elapsed(), HOLD);
        assert!(notices.is_empty());
        assert!(notices.admit(append(&[], 3), Instant::now()).is_some(), "it is not held again");
    }

    /// Nothing that is asked for by itself is held: an append at the beginning, as one that asks what a follower has.
    #[tokio::test(start_paused = true)]
    async fn without_entries_nothing_is_held() {
        let mut notices = CommitNotices::default();
        assert!(notices.admit(append(&[], 0), Instant::now()).is_some());
        assert!(notices.take().is_none());
    }
}
