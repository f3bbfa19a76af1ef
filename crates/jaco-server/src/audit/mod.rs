//! The archive of audit events that the replicated state has evicted.

pub mod archive;
pub(crate) mod writer;
