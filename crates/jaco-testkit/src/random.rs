//! Choices that can be made again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// SplitMix64 (Steele, Lea and Flood 2014): good enough for choices, and the same everywhere.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The choices of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Less than `bound`.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("64 bits hold a count");
        usize::try_from(self.draw() % bound).expect("it is below a count")
    }

    /// Shorter than `longest`.
    ///
    /// # Panics
    /// When `longest` is zero, or centuries.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        let nanos = u64::try_from(longest.as_nanos()).expect("it is short");
        Duration::from_nanos(self.draw() % nanos)
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is none.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The seed that a variable of the environment names, or a new one.
///
/// # Panics
/// When the variable is no number.
#[must_use]
pub fn seed(variable: &str) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is right");
    std::env::var(variable)
        .map_or(since.as_secs(), |text| text.parse().expect("a seed is a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed names the same choices everywhere: those of the reference implementation for seed 1234567.
    #[test]
    fn choices_are_those_of_the_seed() {
        let mut random = Random::new(1_234_567);
        assert_eq!(
            [random.draw(), random.draw()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }
}
