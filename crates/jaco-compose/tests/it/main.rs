//! Integration tests of the loader, one binary.

mod bad_input;
mod compose;
mod corpus;
mod hash;
mod overlay;
mod support_table;
mod util;
