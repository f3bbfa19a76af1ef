//! Cuts a plan into entries: a plan has no bound, an entry has. Must never change the order, since
//! what frees room comes before what takes it.

use std::collections::VecDeque;

use jaco_state::Change;

/// Changes of one entry. An entry may have 4 MiB and a change rarely has more than 400 bytes, so nearly
/// every part fits; and an entry of this size holds nobody else's write up for long.
pub const CHANGES_PER_ENTRY: usize = 8192;

/// The parts of a plan that were not proposed yet. In order, they are the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts(VecDeque<Vec<Change>>);

/// A part that cannot be cut any more: it is a single change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Indivisible;

impl Parts {
    /// Parts of [`CHANGES_PER_ENTRY`], the last perhaps smaller.
    pub(crate) fn cut(mut changes: Vec<Change>) -> Self {
        let mut parts = VecDeque::new();
        while changes.len() > CHANGES_PER_ENTRY {
            let rest = changes.split_off(CHANGES_PER_ENTRY);
            parts.push_back(std::mem::replace(&mut changes, rest));
        }
        if !changes.is_empty() {
            parts.push_back(changes);
        }
        Self(parts)
    }

    /// Takes the first of them.
    pub(crate) fn next(&mut self) -> Option<Vec<Change>> {
        self.0.pop_front()
    }

    /// Puts a part that was taken, and is too large for an entry, back as two halves.
    pub(crate) fn halve(&mut self, mut part: Vec<Change>) -> Result<(), Indivisible> {
        if part.len() < 2 {
            return Err(Indivisible);
        }
        let second = part.split_off(part.len() / 2);
        self.0.push_front(second);
        self.0.push_front(part);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jaco_types::{NodeId, NodeStatus};
    use proptest::prelude::*;

    use super::*;

    fn change(number: usize) -> Change {
        let node = NodeId(u64::try_from(number).unwrap());
        Change::NodeStatusSet { node, status: NodeStatus::Ready, reason: String::new() }
    }

    proptest! {
        /// R-LOOP-3: whatever is cut and cut again, the parts in their order are the plan.
        #[test]
        fn the_parts_are_the_plan(
            count in 0..3 * CHANGES_PER_ENTRY,
            too_large in prop::collection::vec(any::<bool>(), 0..40),
        ) {
            let plan: Vec<_> = (0..count).map(change).collect();
            let mut parts = Parts::cut(plan.clone());
            let mut too_large = too_large.into_iter();
            let mut agreed = Vec::new();
            while let Some(part) = parts.next() {
                prop_assert!((1..=CHANGES_PER_ENTRY).contains(&part.len()));
                if too_large.next() == Some(true) && part.len() > 1 {
                    prop_assert_eq!(parts.halve(part), Ok(()));
                } else {
                    agreed.extend(part);
                }
            }
            prop_assert_eq!(agreed, plan);
        }
    }

    #[test]
    fn a_single_change_cannot_be_cut() {
        let mut parts = Parts::cut(vec![change(1)]);
        let part = parts.next().unwrap();
        assert_eq!(parts.halve(part), Err(Indivisible));
        assert_eq!(parts.next(), None);
    }
}
