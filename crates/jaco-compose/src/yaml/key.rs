//! A key of a mapping: a text whose first bytes are compared as a number.
//!
//! A load looks keys up more often than anything else, and most keys of a mapping differ in their
//! first eight bytes.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

use compact_str::CompactString;

/// A key. Ordered, and equal to another, as its text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    prefix: u64,
    text: CompactString,
}

impl Key {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text, by value.
    #[must_use]
    pub fn into_text(self) -> CompactString {
        self.text
    }
}

/// A text that keys are searched for, with its number computed once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    prefix: u64,
    text: &'a str,
}

impl<'a> Wanted<'a> {
    /// In line, so that the number of a constant is one too.
    #[inline]
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { prefix: prefix(text), text }
    }

    /// The first eight bytes as a number, which is ordered as they are.
    #[inline]
    pub(crate) const fn prefix(self) -> u64 {
        self.prefix
    }

    /// One of 64 bits, the same for the same text.
    #[inline]
    pub(crate) const fn mark(self) -> u64 {
        // The fractional part of the golden ratio: its highest bits depend on all of the number (Knuth, The Art of
        // Computer Programming, volume 3, 6.4, "multiplicative hashing").
        1 << (self.prefix.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58)
    }

    /// Compares `other` with this text.
    #[inline]
    pub(crate) fn compare(self, other: Self) -> Ordering {
        other.prefix.cmp(&self.prefix).then_with(|| {
            if other.text.len() <= PREFIX_BYTES && self.text.len() <= PREFIX_BYTES {
                // What is not in the number is zero bytes at the end.
                return other.text.len().cmp(&self.text.len());
            }
            other.text.cmp(self.text)
        })
    }
}

impl<'a> From<&'a Key> for Wanted<'a> {
    fn from(key: &'a Key) -> Self {
        Self { prefix: key.prefix, text: &key.text }
    }
}

impl<'a> From<&'a str> for Wanted<'a> {
    fn from(text: &'a str) -> Self {
        Self::new(text)
    }
}

const PREFIX_BYTES: usize = 8;

/// The first eight bytes, the first one the most significant; zeroes where there are fewer.
const fn prefix(text: &str) -> u64 {
    let bytes = text.as_bytes();
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; PREFIX_BYTES];
    let mut at = 0;
    while at < bytes.len() {
        first[at] = bytes[at];
        at += 1;
    }
    u64::from_be_bytes(first)
}

impl<T: Into<CompactString>> From<T> for Key {
    fn from(text: T) -> Self {
        let text = text.into();
        Self { prefix: prefix(&text), text }
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq<str> for Key {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        Wanted::from(other).compare(self.into())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A number in front changes no order, zero bytes and short texts included.
        #[test]
        fn keys_are_ordered_as_their_texts(a in "[\0ab\u{e9}]{0,10}", b in "[\0ab\u{e9}]{0,10}") {
            let (left, right) = (Key::from(a.as_str()), Key::from(b.as_str()));
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
            prop_assert_eq!(left == right, a == b);
            prop_assert_eq!(Wanted::new(&b).compare((&left).into()), a.cmp(&b));
        }
    }
}
