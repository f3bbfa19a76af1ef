//! When a history of a set that only grows is linearizable: there is an order of all additions and reads, in which each is
//! between its beginning and its end, and every read sees just what was added before it (Herlihy and Wing 1990).

use std::collections::BTreeSet;
use std::time::Instant;

/// Clients begin and end additions, and end reads; each read is judged by all that is known then. It costs as much as there are
/// numbers: a history of an hour has tens of thousands, and many reads a second.
#[derive(Debug, Default)]
pub(crate) struct GrowingSet {
    /// By number, which are counted from 0.
    known: Vec<Known>,
    /// How many numbers were added together, in the order of the additions as far as reads tell it: a read sees the first so
    /// many groups.
    groups: Vec<usize>,
    added: usize,
    reads: usize,
}

/// What is known of a number that a client asked for.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// When its addition was acknowledged.
    acknowledged: Option<Instant>,
    /// When a read that saw it ended; the first one.
    seen: Option<Instant>,
    /// Which group it is of, once a read has seen it.
    group: Option<usize>,
}

impl GrowingSet {
    /// A client asks for an addition; for another number each time.
    pub(crate) fn begin(&mut self) -> u64 {
        self.known.push(Known::default());
        self.known.len() as u64 - 1
    }

    /// The addition was acknowledged. One that never is may have happened, and may happen later.
    pub(crate) fn acknowledge(&mut self, number: u64, at: Instant) {
        self.known[place(number)].acknowledged = Some(at);
        self.added += 1;
    }

    /// How much was asked and answered: acknowledged additions and reads.
    pub(crate) fn done(&self) -> (usize, usize) {
        (self.added, self.reads)
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
        let of = |what: &str, numbers: Vec<usize>| match numbers.as_slice() {
            [] => Ok(()),
            some => Err(format!("{what}: {some:?}")),
        };
        let seen: Vec<usize> = seen.iter().map(|number| place(*number)).collect();
        let count = self.known.len();
        of("nobody asked for", seen.iter().filter(|number| **number >= count).copied().collect())?;
        let mut is_seen = vec![false; count];
        seen.iter().for_each(|number| is_seen[*number] = true);
        let before = |time: fn(&Known) -> Option<Instant>| -> Vec<usize> {
            let unseen = self.known.iter().enumerate().filter(|(number, _)| !is_seen[*number]);
            let earlier = unseen.filter(|(_, known)| time(known).is_some_and(|at| at < from));
            earlier.map(|(number, _)| number).collect()
        };
        of("acknowledged before the read, and not seen", before(|known| known.acknowledged))?;
        of("seen by a read before, and not seen", before(|known| known.seen))?;
        self.is_in_order(&seen, &is_seen)?;
        for number in seen {
            let at = self.known[number].seen.get_or_insert(until);
            *at = until.min(*at);
        }
        Ok(())
    }

    /// Of two reads one saw all that the other one saw, also if neither was before the other.
    fn is_in_order(&mut self, seen: &[usize], is_seen: &[bool]) -> Result<(), String> {
        let mut inside = vec![0; self.groups.len()];
        let mut left = Vec::new();
        for number in seen {
            match self.known[*number].group {
                Some(group) => inside[group] += 1,
                None => left.push(*number),
            }
        }
        let whole = inside.iter().zip(&self.groups).take_while(|(seen, all)| seen == all).count();
        if let Some(later) = (whole + 1..inside.len()).find(|group| inside[*group] > 0) {
            let is_of = |number: &&usize| self.known[**number].group == Some(later);
            let numbers: Vec<_> = seen.iter().filter(is_of).collect();
            return Err(format!("{numbers:?} and not what others saw before it"));
        }
        if !left.is_empty() && whole < self.groups.len() {
            return Err(format!("{left:?} is new, and what others saw is not there"));
        }
        if inside.get(whole).is_some_and(|seen| *seen > 0) {
            self.split(whole, inside[whole], is_seen);
        }
        if !left.is_empty() {
            self.groups.push(left.len());
            left.iter().for_each(|number| self.known[*number].group = Some(self.groups.len() - 1));
        }
        Ok(())
    }

    /// Of a group so many were seen, and so were added before the others.
    fn split(&mut self, group: usize, seen: usize, is_seen: &[bool]) {
        let others = self.groups[group] - seen;
        self.groups[group] = seen;
        self.groups.insert(group + 1, others);
        for (number, known) in self.known.iter_mut().enumerate() {
            let is_later = |of: &usize| *of > group || *of == group && !is_seen[number];
            if known.group.as_ref().is_some_and(is_later) {
                known.group = known.group.map(|of| of + 1);
            }
        }
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number).expect("a number of ours")
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

    /// A read that saw a part of what came together splits it, and the order of what is behind it stays.
    #[test]
    fn parts_of_a_group_have_an_order() {
        let mut history = History::of_three();
        history.1.begin();
        history.read(0, 9, &[0, 1, 2]).unwrap();
        history.read(0, 9, &[0, 1, 2, 3]).unwrap();
        history.read(0, 9, &[1]).unwrap();
        history.read(0, 9, &[1, 2]).unwrap();
        assert_eq!(history.1.groups, [1, 1, 1, 1]);
        assert!(history.read(0, 9, &[0, 1]).unwrap_err().contains("others saw before it"));
        assert!(history.read(0, 9, &[1, 2, 3]).unwrap_err().contains("others saw before it"));
        history.read(0, 9, &[0, 1, 2, 3]).unwrap();
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
