//! The scripts of `tests/scripts` with their transcripts, and random histories.

mod scripts;
