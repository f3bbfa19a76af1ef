//! Image pulls: progress, attempts and the next attempt.

use jaco_proto::v1::PullInfo;

use crate::quantity::size;
use crate::time;

/// `12.0 MiB of 80.0 MiB`, `attempt 3, 1.0 MiB of 80.0 MiB`, `3 attempts, the next in 8s`; empty before there is
/// anything to tell.
#[must_use]
pub fn text(pull: &PullInfo, now_ms: i64) -> String {
    let progress = (pull.total_bytes > 0)
        .then(|| format!("{} of {}", size(pull.done_bytes), size(pull.total_bytes)));
    let attempts = match (pull.next_attempt_at_ms, pull.attempts) {
        (0, 0 | 1) => None,
        (0, attempts) => Some(format!("attempt {attempts}")),
        (at, attempts) => {
            let left = time::ago(now_ms, at);
            let attempts = crate::quantity::count(attempts as usize, "attempt");
            return format!("{attempts}, the next in {left}");
        }
    };
    attempts.into_iter().chain(progress).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-RUN-2
    #[test]
    fn a_pull_tells_its_progress_and_its_attempts() {
        let check = |done_bytes, total_bytes, attempts, next_attempt_at_ms, expected: &str| {
            let pull = PullInfo { done_bytes, total_bytes, attempts, next_attempt_at_ms };
            assert_eq!(text(&pull, 1_000_000), expected);
        };
        check(0, 0, 1, 0, "");
        check(12 << 20, 80 << 20, 1, 0, "12.0 MiB of 80.0 MiB");
        check(0, 0, 3, 0, "attempt 3");
        check(1 << 20, 80 << 20, 3, 0, "attempt 3, 1.0 MiB of 80.0 MiB");
        check(1 << 20, 80 << 20, 3, 1_008_000, "3 attempts, the next in 8s");
        // The clock of the node is ahead or behind.
        check(0, 0, 1, 999_000, "1 attempt, the next in 0s");
    }
}
