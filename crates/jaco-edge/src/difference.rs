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
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return changes,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((before, _)), Some((after, _))) => before.cmp(after),
        };
        let before = if order.is_le() { old.next() } else { None };
        let after = if order.is_ge() { new.next() } else { None };
        match (before, after) {
            (Some((_, before)), Some((_, after))) if before == after => {}
            (Some((key, before)), Some((_, after))) => {
                changes.push((key, Difference::Changed(before, after)));
            }
            (Some((key, before)), None) => changes.push((key, Difference::Removed(before))),
            (None, Some((key, after))) => changes.push((key, Difference::Added(after))),
            (None, None) => return changes,
        }
    }
}
