//! The command line: its grammar, the dispatch to the commands, and the reference made of the help.

mod dispatch;
mod grammar;
mod reference;

pub(crate) use dispatch::dispatch;
pub(crate) use grammar::Cli;
pub use grammar::command;
pub use reference::reference;
