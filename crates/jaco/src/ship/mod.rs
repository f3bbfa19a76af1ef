//! What lies beside the compose file, on its way into the cluster: found, read, and sent (R-IN-4,
//! R-IN-5).
//!
//! Each fault is told at the place of the manifest that asks for the file. Contents of secrets are in
//! no message.

mod load;
mod send;
mod walk;

pub(crate) use load::{FILE_BYTES_MAX, Freight};
pub(crate) use send::{REQUEST_BYTES_MAX, REQUEST_PIECES_MAX, Sending, send};
