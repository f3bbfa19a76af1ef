//! A piece of work that has ended, and the ids of spans.

use std::time::{Duration, Instant, SystemTime};

use jaco_types::TraceContext;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

/// The id of a span; not zero.
pub type SpanId = [u8; 8];

/// A name after the conventions of OpenTelemetry, and its value.
pub type Attribute = (&'static str, String);

/// A piece of work that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace, and the span that it is part of. Of the first span of a trace, its own place.
    pub place: TraceContext,
    /// Its own id: equal to the parent's of `place` where it is the first of its trace.
    pub id: SpanId,
    /// What it is to the outside.
    pub kind: Kind,
    /// What was done, without anything that callers make up.
    pub name: &'static str,
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What it was about; nothing secret.
    pub attributes: Vec<Attribute>,
    /// What came of it.
    pub status: Status,
}

/// What a span is to the outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It asks another process, and waits for the answer.
    Client,
    /// It answers another process.
    Server,
    /// It is work of the process itself.
    Internal,
}

/// What came of a piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It is done.
    Done,
    /// It failed, and why.
    Failed(String),
}

/// Measures a piece of work: a clock that is set meanwhile does not make it longer.
#[derive(Debug, Clone, Copy)]
pub struct Timer {
    began: SystemTime,
    since: Instant,
}

impl Timer {
    /// Of work that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { began: SystemTime::now(), since: Instant::now() }
    }

    /// Of work that began so long ago.
    #[must_use]
    pub fn started(ago: Duration) -> Self {
        let now = Self::start();
        Self {
            began: now.began.checked_sub(ago).unwrap_or(now.began),
            since: now.since.checked_sub(ago).unwrap_or(now.since),
        }
    }

    /// When it began.
    #[must_use]
    pub fn began(&self) -> SystemTime {
        self.began
    }

    /// How long it has taken.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.since.elapsed()
    }
}

/// An id that nobody else has.
#[must_use]
pub fn fresh_span_id() -> SpanId {
    nonzero(random())
}

/// The id of what is done once for `key` in a trace: everybody who knows both knows it, so that one node can name the span
/// of another as a parent, and who does the work again after a restart has the same span.
#[must_use]
pub fn derived_span_id(place: &TraceContext, name: &str, key: &str) -> SpanId {
    let mut hash = Sha256::new();
    hash.update(place.trace_id());
    // The length keeps a name and a key apart.
    hash.update(name.len().to_be_bytes());
    hash.update(name);
    hash.update(key);
    let hash: [u8; 32] = hash.finalize().into();
    let (id, _) = hash.split_first_chunk().expect("a hash has 32 bytes");
    nonzero(*id)
}

/// Zero means no span.
fn nonzero(id: SpanId) -> SpanId {
    if id == [0; 8] { [1; 8] } else { id }
}

pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has a source of randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use jaco_types::Sampled;

    use super::*;

    /// R-OPS-1: a span of one node is the parent of a span of another, which was told no more than the trace.
    #[test]
    fn derived_ids_are_the_same_everywhere_and_differ_by_what_they_are_of() {
        let place = |trace: u8| TraceContext::new([trace; 16], [9; 8], Sampled::Yes).unwrap();
        let of = |trace, name, key| derived_span_id(&place(trace), name, key);
        // As nodes of other versions derive it.
        assert_eq!(of(1, "plan", "17"), PLAN_17);
        let elsewhere = place(1).with_parent([8; 8]).unwrap();
        assert_eq!(derived_span_id(&elsewhere, "plan", "17"), PLAN_17);
        for other in [of(2, "plan", "17"), of(1, "plan", "18"), of(1, "plan1", "7")] {
            assert_ne!(other, PLAN_17);
        }
        assert_ne!(fresh_span_id(), fresh_span_id());
        assert_ne!(nonzero([0; 8]), [0; 8]);
    }

    const PLAN_17: SpanId = [0x47, 0x93, 0x5e, 0x8f, 0x6c, 0xee, 0xed, 0x18];
}
