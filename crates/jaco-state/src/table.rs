//! A sorted table with cheap snapshots, and the changes between two of them.
//!
//! Rows are in chunks that versions share. A write copies one chunk and the list of chunks, never
//! the table; comparing two versions skips every chunk that they share. Whoever remembers the last
//! version it has seen so finds what is new at the price of what is new.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// A sorted map whose clone costs nothing until one side is changed, and then one chunk of rows.
pub struct Table<K, V> {
    /// In order; none is empty.
    chunks: Arc<Vec<Arc<Chunk<K, V>>>>,
    len: usize,
}

/// A chunk of rows, in order.
type Chunk<K, V> = Vec<(K, Arc<V>)>;

/// More rows than this, and a chunk is split. At 150,000 rows a write copies this many references
/// to rows and about 2,000 to chunks: neither outweighs the other.
const CHUNK_MAX: usize = 128;

/// A row that is not the same in two versions of a table; `None` where there is none.
#[derive(Debug, PartialEq, Eq)]
pub struct Changed<'a, K, V> {
    /// Its key.
    pub key: &'a K,
    /// The row in the older version.
    pub old: Option<&'a V>,
    /// The row in the newer one.
    pub new: Option<&'a V>,
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// The row with this key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).map(|row| &**row)
    }

    /// Whether there is a row with this key.
    #[must_use]
    pub fn contains(&self, key: &K) -> bool {
        self.find(key).is_some()
    }

    /// The row with this key, shared.
    pub fn get_shared(&self, key: &K) -> Option<Arc<V>> {
        self.find(key).map(Arc::clone)
    }

    /// Puts a row in, and hands back the one it replaces.
    pub fn insert(&mut self, key: K, row: V) -> Option<Arc<V>> {
        self.insert_shared(key, Arc::new(row))
    }

    /// Puts a row in that others may hold as well, and hands back the one it replaces.
    pub fn insert_shared(&mut self, key: K, row: Arc<V>) -> Option<Arc<V>> {
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.is_empty() {
            chunks.push(Arc::default());
        }
        // A key before all rows is inserted into the first chunk.
        let at = chunk_of(chunks, &key).unwrap_or(0);
        let rows = Arc::make_mut(&mut chunks[at]);
        match rows.binary_search_by(|(known, _)| known.cmp(&key)) {
            Ok(place) => Some(std::mem::replace(&mut rows[place].1, row)),
            Err(place) => {
                rows.insert(place, (key, row));
                self.len += 1;
                if rows.len() > CHUNK_MAX {
                    // Rows that come in order, as those of a snapshot do, leave full chunks behind.
                    let is_last = place + 1 == rows.len();
                    let upper = rows.split_off(if is_last { place } else { rows.len() / 2 });
                    chunks.insert(at + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    /// Takes a row out.
    pub fn remove(&mut self, key: &K) -> Option<Arc<V>> {
        // Asked first, so that removing nothing never copies anything.
        let (at, place) = self.place(key)?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let rows = Arc::make_mut(&mut chunks[at]);
        let (_, row) = rows.remove(place);
        self.len -= 1;
        join_small(chunks, at);
        Some(row)
    }

    /// Takes out the row with the smallest key.
    pub fn pop_first(&mut self) -> Option<(K, Arc<V>)> {
        let key = self.keys().next()?.clone();
        let row = self.remove(&key)?;
        Some((key, row))
    }

    /// Keeps only the rows for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &V) -> bool) {
        let gone: Vec<K> =
            self.iter().filter(|(key, row)| !keep(key, row)).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.remove(&key);
        }
    }

    /// The rows whose keys lie in `range`, in order.
    pub fn range(&self, range: impl RangeBounds<K>) -> Rows<'_, K, V> {
        let front = match range.start_bound() {
            Bound::Included(key) => self.first_where(|known| known >= key),
            Bound::Excluded(key) => self.first_where(|known| known > key),
            Bound::Unbounded => Place::START,
        };
        let back = match range.end_bound() {
            Bound::Included(key) => self.first_where(|known| known > key),
            Bound::Excluded(key) => self.first_where(|known| known >= key),
            Bound::Unbounded => self.end(),
        };
        Rows { chunks: &self.chunks, front, back: back.max(front) }
    }

    /// What is not the same here and in an older version, in the order of the keys: rows that came,
    /// went, or were written again, be it with the same content. Costs as much as the chunks that
    /// the two do not share.
    #[must_use]
    pub fn changed_since<'a>(&'a self, older: &'a Self) -> Vec<Changed<'a, K, V>> {
        let mut changed = Vec::new();
        if self.is_same(older) {
            return changed;
        }
        let (mut old, mut new) = (Cursor::over(older), Cursor::over(self));
        loop {
            if let (Some(a), Some(b)) = (old.whole_chunk(), new.whole_chunk())
                && Arc::ptr_eq(a, b)
            {
                old.skip_chunk();
                new.skip_chunk();
                continue;
            }
            let order = match (old.row(), new.row()) {
                (None, None) => return changed,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.cmp(b),
            };
            let before = if order.is_le() { old.next() } else { None };
            let after = if order.is_ge() { new.next() } else { None };
            let key = after.or(before).map(|(key, _)| key).expect("one of the two has a row");
            let (before, after) = (before.map(|(_, row)| row), after.map(|(_, row)| row));
            let is_same = matches!((before, after), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
            if !is_same {
                let (old, new) = (before.map(|row| &**row), after.map(|row| &**row));
                changed.push(Changed { key, old, new });
            }
        }
    }

    fn find(&self, key: &K) -> Option<&Arc<V>> {
        let (at, place) = self.place(key)?;
        Some(&self.chunks[at][place].1)
    }

    /// The chunk of the row with this key, and its place in there.
    fn place(&self, key: &K) -> Option<(usize, usize)> {
        let at = chunk_of(&self.chunks, key)?;
        let place = self.chunks[at].binary_search_by(|(known, _)| known.cmp(key)).ok()?;
        Some((at, place))
    }

    /// The first place whose key is `beyond`, which holds of no key or of all from some key on.
    fn first_where(&self, beyond: impl Fn(&K) -> bool) -> Place {
        let is_before =
            |chunk: &Arc<Chunk<K, V>>| chunk.last().is_some_and(|(known, _)| !beyond(known));
        let chunk = self.chunks.partition_point(is_before);
        let row = self.chunks.get(chunk);
        let row = row.map_or(0, |rows| rows.partition_point(|(known, _)| !beyond(known)));
        Place { chunk, row }
    }
}

impl<K: Ord + Clone, V: Clone> Table<K, V> {
    /// A row to be changed in place; copied first if a snapshot shares it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (at, place) = self.place(key)?;
        let rows = Arc::make_mut(&mut Arc::make_mut(&mut self.chunks)[at]);
        Some(Arc::make_mut(&mut rows[place].1))
    }
}

impl<K, V> Table<K, V> {
    /// The rows in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        let rows = Rows { chunks: &self.chunks, front: Place::START, back: self.end() };
        Iter { rows, left: self.len }
    }

    /// The rows in the order of their keys, without the keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator {
        self.iter().map(|(_, row)| row)
    }

    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator {
        self.iter().map(|(key, _)| key)
    }

    /// Whether both are the same table, untouched since one was copied from the other. Equal tables
    /// that came about in different ways are not the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chunks, &other.chunks)
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn end(&self) -> Place {
        Place { chunk: self.chunks.len(), row: 0 }
    }
}

