//! Counts, sizes and names in messages and tables.

use std::cmp::Ordering;

/// A number with its noun: `1 problem`, `2 problems`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// A size in its largest unit: `512 bytes`, `4 KiB`, `3.0 MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..MIB => format!("{} KiB", bytes.div_ceil(1024)),
        _ => format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB),
    }
}

/// The order in which a reader expects names: numbers in them count as numbers, so that `web-10` comes
/// after `web-9`.
#[must_use]
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let common = common_parts(a, b);
    let (mut left, mut right) = (&a[common..], &b[common..]);
    loop {
        let (a_part, a_rest) = split_part(left);
        let (b_part, b_rest) = split_part(right);
        let order = match (a_part.parse::<u64>(), b_part.parse::<u64>()) {
            (Ok(a_number), Ok(b_number)) => a_number.cmp(&b_number),
            _ => a_part.cmp(b_part),
        };
        // Names such as `a01` and `a1` are equal as numbers, and still have one order.
        if order != Ordering::Equal || (a_part.is_empty() && b_part.is_empty()) {
            return order.then_with(|| a.cmp(b));
        }
        (left, right) = (a_rest, b_rest);
    }
}

/// The length of the parts at the beginning that are the same, or somewhat less. Names of replicas differ at their end.
fn common_parts(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(left, right)| left == right).count();
    let Some(last) = same.checked_sub(1) else { return 0 };
    // The part that the last common byte is in may go on differently.
    let is_digit = |at: &usize| a.as_bytes()[*at].is_ascii_digit();
    let class = is_digit(&last);
    (0..last).rev().find(|at| is_digit(at) != class).map_or(0, |end| end + 1)
}

/// The leading digits, or else everything before the first digit; and the rest.
fn split_part(text: &str) -> (&str, &str) {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let mut names = ["shop-web-10", "shop-web-9", "shop-web-1", "shop-db-2", "n10", "n2", "n"];
        names.sort_by(|a, b| natural_order(a, b));
        let expected = ["n", "n2", "n10", "shop-db-2", "shop-web-1", "shop-web-9", "shop-web-10"];
        assert_eq!(names, expected);
        assert_eq!(natural_order("a01", "a1"), "a01".cmp("a1"));
        assert_eq!(natural_order("a", "a"), Ordering::Equal);
    }

    /// What two names have in common at their beginning is passed over; the order is that of their parts all the same.
    #[test]
    fn common_beginnings_do_not_change_the_order() {
        let parts = |text: &str| {
            let (mut parts, mut rest) = (Vec::new(), text.to_owned());
            while !rest.is_empty() {
                let (part, after) = split_part(&rest);
                parts.push(part.to_owned());
                rest = after.to_owned();
            }
            parts
        };
        let by_parts = |a: &str, b: &str| {
            let (left, right) = (parts(a), parts(b));
            let each = left.iter().zip(&right).map(|(left, right)| {
                match (left.parse::<u64>(), right.parse::<u64>()) {
                    (Ok(left), Ok(right)) => left.cmp(&right),
                    _ => left.cmp(right),
                }
            });
            let first = each.into_iter().find(|order| order.is_ne());
            first.unwrap_or_else(|| left.len().cmp(&right.len())).then_with(|| a.cmp(b))
        };
        let letters = ["", "a", "-", "é", "è", "1", "10", "01", "9"];
        let mut names = Vec::new();
        for first in letters {
            for second in letters {
                names.extend(letters.map(|third| format!("{first}{second}{third}")));
            }
        }
        for a in &names {
            for b in &names {
                assert_eq!(natural_order(a, b), by_parts(a, b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn sizes_have_a_readable_unit() {
        let sizes = [1023, 1024, 1025, 1 << 20, 3 << 20].map(size);
        assert_eq!(sizes, ["1023 bytes", "1 KiB", "2 KiB", "1.0 MiB", "3.0 MiB"]);
    }
}
