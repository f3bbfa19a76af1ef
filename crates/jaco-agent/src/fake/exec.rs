//! The only program of fake containers, `/hello`, to test that input, output and exit codes arrive:
//! `cat` echoes its input, `echo` its arguments, `size` prints terminal sizes as they change,
//! `exit` exits with a code, `flood` writes endlessly; other words are a usage error.

use futures::stream::BoxStream;
use futures::{StreamExt, stream};

use crate::engine::EngineError;
use crate::engine::exec::{
    BesideRequest, ExecInput, ExecInputs, ExecOutput, ExecRequest, Stdin, TerminalSize,
};

/// Exit code of shells for a missing program.
const NOT_FOUND: i64 = 127;

/// Exit code of a usage error.
const USAGE: i64 = 2;

/// Bytes per write of `flood`.
const FLOOD_BYTES: usize = 32 << 10;

/// End of input on a terminal: Ctrl-D.
const END_OF_TYPING: u8 = 4;

type Outputs = BoxStream<'static, Result<ExecOutput, EngineError>>;

/// Runs the command.
pub(super) fn run(request: &ExecRequest, inputs: ExecInputs) -> Outputs {
    let Some(("/hello", words)) =
        request.command.split_first().map(|(first, rest)| (first.as_str(), rest))
    else {
        return all(vec![ExecOutput::Stderr("executable file not found\n".into())], NOT_FOUND);
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["cat"] if request.stdin == Stdin::Sent => cat(inputs),
        ["cat"] => all(Vec::new(), 0),
        ["size"] => size(request.terminal, inputs),
        ["exit", code] => all(Vec::new(), code.parse().unwrap_or(USAGE)),
        ["flood"] => stream::repeat(Ok(ExecOutput::Stdout(vec![b'.'; FLOOD_BYTES]))).boxed(),
        ["echo", words @ ..] => {
            all(vec![ExecOutput::Stdout(format!("{}\n", words.join(" ")).into())], 0)
        }
        [] | [_, ..] => all(vec![ExecOutput::Stderr("unknown command\n".into())], USAGE),
    }
}

/// Runs the command in a container of its own, which says so first.
pub(super) fn run_beside(request: &BesideRequest, inputs: ExecInputs) -> Outputs {
    let entrypoint = request.entrypoint.as_deref().unwrap_or("the service's");
    let said = format!("a container of its own, entry point {entrypoint}\n");
    let said = stream::iter([Ok(ExecOutput::Stderr(said.into()))]);
    said.chain(run(&request.command, inputs)).boxed()
}

fn all(outputs: Vec<ExecOutput>, code: i64) -> Outputs {
    let outputs = outputs.into_iter().chain([ExecOutput::Exited(code)]);
    stream::iter(outputs.map(Ok).collect::<Vec<_>>()).boxed()
}

fn cat(inputs: ExecInputs) -> Outputs {
    let until_end = inputs.take_while(|input| {
        let goes_on = *input != ExecInput::StdinEnd;
        async move { goes_on }
    });
    let echoed = until_end.filter_map(|input| async {
        match input {
            ExecInput::Stdin(bytes) => Some(Ok(ExecOutput::Stdout(bytes))),
            ExecInput::StdinEnd | ExecInput::Resize(_) => None,
        }
    });
    echoed.chain(all(Vec::new(), 0)).boxed()
}

fn size(first: Option<TerminalSize>, inputs: ExecInputs) -> Outputs {
    let told = |size: TerminalSize| {
        Ok(ExecOutput::Stdout(format!("{}x{}\n", size.columns, size.rows).into()))
    };
    let until_end = inputs.take_while(|input| {
        let goes_on = match input {
            ExecInput::Stdin(typed) => !typed.contains(&END_OF_TYPING),
            ExecInput::StdinEnd => false,
            ExecInput::Resize(_) => true,
        };
        async move { goes_on }
    });
    let later = until_end.filter_map(move |input| async move {
        match input {
            ExecInput::Resize(size) => Some(told(size)),
            ExecInput::Stdin(_) | ExecInput::StdinEnd => None,
        }
    });
    stream::iter(first.map(told)).chain(later).chain(all(Vec::new(), 0)).boxed()
}
