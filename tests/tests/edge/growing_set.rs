//! When a history of a set that only grows is linearizable: there is an order of all additions and reads, in which each is
//! between its beginning and its end, and every read sees just what was added before it (Herlihy and Wing 1990).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Clients begin and end additions, and end reads; each read is judged by all that is known then.
#[derive(Debug, Default)]
pub(crate) struct GrowingSet {
    begun: BTreeSet<u64>,
    /// Acknowledged additions, and when they were.
    acknowledged: BTreeMap<u64, Instant>,
    /// When a read that saw a number ended; the first one.
    seen: BTreeMap<u64, Instant>,
    /// All that was seen, in the order of the additions as far as reads tell it: a read sees the first so many groups.
    groups: Vec<BTreeSet<u64>>,
    reads: usize,
}

impl GrowingSet {
    /// A client asks for an addition; for another number each time.
    pub(crate) fn begin(&mut self) -> u64 {
        let number = self.begun.len() as u64;
        self.begun.insert(number);
        number
    }

    /// The addition was acknowledged. One that never is may have happened, and may happen later.
    pub(crate) fn acknowledge(&mut self, number: u64, at: Instant) {
        self.acknowledged.insert(number, at);
    }

    /// How much was asked and answered: acknowledged additions and reads.
    pub(crate) fn done(&self) -> (usize, usize) {
        (self.acknowledged.len(), self.reads)
    }

    /// A read that began at `from` and ended at `until` saw these.
    ///
    /// # Errors
    /// Which law the history breaks.
    pub(crate) fn read(
        &mut self,
        (from, until): (Instant, Instant),
        seen: &BTreeSet<u64>,
    ) -> Result<(), String> {
        self.reads += 1;
        let of = |what: &str, numbers: Vec<u64>| match numbers.as_slice() {
            [] => Ok(()),
            some => Err(format!("{what}: {some:?}")),
        };
        of("nobody asked for", seen.difference(&self.begun).copied().collect())?;
        let before = |times: &BTreeMap<u64, Instant>| -> Vec<u64> {
            let earlier = times.iter().filter(|(_, at)| **at < from).map(|(number, _)| *number);
            earlier.filter(|number| !seen.contains(number)).collect()
        };
        of("acknowledged before the read, and not seen", before(&self.acknowledged))?;
        of("seen by a read before, and not seen", before(&self.seen))?;
        self.is_in_order(seen)?;
        for number in seen {
            let at = self.seen.entry(*number).or_insert(until);
            *at = until.min(*at);
        }
        Ok(())
    }

    /// Of two reads one saw all that the other one saw, also if neither was before the other.
    fn is_in_order(&mut self, seen: &BTreeSet<u64>) -> Result<(), String> {
        let mut left = seen.clone();
        let mut groups = Vec::new();
        for group in &self.groups {
            let (inside, outside): (BTreeSet<u64>, BTreeSet<u64>) =
                group.iter().partition(|number| seen.contains(number));
            if !inside.is_empty() && groups.last().is_some_and(|(_, whole)| !whole) {
                return Err(format!("{inside:?} and not what others saw before it"));
            }
            left.retain(|number| !inside.contains(number));
            let parts = [(inside, true), (outside, false)];
            groups.extend(parts.into_iter().filter(|(part, _)| !part.is_empty()));
        }
        if !left.is_empty() && groups.last().is_some_and(|(_, whole)| !whole) {
            return Err(format!("{left:?} is new, and what others saw is not there"));
        }
        self.groups = groups.into_iter().map(|(part, _)| part).collect();
        if !left.is_empty() {
            self.groups.push(left);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A history in milliseconds.
    struct History(Instant, GrowingSet);

    impl History {
        fn of_three() -> Self {
            let mut set = GrowingSet::default();
            for _ in 0..3 {
                set.begin();
            }
            Self(Instant::now(), set)
        }

        fn at(&self, millis: u64) -> Instant {
            self.0 + Duration::from_millis(millis)
        }

        fn acknowledge(&mut self, number: u64, millis: u64) {
            let at = self.at(millis);
            self.1.acknowledge(number, at);
        }

        fn read(&mut self, from: u64, until: u64, seen: &[u64]) -> Result<(), String> {
            let times = (self.at(from), self.at(until));
            self.1.read(times, &seen.iter().copied().collect())
        }
    }

    #[test]
    fn a_history_that_has_an_order_passes() {
        let mut history = History::of_three();
        history.read(0, 1, &[]).unwrap();
        history.acknowledge(0, 2);
        // What nobody acknowledged may have happened.
        history.read(3, 9, &[0, 2]).unwrap();
        // Two that overlap see different parts, one of them more.
        history.read(4, 8, &[0]).unwrap();
        history.read(4, 9, &[0, 1, 2]).unwrap();
        history.read(10, 11, &[0, 1, 2]).unwrap();
        assert_eq!(history.1.done(), (1, 5));
    }

    #[test]
    fn each_law_is_held() {
        let mut history = History::of_three();
        history.acknowledge(0, 2);
        assert!(history.read(3, 4, &[1]).unwrap_err().starts_with("acknowledged before"));

        let mut history = History::of_three();
        assert!(history.read(3, 4, &[7]).unwrap_err().starts_with("nobody asked"));

        let mut history = History::of_three();
        history.read(1, 2, &[1]).unwrap();
        assert!(history.read(3, 4, &[0]).unwrap_err().starts_with("seen by a read before"));

        let mut history = History::of_three();
        history.read(1, 9, &[1]).unwrap();
        assert!(history.read(1, 9, &[0]).unwrap_err().contains("is new"));

        let mut history = History::of_three();
        history.read(1, 9, &[0]).unwrap();
        history.read(1, 9, &[0, 1]).unwrap();
        assert!(history.read(1, 9, &[1]).unwrap_err().contains("others saw before it"));
    }
}
