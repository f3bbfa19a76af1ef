//! Files that a manifest refers to: found, read, and uploaded to the cluster (R-IN-4, R-IN-5).
//!
//! Each fault is reported at the position in the manifest that refers to the file. Contents of secrets
//! are in no message.

mod load;
pub(crate) mod pieces;
mod send;
mod walk;

pub(crate) use load::{FILE_BYTES_MAX, Upload};
pub(crate) use pieces::UploadMode;
pub(crate) use send::send;
