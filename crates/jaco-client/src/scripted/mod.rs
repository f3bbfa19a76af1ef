//! A daemon that answers from a script, for tests of clients.
//!
//! It speaks the real protocol over a real socket and has no state: the test decides each response.

mod daemon;
mod script;

pub use daemon::{Running, listen, serve};
pub use script::{Answer, Feed, Script, Then};
