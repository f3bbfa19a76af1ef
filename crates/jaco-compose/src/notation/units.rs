//! Lengths of time and numbers of bytes as compose files write them.
//!
//! Integers only: nanoseconds and bytes. A value that does not fit is not a value.

use std::fmt::Write as _;

/// Nanoseconds per unit, longest names first so that `ms` is not read as `m`.
const TIME_UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("w", 604_800_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];

/// Reads `1h30m`, `1.5s`, `500ms`, `2d` as nanoseconds.
#[must_use]
pub fn parse_duration_nanos(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let number_len = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at(number_len);
        let (name, nanos) = TIME_UNITS.iter().find(|(name, _)| after.starts_with(name))?;
        total = total.checked_add(scale(number, *nanos)?)?;
        rest = &after[name.len()..];
    }
    // Go's durations, which the official tool uses, end here; beyond it nothing has a meaning.
    (i64::try_from(total).is_ok()).then_some(total)
}

/// Writes nanoseconds the way the official tool prints them: `1m30s`, `1.5s`, `0s`.
#[must_use]
pub fn format_duration_nanos(nanos: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < SECOND {
        let (unit, name) = match nanos {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            _ => (1_000_000, "ms"),
        };
        return format!("{}{name}", decimal(nanos, unit));
    }
    let (hours, minutes) = (nanos / (3_600 * SECOND), nanos / (60 * SECOND) % 60);
    let mut text = String::new();
    if hours > 0 {
        // Writing into a string cannot fail.
        let _infallible = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _infallible = write!(text, "{minutes}m");
    }
    let _infallible = write!(text, "{}s", decimal(nanos % (60 * SECOND), SECOND));
    text
}

/// `number / unit` with as many decimals as needed; `unit` is a power of ten.
fn decimal(number: u64, unit: u64) -> String {
    let (whole, part) = (number / unit, number % unit);
    if part == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let decimals = format!("{part:0width$}");
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}

/// Reads `64m`, `1.5GB`, `512k`, `1024` as bytes; units are powers of 1024, as Docker reads them.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let number_len = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, unit) = text.split_at(number_len);
    let unit = unit.strip_prefix(' ').unwrap_or(unit).to_ascii_lowercase();
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "ki" | "kib" => 10,
        "m" | "mb" | "mi" | "mib" => 20,
        "g" | "gb" | "gi" | "gib" => 30,
        "t" | "tb" | "ti" | "tib" => 40,
        "p" | "pb" | "pi" | "pib" => 50,
        _ => return None,
    };
    let bytes = scale(number, 1 << shift)?;
    i64::try_from(bytes).is_ok().then_some(bytes)
}

/// `number × unit`, rounded down, for a decimal number.
pub(crate) fn scale(number: &str, unit: u64) -> Option<u64> {
    /// More decimals than this change nothing that could be measured.
    const MAX_DECIMALS: usize = 12;
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && decimals.is_empty() {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut total = whole.checked_mul(unit)?;
    let decimals = decimals.get(..decimals.len().min(MAX_DECIMALS))?;
    if !decimals.is_empty() {
        let part: u128 = decimals.parse().ok()?;
        let power = 10_u128.pow(u32::try_from(decimals.len()).ok()?);
        let part = u64::try_from(part * u128::from(unit) / power).ok()?;
        total = total.checked_add(part)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        let cases = [
            ("90s", "1m30s"),
            ("1m", "1m0s"),
            ("1h", "1h0m0s"),
            ("1.5s", "1.5s"),
            ("500ms", "500ms"),
            ("2d", "48h0m0s"),
            ("1h1m1s1ms", "1h1m1.001s"),
            ("10us", "10µs"),
            ("0", "0s"),
            ("0s", "0s"),
        ];
        for (text, expected) in cases {
            let nanos = parse_duration_nanos(text).expect(text);
            assert_eq!(format_duration_nanos(nanos), expected, "{text}");
        }
        for text in ["", "5", "s", "1x", "-1s", "1 s", "99999999999h", "1..2s"] {
            assert_eq!(parse_duration_nanos(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_are_read() {
        let cases = [
            ("1024", 1024),
            ("64m", 64 << 20),
            ("64M", 64 << 20),
            ("1.5gb", 3 << 29),
            ("2 GiB", 2 << 30),
            ("1b", 1),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_bytes(text), Some(expected), "{text}");
        }
        for text in ["", "m", "-1", "1x", "1..5m", "99999999p"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