/// The chunk that a key is in, if it is in any; none if it comes before all of them.
fn chunk_of<K: Ord, V>(chunks: &[Arc<Chunk<K, V>>], key: &K) -> Option<usize> {
    chunks
        .partition_point(|rows| rows.first().is_some_and(|(first, _)| first <= key))
        .checked_sub(1)
}

/// Joins a chunk that became small with one beside it, so that a table that shrinks is not left with
/// a chunk for each row.
fn join_small<K: Clone, V>(chunks: &mut Vec<Arc<Chunk<K, V>>>, at: usize) {
    if chunks[at].is_empty() {
        chunks.remove(at);
        return;
    }
    for lower in [Some(at), at.checked_sub(1)].into_iter().flatten() {
        let together = chunks.get(lower + 1).map(|upper| chunks[lower].len() + upper.len());
        if together.is_some_and(|size| size <= CHUNK_MAX / 2) {
            let upper = chunks.remove(lower + 1);
            Arc::make_mut(&mut chunks[lower]).extend(upper.iter().cloned());
            return;
        }
    }
}

/// A place between rows: before the row of this chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    chunk: usize,
    row: usize,
}

impl Place {
    const START: Self = Self { chunk: 0, row: 0 };
}

/// Some rows of a table, in the order of their keys.
pub struct Rows<'a, K, V> {
    chunks: &'a [Arc<Chunk<K, V>>],
    front: Place,
    back: Place,
}

