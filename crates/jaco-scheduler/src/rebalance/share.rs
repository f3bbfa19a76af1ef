//! Shares of a whole, and the decay of an average, in integers: every leader counts alike.

use std::fmt;

use jaco_types::Millis;

/// A share in millionths; more than a whole is possible where more is limited than there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share(pub u64);

impl Share {
    /// All of it.
    pub const WHOLE: Self = Self(1_000_000);

    /// `part` of `whole`; `None` if nobody knows how much the whole is.
    #[must_use]
    pub fn of(part: u64, whole: u64) -> Option<Self> {
        (whole > 0).then(|| Self(scale(part, Self::WHOLE.0, whole)))
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// What remains, not below zero.
    pub(super) const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The same amount as a share of another whole; as it is where one of them is not known.
    pub(super) fn carried(self, from: u64, to: u64) -> Self {
        if from == 0 || to == 0 { self } else { Self(scale(self.0, from, to)) }
    }

    /// The average after `elapsed` at `sample`: what is old counts for `exp(-elapsed / window)`.
    pub(super) fn drawn_to(self, sample: Self, elapsed: Millis, window: Millis) -> Self {
        let kept = u128::from(decay(elapsed, window));
        let sum = u128::from(self.0) * kept + u128::from(sample.0) * (ONE - kept);
        Self(u64::try_from((sum + ONE / 2) / ONE).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Share {
    /// As a fraction with four decimals, rounded to the nearest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounded = self.0.saturating_add(50) / 100;
        write!(f, "{}.{:04}", rounded / 10_000, rounded % 10_000)
    }
}

fn scale(amount: u64, by: u64, over: u64) -> u64 {
    u64::try_from(u128::from(amount) * u128::from(by) / u128::from(over)).unwrap_or(u64::MAX)
}

/// One, in fixed point with 32 binary places.
const ONE: u128 = 1 << 32;
/// `exp(-1)` in the same.
const INVERSE_OF_E: u128 = 1_580_030_169;
/// Beyond so many windows nothing of the old is left in 32 binary places.
const WINDOWS_MAX: u128 = 23;

/// `exp(-elapsed / window)` in fixed point: whole windows one by one, the rest by its series.
fn decay(elapsed: Millis, window: Millis) -> u64 {
    if window.0 == 0 {
        return 0;
    }
    let windows = u128::from(elapsed.0) * ONE / u128::from(window.0);
    let (whole, rest) = (windows / ONE, windows % ONE);
    if whole >= WINDOWS_MAX {
        return 0;
    }
    // 1 - r(1 - r/2(1 - r/3(…))): each bracket is between zero and one. After 12 terms the
    // remainder is below 2^-32.
    let mut kept = ONE;
    for term in (1..=12).rev() {
        kept = ONE - rest * kept / ONE / term;
    }
    for _ in 0..whole {
        kept = kept * INVERSE_OF_E / ONE;
    }
    u64::try_from(kept).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-REB-3: after one window 63.2 % of the way is gone, after 30 s of 5 min 9.5 %; the numbers are those
    /// of `1 - exp(-x)`.
    #[test]
    fn an_average_follows_in_continuous_time() {
        let after = |secs| {
            Share(0).drawn_to(Share::WHOLE, Millis::from_secs(secs), Millis::from_secs(300)).0
        };
        let ways = [0, 30, 150, 300, 600, 6900, u64::MAX / 1000].map(after);
        assert_eq!(ways, [0, 95_163, 393_469, 632_121, 864_665, 1_000_000, 1_000_000]);
    }

    /// R-REB-3: two steps of half a length are one step of it, to the millionth.
    #[test]
    fn the_number_of_samples_decides_nothing() {
        let (start, window) = (Share(200_000), Millis::from_secs(300));
        let step =
            |from: Share, secs| from.drawn_to(Share(900_000), Millis::from_secs(secs), window);
        let (once, twice) = (step(start, 120), step(step(start, 60), 60));
        assert!(once.0.abs_diff(twice.0) <= 1, "{once:?} {twice:?}");
    }

    #[test]
    fn shares_have_four_decimals() {
        assert_eq!(
            [850_000, 99_950, 1_200_049].map(|n| Share(n).to_string()),
            ["0.8500", "0.1000", "1.2000"]
        );
    }
}
