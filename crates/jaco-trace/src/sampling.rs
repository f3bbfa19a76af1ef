//! Whether a trace that begins here is recorded.

use jaco_types::{Sampled, TraceContext};

use crate::span::{fresh_span_id, random};

/// One part of all traces that begin here.
///
/// Which traces these are is decided by their ids, as the sampler `traceidratio` of OpenTelemetry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// A trace is recorded if the number that the last 8 bytes of its id make, without the lowest bit, is below this.
    below: u64,
}

/// The ratio is no part of a whole.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is no part of a whole: write a number from 0 to 1, as in 0.1 for one trace of ten")]
pub struct SamplingError(f64);

impl Sampling {
    /// All of them.
    pub const ALL: Self = Self { below: 1 << 63 };

    /// This part of them, from 0 to 1.
    ///
    /// # Errors
    /// When it is no such part.
    pub fn ratio(ratio: f64) -> Result<Self, SamplingError> {
        if !(0.0..=1.0).contains(&ratio) {
            return Err(SamplingError(ratio));
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "from 0 to 2^63, and a ratio needs no more digits than a float has"
        )]
        let below = (ratio * (1_u64 << 63) as f64) as u64;
        Ok(Self { below })
    }

    /// A trace is recorded if the number that the last 8 bytes of its id make, without the lowest bit, is below this.
    #[must_use]
    pub const fn below(self) -> u64 {
        self.below
    }

    fn takes(self, trace_id: [u8; 16]) -> bool {
        let (_, tail) = trace_id.split_at(8);
        let tail = tail.try_into().expect("the second half of 16 bytes has 8");
        u64::from_be_bytes(tail) >> 1 < self.below
    }

    /// A trace that begins here, with the span that it begins with; none if it is not recorded.
    #[must_use]
    pub fn begin(self) -> Option<TraceContext> {
        let trace_id = random();
        let is_taken = self.takes(trace_id);
        is_taken.then(|| TraceContext::new(trace_id, fresh_span_id(), Sampled::Yes)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: of the traces that begin here, the part is recorded that was asked for, and the same on every node.
    #[test]
    fn a_part_of_the_traces_is_taken_by_their_ids() {
        let id = |tail: u64| {
            let mut id = [7; 16];
            id[8..].copy_from_slice(&tail.to_be_bytes());
            id
        };
        let half = Sampling::ratio(0.5).unwrap();
        assert!(half.takes(id(0)) && half.takes(id((1 << 63) - 1)));
        assert!(!half.takes(id(1 << 63)) && !half.takes(id(u64::MAX)));
        let (none, all) = (Sampling::ratio(0.0).unwrap(), Sampling::ratio(1.0).unwrap());
        assert_eq!(all, Sampling::ALL);
        for tail in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!none.takes(id(tail)) && all.takes(id(tail)));
        }
        assert!(none.begin().is_none());
        assert_eq!(all.begin().unwrap().sampled(), Sampled::Yes);
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Sampling::ratio(wrong).is_err(), "{wrong}");
        }
    }
}
