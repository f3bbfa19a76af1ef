//! Mutations of real bytes, the same ones in each run, and what every decoder owes them: no panic, and bounded memory
//! and time. For tests and fuzz targets; a decoder is a function of bytes that both can call.

mod bounds;
mod dice;
mod mutation;

pub use bounds::{Decoder, stay_within, withstand};
pub use dice::Dice;
pub use mutation::{MUTATED_BYTES_MAX, mutate};
