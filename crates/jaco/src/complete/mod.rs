//! Completions for shells: what a word may become, with names from the cluster.
//!
//! A shell runs this program with [`VARIABLE`] set and the words of its line; `kind` says which argument takes which
//! names, `line` which cluster the line is about, `names` asks it. Nothing is printed but candidates: whatever goes wrong,
//! there are none.

mod kind;
mod line;
mod names;

use std::ffi::{OsStr, OsString};
use std::io;

use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{CompleteEnv, Shells};

use self::kind::Kind;

/// The environment variable that names the shell which asks.
pub(crate) const VARIABLE: &str = "JACO_COMPLETE";

/// Answers a shell that asks for completions, and ends the process then; returns if none does.
pub(crate) fn answer(grammar: fn() -> clap::Command) {
    CompleteEnv::with_factory(|| with_names(grammar())).var(VARIABLE).complete();
}

/// A command line that completes the names of the cluster.
fn with_names(command: clap::Command) -> clap::Command {
    below(command, "")
}

/// A command, as in `node drain`, and those below it. Arguments keep their order, which is that of their positions.
fn below(command: clap::Command, path: &str) -> clap::Command {
    let command = command.mut_args(|arg| match kind::of(path, &arg) {
        Some(kind) => arg.add(ArgValueCompleter::new(move |word: &OsStr| candidates(kind, word))),
        None => arg,
    });
    command.mut_subcommands(|command| {
        let path = format!("{path} {}", command.get_name());
        below(command, path.trim_start())
    })
}

/// What a word may become.
fn candidates(kind: Kind, word: &OsStr) -> Vec<CompletionCandidate> {
    let mut all: Vec<CompletionCandidate> = Vec::new();
    if let Some(text) = word.to_str() {
        let names = names::of(kind, text, &line::options(&line::words(std::env::args_os())));
        all.extend(names.into_iter().map(CompletionCandidate::new));
    }
    if kind == Kind::CopySide {
        all.extend(PathCompleter::any().complete(word));
    }
    all
}

/// The script that makes a shell ask this program.
///
/// # Errors
/// If the shell is not known.
pub(crate) fn script(shell: &str) -> io::Result<String> {
    let shells = Shells::builtins();
    let known = shells.completer(shell).ok_or(io::ErrorKind::Unsupported)?;
    let mut script = Vec::new();
    known.write_registration(VARIABLE, "jaco", "jaco", "jaco", &mut script)?;
    if shell == "zsh" {
        script.extend_from_slice(ZSH_FIRST_CALL.as_bytes());
    }
    String::from_utf8(script).map_err(io::Error::other)
}

/// Where zsh loads the script as a function when the first word is completed, this answers for that word; elsewhere it
/// would only define what the second one calls.
const ZSH_FIRST_CALL: &str = r#"
if [[ "${funcstack[1]}" == _jaco ]]; then
    _clap_dynamic_completer_jaco "$@"
fi
"#;

/// The words of a line as a shell gives them, without the program's name.
type Words = Vec<OsString>;

#[cfg(test)]
mod tests;
