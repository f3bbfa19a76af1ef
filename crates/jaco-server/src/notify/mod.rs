//! What notifications say, and to whom: for the loop that delivers them and for the test of a target (R-OPS-1).
//!
//! ```text
//! letter   the body of a notification
//! opened   the address of a target, opened
//! ```

mod letter;
mod opened;

pub(crate) use letter::sentence;
pub use letter::{Subject, event_letter, test_letter};
pub use opened::{open_endpoint, seal_endpoint};
