//! The audit log: what happened, in order. `apply` writes it as part of the change that an event
//! describes, so that no change can be without its event.
//!
//! ```text
//! kind    event    digest     what an event is
//! refusals                    counts of refusals, so that one identity cannot fill the log
//! chain                       the hash of an event (ST-13)
//! clock                       the time that events are aged by
//! log                         the events that are kept, and their eviction (ST-10)
//! verify                      the chain as a whole
//! ```

mod chain;
mod clock;
mod digest;
mod event;
mod kind;
mod log;
mod refusals;
mod verify;

pub use chain::HashedEvent;
pub use clock::{AuditClock, JUMP_MAX};
pub use digest::Digest;
pub use event::{AuditEvent, AuditKey};
pub use kind::AuditKind;
pub use log::{
    AGE_MAX, AGE_MIN, AuditLog, CUT_EVENTS, DEFAULT_AGE, Evicted, KEPT_EVENTS, Retention,
};
pub use refusals::{IDENTITIES_MAX, REFUSAL_WINDOW, REFUSALS_WRITTEN, RefusalCount};
pub(crate) use refusals::{Refusal, Summary};
pub use verify::{Broken, Verified};
