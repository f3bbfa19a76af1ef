//! Commands that people run in a container beside its own process: what is asked of an engine, what
//! goes in, and what comes out.

use std::fmt;

use futures::stream::BoxStream;

use crate::engine::EngineError;

/// What to run.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// `KEY=value`, beside those of the container.
    pub environment: Vec<String>,
    /// As whom, where it is not the container's user.
    pub user: Option<String>,
    /// In which folder, where it is not the container's.
    pub working_dir: Option<String>,
    /// Whether anything comes to its standard input.
    pub stdin: Stdin,
    /// The size of its terminal, if it gets one. Its two outputs are one then.
    pub terminal: Option<TerminalSize>,
}

/// Arguments and variables may be secret: only the program is shown.
impl fmt::Debug for ExecRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ExecRequest");
        out.field("program", &self.command.first()).field("user", &self.user);
        out.field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

/// Whether anything comes to a command's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// It has none.
    None,
    /// It is sent until its sender ends it.
    Sent,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// How wide it is.
    pub columns: u16,
    /// How high it is.
    pub rows: u16,
}

/// What goes to a command that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// To its standard input.
    Stdin(Vec<u8>),
    /// Nothing more comes there.
    StdinEnd,
    /// Its terminal is of this size now.
    Resize(TerminalSize),
}

/// What comes from a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// From its standard output; everything, where it has a terminal.
    Stdout(Vec<u8>),
    /// From its standard error.
    Stderr(Vec<u8>),
    /// It ended with this code; nothing comes after it.
    Ended(i64),
}

/// What goes in. Its end is the end of standard input.
pub type ExecInputs = BoxStream<'static, ExecInput>;

/// What comes out. Dropping it lets go of the command, which loses its input and may run on: engines
/// have no way to end it.
pub type ExecOutputs = BoxStream<'static, Result<ExecOutput, EngineError>>;
