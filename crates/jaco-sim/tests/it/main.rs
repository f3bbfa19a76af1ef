//! The scripts of `tests/scripts` with their transcripts, random histories, and defects put in on
//! purpose.

mod histories;
mod sabotage;
mod scripts;
