//! Times and durations as text. The present is an argument.

use std::time::Duration;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A time in milliseconds since the Unix epoch as RFC 3339 in UTC; `None` for zero, which means never.
#[must_use]
pub fn rfc3339(at_ms: i64) -> Option<String> {
    if at_ms <= 0 {
        return None;
    }
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at_ms) * 1_000_000).ok()?;
    at.format(&Rfc3339).ok()
}

/// Parses a duration: `90s`, `5m`, `1h30m`, `2d`, `250ms`; a bare number is seconds.
///
/// # Errors
/// A message with examples of durations.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; give 30s, 5m, 1h30m or 2d");
    if let Ok(secs) = text.parse() {
        return Ok(Duration::from_secs(secs));
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let tail = &rest[digits..];
        let unit = &tail[..tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len())];
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(wrong()),
        };
        let part = number.checked_mul(millis).ok_or_else(wrong)?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &tail[unit.len()..];
    }
    if text.is_empty() { Err(wrong()) } else { Ok(Duration::from_millis(total)) }
}

/// The start of a time range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// A time in milliseconds since the Unix epoch.
    At(i64),
    /// A duration before now.
    Ago(Duration),
}

impl Since {
    /// The start in milliseconds since the Unix epoch, given the present.
    #[must_use]
    pub fn at_ms(self, now_ms: i64) -> i64 {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => {
                now_ms.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)).max(1)
            }
        }
    }
}

impl std::str::FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(at) = OffsetDateTime::parse(text, &Rfc3339) {
            let millis = at.unix_timestamp_nanos() / 1_000_000;
            return i64::try_from(millis).map(Self::At).map_err(|error| error.to_string());
        }
        duration(text).map(Self::Ago).map_err(|_| {
            format!("{text:?} is neither a duration (5m, 2h) nor a time (2026-01-31T12:00:00Z)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed() {
        let check = |text: &str, millis: u128| {
            assert_eq!(duration(text).map(|d| d.as_millis()), Ok(millis), "{text}");
        };
        check("90", 90_000);
        check("90s", 90_000);
        check("1h30m", 5_400_000);
        check("250ms", 250);
        check("2d", 172_800_000);
        for wrong in ["", "m", "5x", "5 m", "-5m", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_formatted_and_parsed() {
        assert_eq!(rfc3339(0), None);
        assert_eq!(rfc3339(1_767_225_600_500).as_deref(), Some("2026-01-01T00:00:00.5Z"));
        assert_eq!("2026-01-01T00:00:00Z".parse(), Ok(Since::At(1_767_225_600_000)));
        assert_eq!("5m".parse(), Ok(Since::Ago(Duration::from_secs(300))));
        assert_eq!(Since::Ago(Duration::from_secs(1)).at_ms(5000), 4000);
    }
}
