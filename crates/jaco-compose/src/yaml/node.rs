//! A plain tree of values that remember where they were written.
//!
//! Mappings are sorted by key: lookups are binary searches, merges are one pass, and no order can
//! leak into the canonical form. Sequences keep their order. Texts up to 24 bytes, which most keys and
//! values are, lie inside of their node: half of a load would else be spent on small allocations.

use compact_str::CompactString;

use crate::diagnostics::source::Pos;
use crate::yaml::key::{Key, Wanted};

/// How a merge treats a node, from the tags of the compose specification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MergeTag {
    /// Merged by the rules of its key.
    #[default]
    None,
    /// `!reset`: removes the value of earlier files.
    Reset,
    /// `!override`: replaces the value of earlier files.
    Override,
}

/// A value, its place and its merge tag.
#[derive(Debug, Clone)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it was written.
    pub pos: Pos,
    /// How a merge treats it.
    pub tag: MergeTag,
}

/// A YAML value as Compose reads it.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number that is not an integer.
    Float(f64),
    /// A string.
    Str(CompactString),
    /// A list.
    Seq(Vec<Node>),
    /// A mapping.
    Map(Map),
}

/// A key, its place, and its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// Where the key was written.
    pub key_pos: Pos,
    /// The value.
    pub node: Node,
}

/// A mapping sorted by key, each key once.
///
/// Most keys that are looked up are absent, and most mappings are no longer in the cache when a phase comes to them: a
/// mapping says by itself, without a look at its entries, which keys it cannot have.
#[derive(Debug, Clone, Default)]
pub struct Map {
    entries: Vec<Entry>,
    /// The marks of all entries, and of some that were taken out.
    marks: u64,
}

/// As many entries as are faster gone through from the first one on than halved.
const FEW: usize = 24;

impl Node {
    /// A value at `pos` that merges by the rules.
    #[must_use]
    pub fn new(value: Value, pos: Pos) -> Self {
        Self { value, pos, tag: MergeTag::None }
    }

    /// A text at `pos`.
    #[must_use]
    pub fn text(text: impl Into<CompactString>, pos: Pos) -> Self {
        Self::new(Value::Str(text.into()), pos)
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Str(text) => Some(text),
            Value::Null
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Float(_)
            | Value::Seq(_)
            | Value::Map(_) => None,
        }
    }

    /// The boolean, if it is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self.value { Some(value) } else { None }
    }

    /// The integer, if it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        if let Value::Int(value) = self.value { Some(value) } else { None }
    }

    /// The mapping, if it is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        if let Value::Map(map) = &self.value { Some(map) } else { None }
    }

    /// The mapping, if it is one, to change it.
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        if let Value::Map(map) = &mut self.value { Some(map) } else { None }
    }

    /// The list, if it is one.
    #[must_use]
    pub fn as_seq(&self) -> Option<&[Self]> {
        if let Value::Seq(items) = &self.value { Some(items) } else { None }
    }

    /// The list, if it is one, to change it.
    pub fn as_seq_mut(&mut self) -> Option<&mut Vec<Self>> {
        if let Value::Seq(items) = &mut self.value { Some(items) } else { None }
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The value below `key`, if this is a mapping that has it.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map()?.get(key)
    }

    /// The text below `key`, if this is a mapping that has one there.
    #[must_use]
    #[inline]
    pub fn get_str(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// What kind of value it is, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Str(_) => "a string",
            Value::Seq(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    /// Whether two trees are equal, regardless of their positions.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b).is_eq(),
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Seq(a), Value::Seq(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|(a, b)| a.key == b.key && a.node.same(&b.node))
            }
            _ => false,
        }
    }
}

impl Map {
    /// A mapping of `entries`; where a key comes twice, the later one stays.
    #[must_use]
    pub fn from_entries(mut entries: Vec<Entry>) -> Self {
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        entries.dedup_by(|later, earlier| {
            let same = later.key == earlier.key;
            if same {
                std::mem::swap(later, earlier);
            }
            same
        });
        Self::from_sorted(entries)
    }

    /// A mapping of entries that are sorted and unique already.
    pub(crate) fn from_sorted(entries: Vec<Entry>) -> Self {
        debug_assert!(entries.is_sorted_by(|a, b| a.key < b.key), "entries must be sorted");
        let marks = entries.iter().fold(0, |all, entry| all | Wanted::from(&entry.key).mark());
        Self { entries, marks }
    }

    /// Where `key` is.
    #[inline]
    fn find(&self, key: &str) -> Option<usize> {
        let wanted = Wanted::new(key);
        if self.marks & wanted.mark() == 0 {
            return None;
        }
        self.search(wanted).ok()
    }

