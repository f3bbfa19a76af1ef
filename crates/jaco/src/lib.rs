//! The command line of JACO: reads files and flags, sends requests to a daemon, prints the responses.
//!
//! Decides nothing about the cluster. From top to bottom: [`cli`] parses and dispatches, `commands`
//! holds one file per command whose doc comments are the help, `deploy`, `manifest`, `upload`, `import`, `backup`
//! and `restore` do the work that several commands share, `editor` runs the editor of the user, `complete` answers shells, `session` owns the connection, `screen` is what the terminal view shows and does, [`view`] turns
//! messages into tables and JSON, and only [`output`] prints. A module uses those below it.

pub mod cli;
mod commands;
#[cfg(any(test, feature = "fuzzing"))]
pub mod decoders;
pub mod deploy;

mod archive;
mod backup;
pub mod dev;
mod editor;
mod identities;
mod image;
mod import;
mod manifest;
mod opening;
mod restore;
mod upload;
mod volume;

mod complete;

mod connect;
mod session;

pub mod error;
pub mod format;
mod options;
pub mod output;
mod screen;
pub mod view;

use std::process::ExitCode;

use clap::ValueEnum;

use crate::error::CliError;
use crate::output::{Format, Ui, Verbosity};
use crate::session::Session;

/// Prints why a command line is refused, or the help that it asks for. For programs an error is JSON or YAML, as any other
/// error is.
fn refuse(refused: &clap::Error) -> ExitCode {
    let format = asked_format(std::env::args().skip(1));
    let is_for_programs = matches!(format, Some(Format::Json | Format::Yaml));
    if !refused.use_stderr() || !is_for_programs {
        refused.exit();
    }
    let text = refused.to_string();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let sentence = lines.next().unwrap_or_default();
    let sentence = sentence.strip_prefix("error: ").unwrap_or(sentence);
    let help: Vec<&str> = lines.collect();
    let error = CliError::usage(sentence, help.join("; "));
    let mut ui = Ui::of_process(format.unwrap_or_default(), Verbosity::Normal);
    ExitCode::from(ui.error(&error.report()) as u8)
}

/// The format that a command line asks for which could not be parsed.
fn asked_format(words: impl Iterator<Item = String>) -> Option<Format> {
    let mut words = words.take_while(|word| word != "--");
    let mut asked = None;
    while let Some(word) = words.next() {
        let value = match word.as_str() {
            "-o" | "--output" => words.next(),
            word => ["--output=", "-o=", "-o"]
                .iter()
                .find_map(|option| word.strip_prefix(option))
                .map(str::to_owned),
        };
        asked = value.and_then(|value| Format::from_str(&value, true).ok()).or(asked);
    }
    asked
}

/// Runs the command line that this process was given.
#[must_use]
pub fn main() -> ExitCode {
    complete::answer(cli::command);
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(refused) => return refuse(&refused),
    };
    let ui = Ui::of_process(cli.global.output, cli.global.verbosity());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a process that could start can wait for events");
    let mut session = Session::new(cli.global, ui);
    let done = runtime.block_on(cli::dispatch(cli.command, &mut session));
    // What failed shows nothing that could be old.
    if done.is_ok() {
        session.note_age();
    }
    session.remember_members();
    runtime.block_on(session.learn_authorities());
    let code = match done {
        Ok(code) => code,
        Err(error) => session.ui.error(&error.report()) as u8,
    };
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-7: a command line that is refused is refused in the format that it asks for.
    #[test]
    fn the_format_of_a_refused_command_line_is_known() {
        let of = |line: &str| asked_format(line.split_whitespace().map(str::to_owned));
        for line in
            ["-o json status --bad", "status --bad -ojson", "scale --output=json", "x -o=json"]
        {
            assert_eq!(of(line), Some(Format::Json), "{line}");
        }
        assert_eq!(of("--output yaml x"), Some(Format::Yaml));
        assert_eq!(of("exec shop/web -- tool -o json"), None);
        assert_eq!(of("status --on"), None);
    }
}
