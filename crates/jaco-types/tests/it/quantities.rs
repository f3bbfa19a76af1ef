//! Amounts and times: how they are shown, and that their arithmetic has no edge to fall off.

use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{Millis, Timestamp};
use proptest::prelude::*;

#[test]
fn bytes_are_shown_in_the_largest_unit_with_tenths() {
    for (bytes, shown) in [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1023.9 KiB"),
        (1 << 20, "1 MiB"),
        (512 << 20, "512 MiB"),
        ((1 << 30) - 1, "1023.9 MiB"),
        (1 << 30, "1 GiB"),
        (3 << 29, "1.5 GiB"),
        (1 << 40, "1024 GiB"),
        (u64::MAX, "17179869183.9 GiB"),
    ] {
        assert_eq!(Bytes(bytes).to_string(), shown);
    }
}

#[test]
fn millicores_are_shown_with_their_unit() {
    let shown = [0, 1, 500, 2000].map(|cpu| MilliCores(cpu).to_string());
    assert_eq!(shown, ["0m", "1m", "500m", "2000m"]);
}

#[test]
fn durations_are_shown_exactly() {
    for (millis, shown) in [
        (0, "0s"),
        (1, "1ms"),
        (999, "999ms"),
        (1000, "1s"),
        (1001, "1.001s"),
        (1500, "1.500s"),
        (90_000, "90s"),
        (u64::MAX, "18446744073709551.615s"),
    ] {
        assert_eq!(Millis(millis).to_string(), shown);
    }
}

#[test]
fn times_saturate() {
    assert_eq!(Millis::from_secs(3), Millis(3000));
    assert_eq!(Millis::from_secs(u64::MAX), Millis(u64::MAX));
    assert_eq!(Timestamp(u64::MAX).after(Millis(1)), Timestamp(u64::MAX));
    assert_eq!(
        Timestamp(5).since(Timestamp(9)),
        Millis(0),
        "a clock that went back is no duration"
    );
}

fn resources() -> impl Strategy<Value = Resources> {
    let amount = prop_oneof![Just(0), Just(u64::MAX), 0..1_000_u64, any::<u64>()];
    (amount.clone(), amount)
        .prop_map(|(cpu, memory)| Resources { cpu: MilliCores(cpu), memory: Bytes(memory) })
}

proptest! {
    #[test]
    fn durations_and_moments_are_inverse(at in 0..u64::MAX / 2, length in 0..u64::MAX / 2) {
        let (at, length) = (Timestamp(at), Millis(length));
        prop_assert_eq!(at.after(length).since(at), length);
        prop_assert_eq!(at.since(at.after(length)), Millis(0));
    }

    /// PL-9 counts with these: what fits after something was added fitted before.
    #[test]
    fn a_sum_fits_only_where_both_parts_do(
        one in resources(), other in resources(), capacity in resources(),
    ) {
        if one.plus(other).fits(capacity) {
            prop_assert!(one.fits(capacity) && other.fits(capacity));
        }
        prop_assert_eq!(one.plus(other), other.plus(one));
        prop_assert!(one.minus(other).fits(one), "nothing grows by being taken from");
        prop_assert_eq!(one.minus(one), Resources::default());
        prop_assert!(Resources::default().fits(capacity));
    }

    /// What is reserved and what is left are together what there is.
    #[test]
    fn taking_and_returning_is_neutral(capacity in resources(), taken in resources()) {
        if taken.fits(capacity) {
            prop_assert_eq!(capacity.minus(taken).plus(taken), capacity);
        }
    }

    /// The number before the unit is never rounded up: a node never shows more than it has.
    #[test]
    fn shown_bytes_are_no_more_than_there_are(bytes: u64) {
        let shown = Bytes(bytes).to_string();
        let (number, unit) = shown.split_once(' ').unwrap();
        let unit: u128 = match unit {
            "GiB" => 1 << 30,
            "MiB" => 1 << 20,
            "KiB" => 1 << 10,
            "B" => 1,
            other => panic!("{other}"),
        };
        let (whole, tenths) = number.split_once('.').unwrap_or((number, "0"));
        let tenths = whole.parse::<u128>().unwrap() * 10 + tenths.parse::<u128>().unwrap();
        let shown = tenths * unit / 10;
        prop_assert!(shown <= u128::from(bytes) && u128::from(bytes) - shown <= unit / 10 + 1);
    }
}
