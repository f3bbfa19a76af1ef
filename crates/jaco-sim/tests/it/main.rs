//! The scripts of `tests/scripts` with their transcripts, random histories, and defects put in on
//! purpose.

mod boundaries;
mod foretelling;
mod histories;
mod node_loss;
mod sabotage;
mod scripts;
