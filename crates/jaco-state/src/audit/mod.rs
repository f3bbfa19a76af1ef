//! The audit log: what happened, in order. `apply` writes it as part of the change that an event
//! describes, so that no change can be without its event.
//!
//! ```text
//! kind    event    digest     what an event is
//! refusals                    counts of refusals, so that one identity cannot fill the log
//! chain                       the hash of an event (ST-13)
//! clock                       the time that events are aged by
//! group   severity            which events belong together, and what they are to whoever is on call
//! log                         the events that are kept, and their eviction (ST-10)
//! verify                      the chain as a whole
//! ```

mod chain;
mod clock;
mod digest;
mod event;
mod group;
mod kind;
mod log;
mod refusals;
mod severity;
mod verify;

pub use chain::HashedEvent;
pub use clock::{AuditClock, JUMP_MAX};
pub use digest::Digest;
pub use event::{AuditEvent, AuditKey};
pub use group::EventGroup;
pub use kind::AuditKind;
pub use log::{
    AGE_MAX, AGE_MIN, AuditLog, CUT_EVENTS, DEFAULT_AGE, Evicted, KEPT_EVENTS, Retention,
};
pub use refusals::{IDENTITIES_MAX, REFUSAL_WINDOW, REFUSALS_WRITTEN, RefusalCount};
pub(crate) use refusals::{Refusal, Summary};
pub use severity::Severity;
pub use verify::{Broken, Verified};
