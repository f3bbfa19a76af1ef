//! What differs between two maps.

use std::collections::BTreeMap;

/// How an entry differs between two maps.
pub(crate) enum Difference<'a, V> {
    Added(&'a V),
    Changed(&'a V, &'a V),
    Removed(&'a V),
}

/// The entries that differ, in order. Values that both maps share are not read.
pub(crate) fn differences<'a, K: Ord, V: PartialEq>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> Vec<(&'a K, Difference<'a, V>)> {
    let (mut old, mut new) = (old.iter(), new.iter());
    let (mut before, mut after) = (old.next(), new.next());
    let mut changes = Vec::new();
    loop {
        match (before, after) {
            // Asked first: keys that both maps share are equal without reading their text.
            (Some((key, was)), Some((other, is))) if key == other => {
                if was != is {
                    changes.push((key, Difference::Changed(was, is)));
                }
                (before, after) = (old.next(), new.next());
            }
            (Some((key, was)), other) if other.is_none_or(|(other, _)| key < other) => {
                changes.push((key, Difference::Removed(was)));
                before = old.next();
            }
            (_, Some((key, is))) => {
                changes.push((key, Difference::Added(is)));
                after = new.next();
            }
            (_, None) => return changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Law: what differs, carried out on the old map, makes the new one; in order, and nothing is told that is the
        /// same.
        #[test]
        fn what_differs_leads_from_one_map_to_the_other(
            old in prop::collection::btree_map(0_u8..12, 0_u8..3, 0..12),
            new in prop::collection::btree_map(0_u8..12, 0_u8..3, 0..12),
        ) {
            let changes = differences(&old, &new);
            prop_assert!(changes.is_sorted_by(|(one, _), (next, _)| one < next));
            let mut made = old.clone();
            for (key, change) in changes {
                let (was, is) = match change {
                    Difference::Added(is) => (None, Some(*is)),
                    Difference::Changed(was, is) => (Some(*was), Some(*is)),
                    Difference::Removed(was) => (Some(*was), None),
                };
                prop_assert_ne!(was, is);
                prop_assert_eq!(made.remove(key), was);
                made.extend(is.map(|is| (*key, is)));
            }
            prop_assert_eq!(made, new);
        }
    }
}