impl<'a, K, V> Iterator for Rows<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        while self.front < self.back {
            let Place { chunk, row } = self.front;
            if let Some((key, value)) = self.chunks.get(chunk)?.get(row) {
                self.front.row += 1;
                return Some((key, value));
            }
            self.front = Place { chunk: chunk + 1, row: 0 };
        }
        None
    }
}

impl<K, V> DoubleEndedIterator for Rows<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        while self.front < self.back {
            let Place { chunk, row } = self.back;
            let Some(row) = row.checked_sub(1) else {
                let chunk = chunk.checked_sub(1)?;
                self.back = Place { chunk, row: self.chunks[chunk].len() };
                continue;
            };
            self.back.row = row;
            let (key, value) = &self.chunks[chunk][row];
            return Some((key, value));
        }
        None
    }
}

/// All rows of a table, in the order of their keys.
pub struct Iter<'a, K, V> {
    rows: Rows<'a, K, V>,
    left: usize,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        self.left -= 1;
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let row = self.rows.next_back()?;
        self.left -= 1;
        Some(row)
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}

/// A walk over a table that can pass a chunk without looking into it.
struct Cursor<'a, K, V> {
    chunks: &'a [Arc<Chunk<K, V>>],
    at: Place,
}

impl<'a, K, V> Cursor<'a, K, V> {
    fn over(table: &'a Table<K, V>) -> Self {
        Self { chunks: &table.chunks, at: Place::START }
    }

    /// The chunk ahead, if none of its rows was taken yet.
    fn whole_chunk(&self) -> Option<&'a Arc<Chunk<K, V>>> {
        (self.at.row == 0).then(|| self.chunks.get(self.at.chunk)).flatten()
    }

    fn skip_chunk(&mut self) {
        self.at = Place { chunk: self.at.chunk + 1, row: 0 };
    }

    fn row(&self) -> Option<(&'a K, &'a Arc<V>)> {
        let (key, row) = self.chunks.get(self.at.chunk)?.get(self.at.row)?;
        Some((key, row))
    }

    fn next(&mut self) -> Option<(&'a K, &'a Arc<V>)> {
        let row = self.row()?;
        self.at.row += 1;
        if self.at.row == self.chunks[self.at.chunk].len() {
            self.skip_chunk();
        }
        Some(row)
    }
}

impl<K: Ord + Clone, V: PartialEq> PartialEq for Table<K, V> {
    /// By content: how the rows are cut into chunks is of no meaning. Rows that both share are not looked at.
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len
            && self.changed_since(other).iter().all(|changed| changed.old == changed.new)
    }
}

impl<K: Ord + Clone, V: Eq> Eq for Table<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K, V> fmt::Debug for Rows<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        Self { chunks: Arc::clone(&self.chunks), len: self.len }
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { chunks: Arc::default(), len: 0 }
    }
}

