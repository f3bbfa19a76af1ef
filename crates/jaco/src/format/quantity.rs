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
    let (mut left, mut right) = (a, b);
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

    #[test]
    fn sizes_have_a_readable_unit() {
        let sizes = [1023, 1024, 1025, 1 << 20, 3 << 20].map(size);
        assert_eq!(sizes, ["1023 bytes", "1 KiB", "2 KiB", "1.0 MiB", "3.0 MiB"]);
    }
}
