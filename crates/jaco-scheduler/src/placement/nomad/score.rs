//! Nomad's formulas, each by itself. Sources: its `scheduler/feasible/{rank,spread}.go` and
//! `nomad/structs/funcs.go`, as they were in 2025.

use crate::placement::fixed::Fixed;

/// Which nodes fit best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// Those that are fullest: Nomad's `binpack`.
    Pack,
    /// Those that are emptiest: its `spread`.
    Spread,
}

/// How well a node fits, 0 to 1, by what is free of its processors and of its memory once the replica
/// is there. Lopsided nodes fit worse than even ones of the same sum.
pub(super) fn fit(kind: Fit, cpu_free: Fixed, memory_free: Fixed) -> Fixed {
    const MOST: i128 = 18;
    let total = cpu_free.power_of_ten() + memory_free.power_of_ten();
    let value = match kind {
        Fit::Pack => Fixed::ONE.times(20) - total,
        Fit::Spread => total - Fixed::ONE.times(2),
    };
    value.clamp(Fixed::default(), Fixed::ONE.times(MOST)).over(MOST)
}

/// What speaks against a node with so many replicas of the service; nothing where there are none.
pub(super) fn anti_affinity(here: u32, count: u32) -> Option<Fixed> {
    let replica_count = i128::from(here) + 1;
    (here > 0).then(|| -Fixed::ratio(replica_count, i128::from(count.max(1))))
}

/// The weights of the affinities that hold, of all weights; nothing where there are no affinities.
pub(super) fn affinity(holding: i64, all: i64) -> Option<Fixed> {
    (all > 0).then(|| Fixed::ratio(holding.into(), all.into()))
}

/// What speaks for a node whose attribute is missing, or whose value is no target and is not pooled.
pub(super) fn outside() -> Fixed {
    -Fixed::ONE
}

/// How far one more replica leaves a value below its share: `percent` of `count`, of which `used` are
/// there. None where its share is nothing.
pub(super) fn boost(percent: u32, count: u32, used: u32) -> Option<Fixed> {
    let desired = i128::from(percent) * i128::from(count);
    let after = (i128::from(used) + 1) * 100;
    (desired > 0).then(|| Fixed::ratio(desired - after, desired))
}

/// The fewest and the most replicas that a value has which has any.
pub(super) fn extremes(used: &[u32]) -> Option<(u32, u32)> {
    let in_use = || used.iter().copied().filter(|used| *used > 0);
    in_use().min().zip(in_use().max())
}

/// What speaks for a value with `here` replicas where all values share equally. Values that have none
/// do not count among the extremes.
pub(super) fn even(extremes: Option<(u32, u32)>, here: u32) -> Fixed {
    let Some((least, most)) = extremes else { return Fixed::default() };
    let (least, most, here) = (i128::from(least), i128::from(most), i128::from(here));
    match here == least {
        false => Fixed::ratio(least - here, least),
        true if least == most => -Fixed::ONE,
        true => Fixed::ratio(most - least, least),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-SPREAD-6: the table of the fit, to its four digits.
    #[test]
    fn nodes_fit_as_in_nomads_table() {
        let rows = [
            ((0, 0), "1.0000", "0.0000"),
            ((25, 90), "0.5710", "0.4290"),
            ((50, 50), "0.7597", "0.2403"),
            ((75, 75), "0.4863", "0.5137"),
            ((100, 100), "0.0000", "1.0000"),
        ];
        for ((cpu, memory), packed, spread) in rows {
            let free = |percent| Fixed::ratio(percent, 100);
            let shown = |kind| fit(kind, free(cpu), free(memory)).show(4);
            assert_eq!((shown(Fit::Pack).as_str(), shown(Fit::Spread).as_str()), (packed, spread));
        }
        // Nomad's own test has this number for a node that is half full.
        let half = Fixed::ratio(1, 2);
        assert_eq!(fit(Fit::Pack, half, half).times(18).show(3), "13.675");
    }

    /// R-SPREAD-6: the table of even spreads.
    #[test]
    fn even_spreads_score_as_in_nomads_table() {
        let rows = [
            ([0, 0, 0, 0], ["0.0", "0.0", "0.0", "0.0"]),
            ([1, 0, 0, 0], ["-1.0", "1.0", "1.0", "1.0"]),
            ([1, 1, 0, 0], ["-1.0", "-1.0", "1.0", "1.0"]),
            ([2, 1, 0, 0], ["-1.0", "1.0", "1.0", "1.0"]),
            ([3, 1, 0, 0], ["-2.0", "2.0", "1.0", "1.0"]),
            ([5, 2, 2, 0], ["-1.5", "1.5", "1.5", "1.0"]),
            ([2, 3, 0, 0], ["0.5", "-0.5", "1.0", "1.0"]),
            ([3, 3, 0, 0], ["-1.0", "-1.0", "1.0", "1.0"]),
        ];
        for (used, expected) in rows {
            let scores = used.map(|here| even(extremes(&used), here).show(1));
            assert_eq!(scores, expected, "{used:?}");
        }
    }

    /// R-SPREAD-6: the examples of spreads with targets, and the replica count.
    #[test]
    fn targets_score_as_in_nomads_tests() {
        let shown = |percent, used| boost(percent, 10, used).unwrap().show(3);
        // 80 % of ten, two there; the rest of them pooled, none there.
        assert_eq!((shown(80, 2).as_str(), shown(20, 0).as_str()), ("0.625", "0.500"));
        assert_eq!(boost(0, 10, 3), None);
        let replica_count = |here, count| anti_affinity(here, count).map(|term| term.show(2));
        assert_eq!(replica_count(0, 4), None);
        assert_eq!(replica_count(1, 4).as_deref(), Some("-0.50"));
        assert_eq!(replica_count(4, 4).as_deref(), Some("-1.25"));
        assert_eq!(affinity(0, 0), None);
        assert_eq!(affinity(50, 200).unwrap().show(2), "0.25");
    }
}
