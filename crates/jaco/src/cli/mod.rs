//! The command line: its grammar, the dispatch to the commands, and the reference made of the help.

mod dispatch;
mod grammar;
mod reference;

pub(crate) use dispatch::dispatch;
pub use grammar::command;
pub(crate) use grammar::parse;
pub use reference::reference;
