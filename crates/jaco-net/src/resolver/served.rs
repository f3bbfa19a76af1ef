//! The names that a resolver answers from, and until when what was removed of them may be remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use jaco_dataplane::{ByDeployment, Names, NamesChange};

use crate::counts::QuestionCounters;

/// How long after an answer its addresses may still be connected to: the second in which clients may remember it that count in whole
/// ones, and a moment for the answer and the first packet to arrive.
const REMEMBERED: Duration = Duration::from_millis(1250);

/// The names that are answered from.
#[derive(Debug)]
pub(crate) struct ServedNames {
    names: RwLock<Names>,
    // Locked while `names` is held, never the other way round.
    memory: Mutex<Memory>,
    /// Kept here, as a resolver may be opened again.
    pub(crate) counters: QuestionCounters,
}

/// What was answered.
#[derive(Debug)]
struct Memory {
    /// When each address was answered with last, as long as it has a name.
    answered: BTreeMap<Ipv4Addr, Instant>,
    /// Until when an address may be remembered under a name that it has lost.
    until: Instant,
}

impl ServedNames {
    /// No names yet. An earlier process may have answered until now.
    pub(crate) fn new(now: Instant) -> Self {
        let memory = Memory { answered: BTreeMap::new(), until: now + REMEMBERED };
        Self {
            names: RwLock::default(),
            memory: Mutex::new(memory),
            counters: QuestionCounters::default(),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer with these addresses is about to be sent. To be called while the names are read: what is removed
    /// next has then been seen here.
    pub(super) fn note(&self, addresses: impl Iterator<Item = Ipv4Addr>, now: Instant) {
        let mut memory = self.memory();
        memory.answered.extend(addresses.map(|address| (address, now)));
    }

    /// Carries a change out.
    pub(crate) fn change(&self, change: &NamesChange) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let mut memory = self.memory();
        // A name that is new loses nothing, and most names of a large change are.
        let changed = change.known.iter().filter_map(|(name, after)| {
            let before = names.known.get(name)?;
            Some((addresses(before), after.as_ref().map(addresses).unwrap_or_default()))
        });
        for (before, after) in changed {
            for lost in before.difference(&after) {
                if let Some(at) = memory.answered.remove(lost) {
                    memory.until = memory.until.max(at + REMEMBERED);
                }
            }
        }
        names.change(change);
    }

    /// Until when an address may be used under a name that it has lost: nobody does after that.
    pub(crate) fn remembered_until(&self) -> Instant {
        self.memory().until
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn addresses(by_deployment: &ByDeployment) -> BTreeSet<Ipv4Addr> {
    let all = by_deployment.values().flat_map(|found| {
        [&found.ready_here, &found.ready_elsewhere, &found.starting].into_iter().flatten()
    });
    all.copied().collect()
}

#[cfg(test)]
mod tests {
    use jaco_dataplane::Addresses;
    use jaco_types::{DeploymentName, NetworkId};

    use super::*;

    const DB: Ipv4Addr = Ipv4Addr::new(10, 65, 0, 3);
    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 65, 0, 4);

    /// `db` in one network has these addresses from now on.
    fn db(addresses: &[Ipv4Addr]) -> NamesChange {
        let ready_here = addresses.iter().copied().collect();
        let found = Addresses { ready_here, ..Addresses::default() };
        let shop = DeploymentName::new("shop").unwrap();
        let known = [((NetworkId(1), "db".to_owned()), Some([(shop, found)].into()))].into();
        NamesChange { known, ..NamesChange::default() }
    }

    /// NET-8: an address that lost its name is waited for as long as its last answer may be remembered, and not at
    /// all if nobody was told.
    #[test]
    fn what_was_answered_is_remembered_and_no_longer() {
        let begun = Instant::now();
        let names = ServedNames::new(begun);
        let first = begun + REMEMBERED;
        names.change(&db(&[DB, OTHER]));
        names.note([DB].into_iter(), begun + Duration::from_secs(5));
        names.note([DB].into_iter(), begun + Duration::from_secs(7));
        assert_eq!(names.remembered_until(), first, "both have their name");
        names.change(&db(&[DB]));
        assert_eq!(names.remembered_until(), first, "nobody was told of the other");
        names.change(&db(&[OTHER]));
        let until = begun + Duration::from_secs(7) + REMEMBERED;
        assert_eq!(names.remembered_until(), until);
        names.note([OTHER].into_iter(), begun);
        names.change(&db(&[]));
        assert_eq!(names.remembered_until(), until, "it never moves back");
    }
}
