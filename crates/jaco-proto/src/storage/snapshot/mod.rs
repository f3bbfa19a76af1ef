//! The replicated state as a stream of rows, each one message behind its length. Must never hold
//! more than one row in memory beside the state itself, nor believe a length before it is checked.
//!
//! What is written is a function of the state alone: equal states are equal bytes. A service's spec
//! that two revisions share in memory is written with each of them, and not shared after reading.
//! The stream carries no checksum: whoever stores it adds one over the whole file.

mod read;
mod row;
mod write;

pub use read::read_snapshot;
pub use write::write_snapshot;

/// The most bytes a row may have: twice the largest log entry. The largest rows are revisions of
/// deployments, and each of those came in one entry.
///
/// This is also what bounds the memory that hostile bytes can take: at worst a row is all empty
/// services, which take about 150 times their two bytes until their missing names are found out.
pub const MAX_ROW_BYTES: usize = 8 << 20;
