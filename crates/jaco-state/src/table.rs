//! A sorted table that many readers can keep a copy of.

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::ops::RangeBounds;
use std::sync::Arc;

/// A sorted map whose clone costs nothing until one side is changed.
///
/// A planner pass or a snapshot takes a clone of the whole state; the next change copies only the
/// table it touches, and there only the references to its rows.
#[derive(Debug, PartialEq, Eq)]
pub struct Table<K: Ord, V>(Arc<BTreeMap<K, Arc<V>>>);

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    /// The row with this key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key).map(|row| &**row)
    }

    /// Whether there is a row with this key.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// The row with this key, shared.
    pub fn get_shared(&self, key: &K) -> Option<Arc<V>> {
        self.0.get(key).map(Arc::clone)
    }

    /// A row to be changed in place; copied first if somebody else still holds it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        Arc::make_mut(&mut self.0).get_mut(key).map(Arc::make_mut)
    }

    /// Puts a row in, and hands back the one it replaces.
    pub fn insert(&mut self, key: K, row: V) -> Option<Arc<V>> {
        Arc::make_mut(&mut self.0).insert(key, Arc::new(row))
    }

    /// Takes a row out.
    pub fn remove(&mut self, key: &K) -> Option<Arc<V>> {
        // Asked first, so that removing nothing never copies the table.
        if !self.0.contains_key(key) {
            return None;
        }
        Arc::make_mut(&mut self.0).remove(key)
    }

    /// Takes out the row with the smallest key.
    pub fn pop_first(&mut self) -> Option<(K, Arc<V>)> {
        Arc::make_mut(&mut self.0).pop_first()
    }

    /// Keeps only the rows for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        if self.0.iter().any(|(key, row)| !keep(key, row)) {
            Arc::make_mut(&mut self.0).retain(|key, row| keep(key, row));
        }
    }

    /// The rows in the order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> + ExactSizeIterator {
        self.0.iter().map(|(key, row)| (key, &**row))
    }

    /// The rows in the order of their keys, without the keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator {
        self.0.values().map(|row| &**row)
    }

    /// The keys in order.
    pub fn keys(&self) -> btree_map::Keys<'_, K, Arc<V>> {
        self.0.keys()
    }

    /// The rows whose keys lie in `range`, in order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.range(range).map(|(key, row)| (key, &**row))
    }

    /// Whether both are the same table, untouched since one was copied from the other. Equal tables
    /// that came about in different ways are not the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Ord, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Ord, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(rows: I) -> Self {
        Self(Arc::new(rows.into_iter().map(|(key, row)| (key, Arc::new(row))).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_a_snapshot() {
        let mut table: Table<u8, &str> = [(1, "a"), (2, "b")].into_iter().collect();
        let snapshot = table.clone();
        table.insert(1, "z");
        table.remove(&2);
        assert_eq!((snapshot.get(&1), snapshot.len()), (Some(&"a"), 2));
        assert_eq!((table.get(&1), table.len()), (Some(&"z"), 1));
        assert!(!table.is_same(&snapshot) && snapshot.is_same(&snapshot.clone()));
    }
}
