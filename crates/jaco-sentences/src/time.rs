//! Text forms of times and durations. The present is an argument.

use std::time::Duration;

pub use jaco_json::time::{Since, duration, rfc3339};

/// The age of a time in its largest unit: `12s`, `5m`, `3h`, `2d`; `-` for never.
#[must_use]
pub fn ago(at_ms: i64, now_ms: i64) -> String {
    if at_ms <= 0 {
        return "-".to_owned();
    }
    // Clocks of nodes differ: a time in the future counts as now.
    let secs = (now_ms - at_ms).max(0) / 1000;
    match secs {
        0..60 => format!("{secs}s"),
        60..3600 => format!("{}m", secs / 60),
        3600..86_400 => format!("{}h", secs / 3600),
        _ => format!("{}d", secs / 86_400),
    }
}

/// How long it is until a time, in its largest unit: `in 60d`; `expired` if it has passed, `-` for never.
#[must_use]
pub fn left(at_ms: i64, now_ms: i64) -> String {
    match (at_ms, at_ms <= now_ms) {
        (..=0, _) => "-".to_owned(),
        (_, true) => "expired".to_owned(),
        (_, false) => format!("in {}", ago(now_ms, at_ms)),
    }
}

/// A duration, exactly: `90d`, `36h`, `1h30m`.
#[must_use]
pub fn length(millis: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let mut rest = millis;
    let mut text = String::new();
    for (size, unit) in units {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// An elapsed time, for progress lines: `12.3s`, `2m05s`.
#[must_use]
pub fn elapsed(passed: Duration) -> String {
    match passed.as_secs() {
        0..60 => format!("{:.1}s", passed.as_secs_f64()),
        secs => format!("{}m{:02}s", secs / 60, secs % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_rounded_down() {
        let now = 1_000_000_000_000;
        let check = |secs: i64, expected: &str| assert_eq!(ago(now - secs * 1000, now), expected);
        check(-5, "0s");
        check(59, "59s");
        check(61, "1m");
        check(7200, "2h");
        check(172_800, "2d");
        assert_eq!(ago(0, now), "-");
        assert_eq!(elapsed(Duration::from_millis(12_340)), "12.3s");
        assert_eq!(elapsed(Duration::from_secs(125)), "2m05s");
    }
}
