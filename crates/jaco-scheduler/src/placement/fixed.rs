//! Fractions in fixed point: every leader works out the same score, whatever its processor.

use std::ops::{Add, Neg, Sub};

/// A number with 56 binary places: products of two that are below sixteen fit into 128 bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fixed(i128);

const PLACES: u32 = 56;
/// The natural logarithm of ten.
const LN_10: i128 = 165_918_741_868_749_488;
/// Sums that would be zero without rounding are below a millionth of a millionth.
const ROUNDING: i128 = 1 << (PLACES - 40);

impl Fixed {
    pub(crate) const ZERO: Self = Self(0);
    pub(crate) const ONE: Self = Self(1 << PLACES);

    /// `part` of `whole`, rounded towards zero; zero where there is no whole. Both are below 2^70.
    pub(super) fn ratio(part: i128, whole: i128) -> Self {
        Self((part << PLACES).checked_div(whole).unwrap_or_default())
    }

    /// So many times as much.
    pub(super) fn times(self, factor: i128) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// So many parts of it.
    pub(super) fn over(self, parts: i128) -> Self {
        Self(self.0.checked_div(parts).unwrap_or_default())
    }

    /// In millionths, rounded to the nearest.
    pub(super) fn micros(self) -> i64 {
        let rounded =
            (self.0.saturating_abs().saturating_mul(2_000_000) + Self::ONE.0) >> (PLACES + 1);
        i64::try_from(rounded * self.0.signum()).unwrap_or(i64::MAX)
    }

    /// Whether it is zero but for rounding.
    pub(super) fn is_zero(self) -> bool {
        self.0.abs() < ROUNDING
    }

    /// Ten to the power of it, for zero to one: `exp(x ln 10)` by its series. After 40 terms what is
    /// left is below the last place.
    pub(super) fn power_of_ten(self) -> Self {
        let exponent = (self.0.clamp(0, Self::ONE.0) * LN_10) >> PLACES;
        let (mut sum, mut term) = (Self::ONE.0, Self::ONE.0);
        for number in 1..=40 {
            term = ((term * exponent) >> PLACES) / number;
            sum += term;
        }
        Self(sum)
    }
}

impl Add for Fixed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Fixed {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Fixed {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl std::iter::Sum for Fixed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
impl Fixed {
    /// With so many decimals, rounded to the nearest.
    pub(super) fn show(self, decimals: u32) -> String {
        let scale = 10_i128.pow(decimals);
        let rounded = (self.0.abs() * scale * 2 + Self::ONE.0) / (Self::ONE.0 * 2);
        let sign = if self.0 < 0 && rounded > 0 { "-" } else { "" };
        let (whole, part) = (rounded / scale, rounded % scale);
        format!("{sign}{whole}.{part:0width$}", width = decimals as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digits are those of the mathematical function.
    #[test]
    fn powers_of_ten_are_exact_to_twelve_digits() {
        let power = |part, whole| Fixed::ratio(part, whole).power_of_ten().show(12);
        assert_eq!(power(0, 1), "1.000000000000");
        assert_eq!(power(1, 4), "1.778279410039");
        assert_eq!(power(1, 2), "3.162277660168");
        assert_eq!(power(9, 10), "7.943282347243");
        assert_eq!(power(1, 1), "10.000000000000");
    }

    #[test]
    fn rounding_is_the_same_on_both_sides_of_zero() {
        assert!((Fixed::ratio(1, 3) + Fixed::ratio(-1, 3)).is_zero());
        assert!((Fixed::ratio(1, 3) + Fixed::ratio(1, 6) - Fixed::ratio(1, 2)).is_zero());
        assert!(!Fixed::ratio(1, 1_000_000_000).is_zero());
        assert_eq!(Fixed::ratio(1, 0), Fixed::default());
    }
}
