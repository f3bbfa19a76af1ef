//! Arithmetic of amounts and moments, at its bounds and against exact numbers.

use jaco_types::demand::Demand;
use jaco_types::spec::OnNodeLoss;
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{Drain, Millis, RestartCount, Timestamp};
use proptest::prelude::*;

const MAX: u64 = u64::MAX;

fn resources(cpu: u64, memory: u64) -> Resources {
    Resources { cpu: MilliCores(cpu), memory: Bytes(memory) }
}

/// Each amount by itself: neither borrows from the other.
#[test]
fn amounts_are_independent() {
    assert_eq!(resources(1, 2).plus(resources(10, 20)), resources(11, 22));
    assert_eq!(resources(10, 2).minus(resources(1, 20)), resources(9, 0));
    assert_eq!(resources(1, 20).minus(resources(10, 2)), resources(0, 18));
    assert_eq!(resources(MAX, 1).plus(resources(1, 1)), resources(MAX, 2));
    assert_eq!(resources(1, MAX).plus(resources(1, 1)), resources(2, MAX));
    assert_eq!(resources(MAX, 0).minus(resources(0, MAX)), resources(MAX, 0));
}

/// What fits takes no more of either than there is; all of it is enough.
#[test]
fn both_amounts_have_to_fit() {
    for (asked, fits) in [
        ((0, 0), true),
        ((10, 20), true),
        ((11, 20), false),
        ((10, 21), false),
        ((0, 21), false),
        ((11, 0), false),
    ] {
        assert_eq!(resources(asked.0, asked.1).fits(resources(10, 20)), fits, "{asked:?}");
    }
}

#[test]
fn moments_do_not_overflow() {
    assert_eq!(Timestamp(10).since(Timestamp(3)), Millis(7));
    assert_eq!(Timestamp(3).since(Timestamp(3)), Millis(0));
    assert_eq!(Timestamp(0).since(Timestamp(MAX)), Millis(0));
    assert_eq!(Timestamp(MAX).since(Timestamp(0)), Millis(MAX));
    assert_eq!(Timestamp(3).after(Millis(4)), Timestamp(7));
    assert_eq!(Timestamp(MAX - 1).after(Millis(5)), Timestamp(MAX));
    assert_eq!(Millis::from_secs(MAX / 1000), Millis(MAX / 1000 * 1000));
    assert_eq!(Millis::from_secs(MAX / 1000 + 1), Millis(MAX));
    let before = jaco_types::Availability::Active;
    let drain = Drain { timeout: Millis(7), progress_at: Timestamp(MAX - 3), before };
    assert_eq!(drain.due(), Timestamp(MAX));
}

/// R-NODE-1: the leader waits for the node's own time, the time to stop and the slack, and a tenth more.
#[test]
fn leaders_wait_longer_than_nodes() {
    let policy = |after: u64, grace: u64| OnNodeLoss::StopSelf {
        after: Millis::from_secs(after),
        grace: Millis::from_secs(grace),
    };
    assert_eq!(policy(60, 10).replaced_after(), Some(Millis(88_000)));
    assert_eq!(policy(0, 0).replaced_after(), Some(Millis(11_000)));
    assert_eq!(policy(60, 10).stops_after(), Some(Millis(60_000)));
    let odd = OnNodeLoss::StopSelf { after: Millis(1), grace: Millis(0) };
    assert_eq!(odd.replaced_after(), Some(Millis(11_002)), "it is rounded up");
    let longest = OnNodeLoss::StopSelf { after: Millis(MAX), grace: Millis(1) };
    assert_eq!(longest.replaced_after(), Some(Millis(MAX.div_ceil(10))));
    assert_eq!(OnNodeLoss::Replace { after: Millis(MAX) }.replaced_after(), Some(Millis(MAX)));
}

/// R-HEAL-1: the back-off doubles from one second on, up to thirty.
#[test]
fn back_offs_double_to_their_bound() {
    let waits = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|failures| RestartCount::back_off(failures).0);
    assert_eq!(waits, [0, 0, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
}

/// R-CONS-2: what is too much to be counted is refused, and the most that can be counted is taken.
#[test]
fn demands_have_the_range_of_their_amount() {
    let cpu = |text: &str| Demand::parse("cpu", text);
    assert_eq!(cpu("18446744073709551.615"), Ok(Demand::Cpu(MilliCores(MAX))));
    assert!(cpu("18446744073709551.616").is_err());
    assert!(cpu("340282366920938463463374607431768211456").is_err());
    let ram = |text: &str| Demand::parse("ram", text);
    assert_eq!(ram("16777215T"), Ok(Demand::Memory(Bytes(16_777_215 << 40))));
    assert!(ram("16777216T").is_err());
    assert_eq!(ram("17592186044415"), Ok(Demand::Memory(Bytes(17_592_186_044_415 << 20))));
    assert!(ram("17592186044416").is_err());
    assert_eq!(ram("1.000000001G"), Ok(Demand::Memory(Bytes((1 << 30) + 1))));
    assert!(ram("1.0000000001G").is_err(), "ten digits");
    assert_eq!(cpu("1.000000000"), Ok(Demand::Cpu(MilliCores(1000))), "nine digits");
    for text in ["1M", "1G", "1T"] {
        assert!(cpu(text).is_err(), "a processor has no suffix: {text}");
    }
}

proptest! {
    /// R-CONS-2: an amount is its decimal number times its unit, rounded down, whatever its suffix.
    #[test]
    fn amounts_are_exact(
        whole in 0..1_000_000_u64, digits in "[0-9]{0,9}", suffix in prop::sample::select(&["", "M", "m", "G", "g", "T", "t"][..]),
    ) {
        let unit: u128 = match suffix {
            "" | "M" | "m" => 1 << 20,
            "G" | "g" => 1 << 30,
            _ => 1 << 40,
        };
        let scale = 10_u128.pow(u32::try_from(digits.len()).unwrap());
        let part: u128 = if digits.is_empty() { 0 } else { digits.parse().unwrap() };
        let exact = (u128::from(whole) * scale + part) * unit / scale;
        let point = if digits.is_empty() { "" } else { "." };
        let read = Demand::parse("ram", &format!("{whole}{point}{digits}{suffix}"));
        let expected = match u64::try_from(exact) {
            Ok(0) => Ok(Demand::Nothing),
            Ok(bytes) => Ok(Demand::Memory(Bytes(bytes))),
            Err(_) => return Err(TestCaseError::reject("beyond the range")),
        };
        prop_assert_eq!(read, expected);
    }

    /// PL-9: sums of reservations do not depend on the order, up to the bound, and taking one of them back
    /// leaves the other.
    #[test]
    fn sums_are_ordinary_sums(a in 0..MAX / 4, b in 0..MAX / 4, c in 0..MAX / 4, d in 0..MAX / 4) {
        let (one, other) = (resources(a, b), resources(c, d));
        prop_assert_eq!(one.plus(other), resources(a + c, b + d));
        prop_assert_eq!(one.plus(other).minus(other), one);
        prop_assert_eq!(one.fits(other), a <= c && b <= d);
    }
}
