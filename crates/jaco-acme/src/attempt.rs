//! What follows a failed order: when the next one is made, and how it proves the domain. Pure.

use jaco_state::acme::IssueAttempt;
use jaco_types::{ChallengeKind, Millis, Timestamp};

use crate::failure::{Blame, Failure};

/// From the first failure to the next order.
pub const BACKOFF_FIRST: Millis = Millis::from_secs(60);

/// The longest from a failure to the next order; longer only if the authority asks for it.
pub const BACKOFF_MAX: Millis = Millis::from_secs(24 * 60 * 60);

/// The longest while it is the authority that does not work: nobody here can do anything about that, and a domain
/// is not to be without certificate for a day after it works again.
const AUTHORITY_BACKOFF_MAX: Millis = Millis::from_secs(60 * 60);

/// The longest that an authority is believed when it asks for patience: the limits of public ones are by the week.
const RETRY_AFTER_MAX: Millis = Millis::from_secs(7 * 24 * 60 * 60);

/// What a failure at `now` leaves behind, after `before` and by the challenge `kind`.
pub(crate) fn attempt_after(
    before: Option<&IssueAttempt>,
    failure: &Failure,
    kind: ChallengeKind,
    now: Timestamp,
) -> IssueAttempt {
    let failures = before.map_or(0, |before| before.failures).saturating_add(1);
    // Where one port is closed the other may be open: the two take turns, the second one at once.
    let is_unreachable = failure.blame() == Blame::Port;
    let next = if is_unreachable { kind.other() } else { kind };
    let is_first_turn = is_unreachable && before.is_none();
    let own = if is_first_turn { Millis(0) } else { backoff(failures, failure.blame()) };
    let asked = failure.retry_after().unwrap_or_default().min(RETRY_AFTER_MAX);
    let next_try = now.after(own.max(asked));
    IssueAttempt { failures, reason: failure.reason().into(), next_try, kind: next }
}

fn backoff(failures: u32, blame: Blame) -> Millis {
    let longest = match blame {
        Blame::Authority => AUTHORITY_BACKOFF_MAX,
        Blame::Domain | Blame::Port => BACKOFF_MAX,
    };
    let doublings = failures.saturating_sub(1).min(16);
    Millis(BACKOFF_FIRST.0 << doublings).min(longest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::problem::Problem;

    fn refused(kind: &str) -> Failure {
        Failure::Refused(Problem { kind: kind.into(), ..Problem::default() })
    }

    /// The attempts that follow, each at the moment when the one before allows it.
    fn history(failure: &Failure, count: usize) -> Vec<IssueAttempt> {
        let mut attempts: Vec<IssueAttempt> = Vec::new();
        for _ in 0..count {
            let before = attempts.last();
            let (now, kind) = before
                .map_or((Timestamp(0), ChallengeKind::Http01), |last| (last.next_try, last.kind));
            attempts.push(attempt_after(before, failure, kind, now));
        }
        attempts
    }

    fn waits(attempts: &[IssueAttempt]) -> Vec<u64> {
        let times = attempts.iter().map(|attempt| attempt.next_try);
        let begins = std::iter::once(Timestamp(0)).chain(times.clone());
        begins.zip(times).map(|(begin, end)| end.since(begin).0 / 60_000).collect()
    }

    #[test]
    fn the_wait_doubles_from_a_minute_to_a_day() {
        let attempts = history(&refused("unauthorized"), 14);
        let expected = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440, 1440];
        assert_eq!(waits(&attempts), expected);
        assert!(attempts.iter().all(|attempt| attempt.kind == ChallengeKind::Http01));
    }

    #[test]
    fn an_authority_that_is_down_is_asked_once_an_hour() {
        let attempts = history(&Failure::Undecided, 9);
        assert_eq!(waits(&attempts), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    }

    #[test]
    fn a_closed_port_has_the_other_one_tried_at_once() {
        use ChallengeKind::{Http01, TlsAlpn01};
        let attempts = history(&refused("connection"), 4);
        let kinds: Vec<_> = attempts.iter().map(|attempt| attempt.kind).collect();
        assert_eq!(kinds, [TlsAlpn01, Http01, TlsAlpn01, Http01]);
        assert_eq!(waits(&attempts), [0, 2, 4, 8]);
    }

    #[test]
    fn what_the_authority_asks_for_is_waited_for() {
        let problem = Problem {
            kind: "rateLimited".into(),
            retry_after: Some(Millis::from_secs(3 * 60 * 60)),
            ..Problem::default()
        };
        let attempts = history(&Failure::Refused(problem), 1);
        assert_eq!(waits(&attempts), [180]);
    }

    /// Let's Encrypt lets 5 validations of a domain fail, and one more for every 12 minutes that pass
    /// (<https://letsencrypt.org/docs/rate-limits/>): the orders of a domain never meet that limit.
    #[test]
    fn failed_validations_stay_below_the_limit_of_lets_encrypt() {
        for kind in ["unauthorized", "connection"] {
            let attempts = history(&refused(kind), 40);
            let moments = std::iter::once(0).chain(attempts.iter().map(|at| at.next_try.0));
            let (mut left, mut before) = (5 * 720_000, 0);
            for moment in moments {
                left = (left + moment - before).min(5 * 720_000);
                before = moment;
                assert!(left >= 720_000, "{kind}: refused after {} minutes", moment / 60_000);
                left -= 720_000;
            }
        }
    }

    proptest! {
        /// Law: the next order is after the failure and within the longest wait, unless the authority asks for more.
        #[test]
        fn the_wait_is_bounded(failures: u32, asked in proptest::option::of(any::<u64>()), now: u32) {
            let before = IssueAttempt {
                failures,
                reason: "".into(),
                next_try: Timestamp(0),
                kind: ChallengeKind::Http01,
            };
            let problem = Problem {
                kind: "dns".into(),
                retry_after: asked.map(Millis),
                ..Problem::default()
            };
            let now = Timestamp(now.into());
            let after = attempt_after(Some(&before), &Failure::Refused(problem), before.kind, now);
            let wait = after.next_try.since(now);
            prop_assert!(wait >= BACKOFF_FIRST);
            prop_assert!(wait <= BACKOFF_MAX.max(Millis(asked.unwrap_or(0)).min(RETRY_AFTER_MAX)));
        }
    }
}
