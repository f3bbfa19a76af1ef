//! Plans that hold, whose removed names may still be remembered. Pure: the time comes in.

use std::collections::VecDeque;
use std::time::Instant;

use jaco_types::StateIndex;

/// Plans that hold and are waited for, oldest first, each with the moment at which all is forgotten that it removed.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    waiting: VecDeque<(StateIndex, Instant)>,
}

impl Remembered {
    /// The plan of this state holds; what it and earlier ones removed is remembered until then.
    pub(super) fn note(&mut self, index: StateIndex, until: Instant) {
        // The one before ends at the same moment, and says less.
        self.waiting.pop_back_if(|(_, before)| *before >= until);
        self.waiting.push_back((index, until));
    }

    /// When something is forgotten next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.front().map(|(_, until)| *until)
    }

    /// The newest state of which all is forgotten by now that had been removed, if that is news.
    pub(super) fn forgotten(&mut self, now: Instant) -> Option<StateIndex> {
        let mut newest = None;
        while let Some((index, _)) = self.waiting.pop_front_if(|(_, until)| *until <= now) {
            newest = Some(index);
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// NET-8: a state is over once what it and all before it removed is forgotten, not before.
    #[test]
    fn states_are_over_in_their_order() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut remembered = Remembered::default();
        assert_eq!((remembered.next(), remembered.forgotten(begun)), (None, None));
        for (index, until) in [(3, 10), (5, 10), (8, 40), (9, 40)] {
            remembered.note(StateIndex(index), at(until));
        }
        assert_eq!(remembered.forgotten(at(9)), None);
        assert_eq!(remembered.next(), Some(at(10)));
        assert_eq!(remembered.forgotten(at(10)), Some(StateIndex(5)));
        assert_eq!(remembered.forgotten(at(10)), None, "that is no news");
        assert_eq!(remembered.forgotten(at(100)), Some(StateIndex(9)));
        remembered.note(StateIndex(12), at(40));
        assert_eq!(remembered.forgotten(at(100)), Some(StateIndex(12)), "nothing was removed");
    }
}
