//! The scripts of `tests/scripts` with their transcripts, random histories, and defects put in on
//! purpose.

mod boundaries;
mod forecasts;
mod histories;
mod invariants;
mod node_loss;
mod scripts;
mod shrink;
mod stalls;
