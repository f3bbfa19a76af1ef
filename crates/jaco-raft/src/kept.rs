//! What each member has for good: committed entries that it has acknowledged.
//!
//! A committed entry is in the log of each later leader, so nobody ever truncates it: whoever acknowledged it has it
//! for as long as its disk is whole. That holds in every term, so, unlike what was acknowledged to one leader, it can be
//! told to others: the leader does so once a second, and whoever knows it gives no vote to a log that lacks it.
//! Voters are told of all members, learners of the voters alone: a learner neither votes nor leads, and if all members
//! were told of all, that would grow with the square of their number.
//! It is known in memory only. A member that has just started knows nothing, and is told soon.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::types::LogId;

/// What is known of the members. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    members: BTreeMap<u64, LogId>,
    voters: BTreeSet<u64>,
    /// Those that this node has asked to be voters, last.
    asked: BTreeSet<u64>,
}

impl Kept {
    /// Member `id` has acknowledged everything up to `has`, and everything up to `committed` is committed.
    pub(crate) fn learn(&self, id: u64, has: Option<LogId>, committed: Option<LogId>) {
        // Of `None` and an entry the lesser one is `None`.
        if let Some(kept) = has.min(committed) {
            let mut known = self.lock();
            let before = known.members.entry(id).or_insert(kept);
            *before = kept.max(*before);
        }
    }

    /// What member `id` has.
    pub(crate) fn of(&self, id: u64) -> Option<LogId> {
        self.lock().members.get(&id).copied()
    }

    /// What member `id` is told: what all of them have, or the voters, if it has no vote itself.
    pub(crate) fn to_tell(&self, id: u64) -> BTreeMap<u64, LogId> {
        let known = self.lock();
        if known.voters.contains(&id) {
            return known.members.clone();
        }
        let of = |voter: &u64| Some((*voter, *known.members.get(voter)?));
        known.voters.iter().filter_map(of).collect()
    }

    /// Whether member `id` has no vote; before the membership is known nobody is taken for one of those.
    pub(crate) fn is_learner(&self, id: u64) -> bool {
        let known = self.lock();
        !known.voters.is_empty() && !known.voters.contains(&id) && !known.asked.contains(&id)
    }

    /// The newest entry that is known to be committed.
    pub(crate) fn newest(&self) -> Option<LogId> {
        self.lock().members.values().max().copied()
    }

    /// These are about to get votes: nothing is left out any more that voters are sent, also before an entry says that
    /// they are. A heartbeat that was not sent must not count for the lease of a leader.
    pub(crate) fn expect_voters(&self, voters: &BTreeSet<u64>) {
        self.lock().asked.clone_from(voters);
    }

    /// Who votes now; forgets those that are no members any more.
    pub(crate) fn retain(&self, members: &BTreeMap<u64, String>, voters: &BTreeSet<u64>) {
        let mut known = self.lock();
        known.members.retain(|id, _| members.contains_key(id));
        known.voters.clone_from(voters);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
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
        kept.retain(&members(&[2]), &[2].into());
        assert_eq!(kept.to_tell(2), [(2, log_id(3, 1, 7))].into());
    }

    /// R-FAULT-1: whoever votes may lead next and has to know of all; for the others it grows with the voters only.
    #[test]
    fn learners_are_told_of_the_voters_alone() {
        let (kept, at) = (Kept::default(), |index| Some(log_id(3, 1, index)));
        for id in 1..=100 {
            kept.learn(id, at(id), at(100));
        }
        kept.retain(&members(&[1, 2, 3, 50, 60]), &[1, 2, 3].into());
        let told = |id| kept.to_tell(id).into_keys().collect::<Vec<_>>();
        assert_eq!(told(2), [1, 2, 3, 50, 60]);
        assert_eq!(told(50), [1, 2, 3]);
        assert!(kept.is_learner(50) && !kept.is_learner(2) && !Kept::default().is_learner(50));
        kept.expect_voters(&[1, 2, 50].into());
        assert!(!kept.is_learner(50) && !kept.is_learner(3) && kept.is_learner(60));
        kept.retain(&members(&[1, 2, 3, 50, 60]), &[1, 2, 3].into());
        assert!(!kept.is_learner(50), "an earlier membership takes nothing back");
        kept.retain(&members(&[1, 2, 3, 50, 60]), &[1, 2, 50].into());
        assert!(kept.is_learner(3));
        assert_eq!(told(50), [1, 2, 3, 50, 60], "it votes now");
        assert_eq!(told(3), [1, 2, 50]);
    }

    fn members(ids: &[u64]) -> BTreeMap<u64, String> {
        ids.iter().map(|id| (*id, format!("n{id}"))).collect()
    }
}
