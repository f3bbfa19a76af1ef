//! What each member has for good: committed entries that it has acknowledged.
//!
//! A committed entry is in the log of each later leader, so nobody ever truncates it: whoever acknowledged it has it
//! for as long as its disk is whole. That holds in every term, so, unlike what was acknowledged to one leader, it can be
//! told to others: the leader does so once a second, and whoever knows it gives no vote to a log that lacks it.
//! It is known in memory only. A member that has just started knows nothing, and is told soon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::types::LogId;

/// What is known of the members. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    members: Arc<Mutex<BTreeMap<u64, LogId>>>,
}

impl Kept {
    /// Member `id` has acknowledged everything up to `has`, and everything up to `committed` is committed.
    pub(crate) fn learn(&self, id: u64, has: Option<LogId>, committed: Option<LogId>) {
        // Of `None` and an entry the lesser one is `None`.
        if let Some(kept) = has.min(committed) {
            let mut members = self.lock();
            let known = members.entry(id).or_insert(kept);
            *known = kept.max(*known);
        }
    }

    /// What member `id` has.
    pub(crate) fn of(&self, id: u64) -> Option<LogId> {
        self.lock().get(&id).copied()
    }

    /// What all of them have.
    pub(crate) fn all(&self) -> BTreeMap<u64, LogId> {
        self.lock().clone()
    }

    /// The newest entry that is known to be committed.
    pub(crate) fn newest(&self) -> Option<LogId> {
        self.lock().values().max().copied()
    }

    /// Forgets those that are no members any more.
    pub(crate) fn retain(&self, members: &BTreeSet<u64>) {
        self.lock().retain(|id, _| members.contains(id));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, LogId>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::log_id;

    /// R-FAULT-1: only what is committed and acknowledged is kept, and never becomes less.
    #[test]
    fn what_is_kept_is_committed_and_acknowledged() {
        let (kept, at) = (Kept::default(), |index| Some(log_id(3, 1, index)));
        kept.learn(2, at(7), None);
        kept.learn(2, None, at(7));
        assert_eq!((kept.of(2), kept.newest()), (None, None));
        kept.learn(2, at(7), at(5));
        assert_eq!(kept.of(2), at(5), "the rest may be truncated");
        kept.learn(2, at(7), at(9));
        assert_eq!(kept.of(2), at(7), "the rest may not be on its disk");
        kept.learn(2, Some(log_id(2, 3, 9)), Some(log_id(2, 3, 9)));
        assert_eq!(kept.of(2), at(7), "an older leader's word");
        kept.learn(3, at(8), at(8));
        assert_eq!(kept.newest(), at(8));
        kept.retain(&[2].into());
        assert_eq!(kept.all(), [(2, log_id(3, 1, 7))].into());
    }
}
