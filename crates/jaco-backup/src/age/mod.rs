//! Encryption of backups and of values beside compose files in the format `age-encryption.org/v1`, for recipients with X25519 keys: what `age -d` opens.
//!
//! Only the format is written here. Keys are agreed on, derived and used by `x25519-dalek` and `ring`. What others wrote is
//! read within bounds: a header of 64 KiB, 64 recipients and 64 identities.

mod bech32;
mod header;
mod key;
mod label;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod value;

pub use header::FileKey;
pub(crate) use header::{Header, is_encrypted};
pub use key::{Identities, KeyError, Recipient, Recipients};
pub use label::Label;
pub(crate) use stream::{Payload, Sequential, Stream};
pub use value::{ValueError, open_value};
