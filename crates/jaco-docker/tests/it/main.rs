//! From the canonical text to the create body, key by key. Needs no Docker.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod table;
