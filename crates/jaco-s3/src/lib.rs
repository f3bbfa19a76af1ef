//! Objects at a store that speaks the S3 protocol: written, read back, listed and removed.
//!
//! Requests are signed and answers are read by `rusty-s3`; what is here bounds them in time and memory, sends them, and says
//! in a sentence why one failed. It must never follow a redirect, print a key, or repeat what a store answers but for words
//! that are known.
//!
//! ```text
//! place     where objects are: endpoint, bucket and prefix
//! key       what signs
//! failure   why a request failed
//! client    one request
//! store     what can be done with objects
//! ```

mod client;
mod failure;
mod key;
mod place;
mod store;

pub use client::Limits;
pub use failure::{Step, StoreError};
pub use jaco_https::Roots;
pub use key::{AccessKey, AccessKeyError};
pub use place::{Addressing, Place, PlaceError, PlainHttp, bucket_and_prefix};
pub use store::{Digest, Listed, ObjectStore, PART_BYTES};
