//! Numbers that follow from a seed.

/// Xorshift: enough to choose, and the same on each machine.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Those of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // Spread, so that neighbouring seeds have nothing in common; never 0, which would stay 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`, or 0.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper half: the lower bits of a xorshift are the weak ones.
        let drawn = usize::try_from(self.0 >> 32).expect("32 bits fit");
        drawn % sides.max(1)
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        u8::try_from(self.roll(256)).expect("below 256")
    }

    /// One of these; there is at least one.
    pub fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.roll(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_is_the_same_history() {
        let history = |seed| {
            let mut dice = Dice::new(seed);
            std::array::from_fn::<_, 8, _>(|_| dice.roll(1000))
        };
        assert_eq!(history(1), history(1));
        assert_ne!(history(1), history(2));
        assert_eq!(Dice::new(3).roll(0), 0);
    }
}
