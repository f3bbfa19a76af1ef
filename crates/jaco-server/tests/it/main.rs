//! A member with real consensus, without a network; and what a node keeps in files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod archive;
mod recovery;
