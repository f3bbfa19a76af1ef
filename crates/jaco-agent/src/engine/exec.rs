//! Commands run in a container beside its main process: request, input and output.

use std::fmt;

use futures::stream::BoxStream;

use super::error::EngineError;

/// A command to run.
#[derive(Clone, PartialEq, Eq)]
pub struct ExecRequest {
    /// The program and its arguments; never empty.
    pub command: Vec<String>,
    /// Environment as `KEY=value`, in addition to the container's.
    pub environment: Vec<String>,
    /// User, if not the container's.
    pub user: Option<String>,
    /// Working directory, if not the container's.
    pub working_dir: Option<String>,
    /// Whether standard input is connected.
    pub stdin: Stdin,
    /// Size of the terminal, if one is allocated. Both outputs are merged then.
    pub terminal: Option<TerminalSize>,
}

/// Arguments and variables may be secret, so only the program is printed.
impl fmt::Debug for ExecRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ExecRequest");
        out.field("program", &self.command.first()).field("user", &self.user);
        out.field("terminal", &self.terminal).finish_non_exhaustive()
    }
}

/// A command to run in a container of its own, made like a replica's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideRequest {
    /// The command: arguments of the entry point.
    pub command: ExecRequest,
    /// The entry point, if not the replica's.
    pub entrypoint: Option<String>,
}

/// Whether standard input is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// No standard input.
    None,
    /// Connected until the sender closes it.
    Sent,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Width.
    pub columns: u16,
    /// Height.
    pub rows: u16,
}

/// Input of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecInput {
    /// Bytes for standard input.
    Stdin(Vec<u8>),
    /// End of standard input.
    StdinEnd,
    /// New terminal size.
    Resize(TerminalSize),
}

/// Output of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecOutput {
    /// Standard output; both streams with a terminal.
    Stdout(Vec<u8>),
    /// Standard error.
    Stderr(Vec<u8>),
    /// Exit code; the last item.
    Exited(i64),
}

/// Input stream. Its end closes standard input.
pub type ExecInputs = BoxStream<'static, ExecInput>;

/// Output stream. Dropping it detaches from the command, which loses its input and may continue to
/// run: engines cannot kill it.
pub type ExecOutputs = BoxStream<'static, Result<ExecOutput, EngineError>>;
