//! When the next attempt is, and which one is the last. Pure: chance and time come in.

use std::time::Duration;

use crate::failure::SendError;

/// The longest pause between two attempts.
pub const DELAY_MAX: Duration = Duration::from_secs(300);

/// The pause after the first failure.
const DELAY_MIN: Duration = Duration::from_secs(1);

/// How many attempts a notification has that its receiver refuses as such.
pub const ATTEMPTS_IF_REFUSED: u32 = 5;

/// How old an event is when it is given up, if its receiver does not answer or is in trouble itself.
pub const PATIENCE: Duration = Duration::from_secs(3600);

/// How much of the second half of a pause is waited, so that clusters with one receiver do not retry together: 0 to 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter(pub u16);

/// How long is waited after so many failures in a row: it doubles, and is at least what the receiver asks for.
#[must_use]
pub fn delay(failures: u32, asked: Option<Duration>, Jitter(jitter): Jitter) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let whole = DELAY_MIN.saturating_mul(1 << doublings).min(DELAY_MAX);
    let spread = whole / 2 * u32::from(jitter.min(1000)) / 1000;
    let waited = whole / 2 + spread;
    waited.max(asked.unwrap_or_default().min(DELAY_MAX))
}

/// Whether a notification is given up after this attempt, which was so many of its own, at this age of its event.
#[must_use]
pub fn gives_up(error: &SendError, attempts: u32, age: Duration) -> bool {
    match error.is_refusal() {
        true => attempts >= ATTEMPTS_IF_REFUSED,
        false => age >= PATIENCE,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// R-OPS-1
    #[test]
    fn pauses_double_up_to_five_minutes() {
        let longest = |failures| delay(failures, None, Jitter(1000)).as_secs();
        let shown: Vec<u64> = (1..=10).map(longest).collect();
        assert_eq!(shown, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(delay(3, None, Jitter(0)), Duration::from_secs(2));
        assert_eq!(delay(1, Some(Duration::from_secs(30)), Jitter(0)), Duration::from_secs(30));
        assert_eq!(delay(1, Some(Duration::from_secs(86_400)), Jitter(0)), DELAY_MAX);
    }

    proptest! {
        #[test]
        fn a_pause_is_between_half_and_all_of_its_bound(failures: u32, jitter: u16) {
            let whole = delay(failures, None, Jitter(1000));
            let waited = delay(failures, None, Jitter(jitter));
            prop_assert!(waited >= whole / 2 && waited <= whole && whole <= DELAY_MAX);
        }
    }

    /// R-OPS-1: what is refused is given up soon, and trouble of the receiver is waited out for an hour.
    #[test]
    fn refusals_are_given_up_sooner_than_trouble() {
        let (new, old) = (Duration::from_secs(5), PATIENCE);
        let refused = SendError::Status { status: 400, word: None, retry_after: None };
        assert!(!gives_up(&refused, ATTEMPTS_IF_REFUSED - 1, old));
        assert!(gives_up(&refused, ATTEMPTS_IF_REFUSED, new));
        let busy = SendError::Status { status: 503, word: None, retry_after: None };
        assert!(!gives_up(&busy, 1000, new) && gives_up(&busy, 1, old));
        let silent = SendError::Timeout { limit: Duration::from_secs(10) };
        assert!(!gives_up(&silent, 1000, new) && gives_up(&silent, 1, old));
    }
}
