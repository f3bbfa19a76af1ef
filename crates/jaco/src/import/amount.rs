//! Times, sizes and shares of processors as compose files write them.

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// A time without a loss: `30s`, `1500ms`.
pub(super) fn duration(nanos: u64) -> String {
    let units = [(NANOS_PER_SECOND, "s"), (1_000_000, "ms"), (1_000, "us")];
    let unit = units.into_iter().find(|(size, _)| nanos.is_multiple_of(*size));
    let (size, name) = unit.unwrap_or((1, "ns"));
    format!("{}{name}", nanos / size)
}

/// A time, unless it is 0, which is the engine's default.
pub(super) fn duration_if_set(nanos: u64) -> Option<String> {
    (nanos != 0).then(|| duration(nanos))
}

/// A size without a loss: `256m`, `1000b`.
pub(super) fn bytes(bytes: i64) -> String {
    let units = [(1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k")];
    let unit = units.into_iter().find(|(size, _)| bytes % size == 0);
    let (size, name) = unit.unwrap_or((1, "b"));
    format!("{}{name}", bytes / size)
}

/// A size, unless it is 0 or less, which is no limit.
pub(super) fn bytes_if_set(number: i64) -> Option<String> {
    (number > 0).then(|| bytes(number))
}

/// Cores, of billionths of one; rounded up to thousandths, which is what JACO counts in.
pub(super) fn cores_if_set(nanos: i64) -> Option<String> {
    let millis = nanos / NANOS_PER_MILLI + i64::from(nanos % NANOS_PER_MILLI != 0);
    if millis <= 0 {
        return None;
    }
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// A share, such as that of steps that may fail, without digits that say nothing.
pub(super) fn ratio(share: f64) -> Option<serde_json::Value> {
    // Engines store it with the precision of 32 bits.
    let rounded = (share * 10_000.0).round() / 10_000.0;
    (rounded > 0.0).then(|| rounded.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-2: amounts are read as what the engine has.
    #[test]
    fn amounts_are_written_without_a_loss() {
        for nanos in [1, 1_000, 1_500_000_000, 30_000_000_000, 90_000_000] {
            let read = jaco_compose::units::parse_duration_nanos(&duration(nanos));
            assert_eq!(read, Some(nanos), "{}", duration(nanos));
        }
        for number in [1, 1000, 1 << 10, 6 << 20, 3 << 30, (1 << 30) + 1] {
            let read = jaco_compose::units::parse_bytes(&bytes(number));
            assert_eq!(read, u64::try_from(number).ok(), "{}", bytes(number));
        }
        let cores: Vec<_> = [500_000_000, 2_000_000_000, 333_333_333, 10_000_000_000, 0]
            .into_iter()
            .map(|nanos| cores_if_set(nanos).unwrap_or_default())
            .collect();
        assert_eq!(cores, ["0.5", "2", "0.334", "10", ""]);
    }
}
