//! Versions and ranges of them, as constraints compare them (R-CONS-7).

use std::cmp::Ordering;

/// How versions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// One to four numbers, perhaps behind a `v`; pre-releases compare as text.
    Loose,
    /// As Semantic Versioning 2.0 has it: three numbers without leading zeros; the parts of a
    /// pre-release compare one by one, numbers as numbers.
    Strict,
}

/// Whether a version lies in all of the ranges, for example `>= 1.2, < 2`. What is no version lies
/// in none.
pub(crate) fn is_in_ranges(version: &str, ranges: &str, notation: Notation) -> bool {
    let Some(version) = Version::parse(version, notation) else { return false };
    let mut ranges = members(ranges).peekable();
    ranges.peek().is_some()
        && ranges
            .all(|range| Range::parse(range, notation).is_some_and(|range| range.has(&version)))
}

/// Whether this is a list of ranges that some version can lie in.
pub(crate) fn are_ranges(ranges: &str, notation: Notation) -> bool {
    let mut ranges = members(ranges).peekable();
    ranges.peek().is_some() && ranges.all(|range| Range::parse(range, notation).is_some())
}

/// The members of a list with commas.
pub(super) fn members(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|member| !member.is_empty())
}

struct Range {
    is_in: fn(Ordering) -> bool,
    bound: Version,
}

impl Range {
    fn parse(range: &str, notation: Notation) -> Option<Self> {
        let digits = range.find(|c: char| c.is_ascii_digit() || c == 'v').unwrap_or(range.len());
        let (operator, bound) = range.split_at(digits);
        let bound = Version::parse(bound, notation)?;
        let is_in: fn(Ordering) -> bool = match operator.trim() {
            "" | "=" => Ordering::is_eq,
            "!=" => Ordering::is_ne,
            "<" => Ordering::is_lt,
            "<=" => Ordering::is_le,
            ">" => Ordering::is_gt,
            ">=" => Ordering::is_ge,
            _ => return None,
        };
        Some(Self { is_in, bound })
    }

    fn has(&self, version: &Version) -> bool {
        (self.is_in)(version.cmp(&self.bound))
    }
}

/// Numbers between dots; missing ones are zero, and a pre-release comes before its release.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 4],
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Pre(Vec<Part>),
    Release,
}

/// A part of a pre-release: numbers come before words.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    fn parse(text: &str, notation: Notation) -> Option<Self> {
        let text = text.trim();
        let text = match notation {
            Notation::Loose => text.strip_prefix('v').unwrap_or(text),
            Notation::Strict => text,
        };
        let text = text.split('+').next().unwrap_or(text);
        let (core, pre) = match text.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (text, None),
        };
        let mut numbers = [0; 4];
        let mut parts = core.split('.');
        let mut count = 0;
        for (place, part) in numbers.iter_mut().zip(&mut parts) {
            let has_leading_zero = part.len() > 1 && part.starts_with('0');
            if notation == Notation::Strict && has_leading_zero {
                return None;
            }
            *place = number(part)?;
            count += 1;
        }
        let is_whole = parts.next().is_none() && (notation == Notation::Loose || count == 3);
        let stage = match (pre, notation) {
            (None, _) => Stage::Release,
            (Some(pre), Notation::Loose) => Stage::Pre(vec![Part::Word(pre.to_owned())]),
            (Some(pre), Notation::Strict) => {
                Stage::Pre(pre.split('.').map(Part::parse).collect::<Option<_>>()?)
            }
        };
        is_whole.then_some(Self { numbers, stage })
    }
}

impl Part {
    fn parse(text: &str) -> Option<Self> {
        let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        match number(text) {
            Some(number) => Some(Self::Number(number)),
            None if text.is_empty() || !is_word(text) => None,
            None => Some(Self::Word(text.to_owned())),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CONS-7: the order that the standard gives as its example, each before the next.
    #[test]
    fn semantic_versions_are_ordered_as_their_standard_says() {
        let ordered = [
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-alpha.beta",
            "1.0.0-beta",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc.1",
            "1.0.0",
        ];
        for pair in ordered.windows(2) {
            assert!(is_in_ranges(pair[0], &format!("< {}", pair[1]), Notation::Strict), "{pair:?}");
            assert!(is_in_ranges(pair[1], &format!("> {}", pair[0]), Notation::Strict), "{pair:?}");
        }
        assert!(is_in_ranges("1.0.0+a", "= 1.0.0+b", Notation::Strict), "builds are equal");
        for wrong in ["1.0", "v1.0.0", "01.0.0", "1.0.0.0", "1.0.0-", "1.0.0-a_b", "x"] {
            assert!(!is_in_ranges(wrong, ">= 0.0.0", Notation::Strict), "{wrong}");
        }
    }

    #[test]
    fn loose_versions_need_fewer_numbers() {
        assert!(is_in_ranges("v28.1", ">= 28, < 29", Notation::Loose));
        assert!(!is_in_ranges("29.0.0", ">= 28, < 29", Notation::Loose));
        assert!(is_in_ranges("1.2-rc1", "< 1.2", Notation::Loose));
        assert!(!is_in_ranges("1.2", "", Notation::Loose));
        assert!(!are_ranges(">= 1, about 2", Notation::Loose) && are_ranges("2", Notation::Loose));
    }
}
