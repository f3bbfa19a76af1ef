//! Integration tests of the loader, one binary.

mod corpus;
mod hash;
mod support_table;
mod util;
