//! Integration tests of the loader, one binary.

mod corpus;
