//! Lengths of time, numbers of bytes and shares of processors, as the canonical form writes them.

use super::SpecError;

const UNITS: [(&str, u64); 6] = [
    // `ms` before `m`, or it would never be reached.
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
];

const SIZES: [(&str, u32); 10] = [
    ("kb", 10),
    ("mb", 20),
    ("gb", 30),
    ("tb", 40),
    ("k", 10),
    ("m", 20),
    ("g", 30),
    ("t", 40),
    ("b", 0),
    ("", 0),
];

/// `1m30s`, `500ms`, `1.5s` in nanoseconds.
pub(super) fn nanos(key: &'static str, text: &str) -> Result<i64, SpecError> {
    let expected = "a length of time such as 1m30s";
    let refuse = || SpecError::Value { key, value: text.to_owned(), expected };
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() && text != "0" {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refuse)?;
        let (number, tail) = rest.split_at(end);
        let (unit, size) =
            UNITS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(refuse)?;
        let part = decimal(number, *size).ok_or_else(refuse)?;
        total = total.checked_add(part).ok_or_else(refuse)?;
        rest = &tail[unit.len()..];
    }
    i64::try_from(total).map_err(|_| refuse())
}

/// `4294967296`, `64m`, `1gb` in bytes; -1 means "no limit" where Docker takes it.
pub(super) fn bytes(key: &'static str, text: &str) -> Result<i64, SpecError> {
    let expected = "a number of bytes such as 64m";
    let refuse = || SpecError::Value { key, value: text.to_owned(), expected };
    if text == "-1" {
        return Ok(-1);
    }
    let lower = text.trim().to_ascii_lowercase();
    let lower = lower.replace('i', "");
    let (number, shift) = SIZES
        .iter()
        .find_map(|(unit, shift)| Some((lower.strip_suffix(unit)?, *shift)))
        .ok_or_else(refuse)?;
    let bytes = decimal(number, 1 << shift).ok_or_else(refuse)?;
    i64::try_from(bytes).map_err(|_| refuse())
}

/// `0.25` processors in thousand-millionths of one.
pub(super) fn nano_cpus(key: &'static str, text: &str) -> Result<i64, SpecError> {
    let expected = "a number of processors such as 0.5";
    let refuse = || SpecError::Value { key, value: text.to_owned(), expected };
    let nanos = decimal(text, 1_000_000_000).ok_or_else(refuse)?;
    i64::try_from(nanos).map_err(|_| refuse())
}

/// A whole number, or microseconds written as a length of time.
pub(super) fn micros(key: &'static str, text: &str) -> Result<i64, SpecError> {
    match text.parse() {
        Ok(number) => Ok(number),
        Err(_) => Ok(nanos(key, text)? / 1_000),
    }
}

pub(super) fn whole(key: &'static str, text: &str) -> Result<i64, SpecError> {
    let value = text.to_owned();
    text.parse().map_err(|_| SpecError::Value { key, value, expected: "a whole number" })
}

/// `number` with at most a few decimals, times `unit`, without going through floats.
fn decimal(number: &str, unit: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part = part.get(..9.min(part.len()))?;
    let scale = 10_u64.pow(u32::try_from(part.len()).ok()?);
    let part: u64 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let part = u64::try_from(u128::from(part) * u128::from(unit) / u128::from(scale)).ok()?;
    whole.checked_mul(unit)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        let read = |text| nanos("t", text).ok();
        assert_eq!(read("1m30s"), Some(90_000_000_000));
        assert_eq!(
            [read("500ms"), read("1.5s"), read("0s")],
            [Some(500_000_000), Some(1_500_000_000), Some(0)]
        );
        assert_eq!([read("5"), read("s"), read("1x"), read("9999999h")], [None; 4]);
    }

    #[test]
    fn sizes() {
        let read = |text| bytes("b", text).ok();
        assert_eq!([read("64m"), read("64MB"), read("64MiB")], [Some(64 << 20); 3]);
        assert_eq!([read("1024"), read("1.5k"), read("-1")], [Some(1024), Some(1536), Some(-1)]);
        assert_eq!([read(""), read("m"), read("1x")], [None; 3]);
    }

    #[test]
    fn processors() {
        assert_eq!(nano_cpus("c", "0.25"), Ok(250_000_000));
        assert_eq!(nano_cpus("c", "2"), Ok(2_000_000_000));
        assert!(nano_cpus("c", "half").is_err());
    }
}