impl<K: Ord + Clone, V> FromIterator<(K, V)> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(rows: I) -> Self {
        // Sorted first, and so each chunk is written once and left full.
        let rows: BTreeMap<K, V> = rows.into_iter().collect();
        let mut table = Self::default();
        for (key, row) in rows {
            table.insert(key, row);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    /// A write to a large table copies one chunk: all others are still shared.
    #[test]
    fn versions_share_what_did_not_change() {
        let table: Table<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
        let mut newer = table.clone();
        newer.insert(5_000, 1);
        newer.remove(&7_000);
        newer.insert(10_000, 2);
        let shared = newer
            .chunks
            .iter()
            .filter(|chunk| table.chunks.iter().any(|other| Arc::ptr_eq(chunk, other)));
        assert!(shared.count() + 4 >= table.chunks.len());
        let changed = newer.changed_since(&table);
        assert_eq!(
            changed,
            [
                Changed { key: &5_000, old: Some(&5_000), new: Some(&1) },
                Changed { key: &7_000, old: Some(&7_000), new: None },
                Changed { key: &10_000, old: None, new: Some(&2) },
            ]
        );
    }

    /// A table that was filled and emptied again is not left with a chunk for each row.
    #[test]
    fn a_table_that_shrinks_has_few_chunks() {
        let mut table: Table<u32, u32> = (0..10_000).map(|key| (key, key)).collect();
        table.retain(|key, _| key % 100 == 0);
        assert_eq!(table.len(), 100);
        assert!(table.chunks.len() <= 10, "{}", table.chunks.len());
    }

    #[derive(Debug, Clone)]
    enum Edit {
        Insert(u16, u8),
        Remove(u16),
        Change(u16),
        PopFirst,
        Retain(u16),
        FillFrom(u16),
    }

    fn edit() -> impl Strategy<Value = Edit> {
        prop_oneof![
            8 => (0..1_000u16, any::<u8>()).prop_map(|(key, row)| Edit::Insert(key, row)),
            8 => (0..1_000u16).prop_map(Edit::Remove),
            4 => (0..1_000u16).prop_map(Edit::Change),
            1 => Just(Edit::PopFirst),
            1 => (2..9u16).prop_map(Edit::Retain),
            2 => (0..1_000u16).prop_map(Edit::FillFrom),
        ]
    }

    fn carry_out(edit: &Edit, table: &mut Table<u16, u8>, model: &mut BTreeMap<u16, u8>) {
        match *edit {
            Edit::Insert(key, row) => {
                assert_eq!(table.insert(key, row).map(|row| *row), model.insert(key, row));
            }
            Edit::Remove(key) => {
                assert_eq!(table.remove(&key).map(|row| *row), model.remove(&key));
            }
            Edit::Change(key) => {
                let change = |row: &mut u8| *row = row.wrapping_add(1);
                assert_eq!(table.get_mut(&key).map(change), model.get_mut(&key).map(change));
            }
            Edit::PopFirst => {
                assert_eq!(table.pop_first().map(|(key, row)| (key, *row)), model.pop_first());
            }
            Edit::Retain(of) => {
                table.retain(|key, _| key % of == 0);
                model.retain(|key, _| key % of == 0);
            }
            Edit::FillFrom(from) => {
                for key in from..from + 200 {
                    table.insert(key, 7);
                    model.insert(key, 7);
                }
            }
        }
    }

    proptest! {
        /// A table answers like a sorted map, forwards and backwards, over any range; and what is
        /// said to have changed since any older version is what did.
        #[test]
        fn a_table_is_a_sorted_map_that_knows_what_changed(
            edits in prop::collection::vec(edit(), 1..60),
            keep in any::<prop::sample::Index>(),
            range in (0..1_200u16, 0..1_200u16),
        ) {
            let (mut table, mut model) = (Table::default(), BTreeMap::new());
            let (mut old, mut old_model) = (table.clone(), model.clone());
            let kept_after = keep.index(edits.len());
            for (number, edit) in edits.iter().enumerate() {
                carry_out(edit, &mut table, &mut model);
                if number == kept_after {
                    (old, old_model) = (table.clone(), model.clone());
                }
            }
            prop_assert!(table.iter().eq(&model) && table.len() == model.len());
            prop_assert!(table.iter().rev().eq(model.iter().rev()));
            prop_assert!(table.chunks.iter().all(|c| !c.is_empty() && c.len() <= CHUNK_MAX));
            prop_assert!(old.iter().eq(&old_model), "an older version was written to");
            let (low, high) = (range.0.min(range.1), range.0.max(range.1));
            prop_assert!(table.range(low..high).eq(model.range(low..high)));
            prop_assert!(table.range(low..=high).rev().eq(model.range(low..=high).rev()));
            let mut rebuilt = old_model;
            for change in table.changed_since(&old) {
                prop_assert_eq!(rebuilt.get(change.key), change.old);
                match change.new {
                    Some(row) => rebuilt.insert(*change.key, *row),
                    None => rebuilt.remove(change.key),
                };
            }
            prop_assert_eq!(rebuilt, model);
            prop_assert_eq!(&table, &table.iter().map(|(key, row)| (*key, *row)).collect());
        }
    }
}