    /// Where a key is, or would be.
    fn search(&self, wanted: Wanted<'_>) -> Result<usize, usize> {
        let compare = |entry: &Entry| wanted.compare((&entry.key).into());
        if self.entries.len() > FEW {
            return self.entries.binary_search_by(compare);
        }
        let at = self.entries.iter().position(|entry| compare(entry).is_ge());
        match at {
            Some(at) if compare(&self.entries[at]).is_eq() => Ok(at),
            Some(at) => Err(at),
            None => Err(self.entries.len()),
        }
    }

    /// Puts a new entry to its place.
    fn insert_at(&mut self, index: usize, entry: Entry) {
        self.marks |= Wanted::from(&entry.key).mark();
        self.entries.insert(index, entry);
    }

    /// The value of `key`.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.find(key).map(|index| &self.entries[index].node)
    }

    /// The value of `key`, to change it.
    #[inline]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.find(key).map(|index| &mut self.entries[index].node)
    }

    /// The key with its place and value.
    #[must_use]
    #[inline]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.find(key).map(|index| &self.entries[index])
    }

    /// Whether `key` is there.
    #[must_use]
    #[inline]
    pub fn contains(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// Sets `key`, replacing what was there.
    pub fn insert(&mut self, key: &str, node: Node) {
        let key_pos = node.pos;
        match self.search(key.into()) {
            Ok(index) => self.entries[index].node = node,
            Err(index) => self.insert_at(index, Entry { key: key.into(), key_pos, node }),
        }
    }

    /// Sets `key` unless it is there.
    pub fn insert_default(&mut self, key: &str, value: Value, pos: Pos) {
        if let Err(index) = self.search(key.into()) {
            let node = Node::new(value, pos);
            self.insert_at(index, Entry { key: key.into(), key_pos: pos, node });
        }
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        self.find(key).map(|index| self.entries.remove(index).node)
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.entries.retain(keep);
    }

    /// Keeps the entries for which `keep` returns true; it may change their values.
    pub(crate) fn retain_mut(&mut self, keep: impl FnMut(&mut Entry) -> bool) {
        self.entries.retain_mut(keep);
    }

    /// All entries by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Entry> + Clone {
        self.entries.iter()
    }

    /// All entries by key, to change their values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// All entries by key, by value.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(String, i64),
        InsertDefault(String, i64),
        Remove(String),
        KeepEven,
    }

    /// Keys that are often alike in their first eight bytes, and enough of them for both ways to search.
    fn name() -> impl Strategy<Value = String> {
        "(mem_rese)?[a-f\0]{0,2}"
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (name(), any::<i64>()).prop_map(|(key, value)| Step::Insert(key, value)),
            2 => (name(), any::<i64>()).prop_map(|(key, value)| Step::InsertDefault(key, value)),
            2 => name().prop_map(Step::Remove),
            1 => Just(Step::KeepEven),
        ]
    }

    fn node(value: i64) -> Node {
        Node::new(Value::Int(value), Pos::default())
    }

    proptest! {
        /// A mapping finds what it was given, in the order of the keys, and nothing else.
        #[test]
        fn mappings_are_as_maps(
            first in vec((name(), any::<i64>()), 0..60),
            steps in vec(step(), 0..60),
            wanted in vec(name(), 20),
        ) {
            let mut known: BTreeMap<String, i64> = first.iter().cloned().collect();
            let entry = |(key, value): (String, i64)| {
                Entry { key: key.into(), key_pos: Pos::default(), node: node(value) }
            };
            let mut map = Map::from_entries(first.into_iter().map(entry).collect());
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        map.insert(&key, node(value));
                        known.insert(key, value);
                    }
                    Step::InsertDefault(key, value) => {
                        map.insert_default(&key, Value::Int(value), Pos::default());
                        known.entry(key).or_insert(value);
                    }
                    Step::Remove(key) => {
                        let removed = map.remove(&key).and_then(|node| node.as_int());
                        prop_assert_eq!(removed, known.remove(&key));
                    }
                    Step::KeepEven => {
                        let even = |value: i64| value % 2 == 0;
                        map.retain(|entry| entry.node.as_int().is_some_and(even));
                        known.retain(|_, value| even(*value));
                    }
                }
            }
            let found: Vec<_> = map.iter().map(|entry| (entry.key.to_string(), entry.node.as_int())).collect();
            let expected: Vec<_> = known.iter().map(|(key, value)| (key.clone(), Some(*value))).collect();
            prop_assert_eq!(found, expected);
            for key in known.keys().chain(&wanted) {
                prop_assert_eq!(map.get(key).and_then(Node::as_int), known.get(key).copied(), "{:?}", key);
                prop_assert_eq!(map.contains(key), known.contains_key(key));
            }
        }
    }
}
