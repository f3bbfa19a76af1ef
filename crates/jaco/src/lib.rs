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

use clap::Parser;

use crate::cli::Cli;
use crate::output::Ui;
use crate::session::Session;

/// Runs the command line that this process was given.
#[must_use]
pub fn main() -> ExitCode {
    complete::answer(cli::command);
    let cli = Cli::parse();
    let ui = Ui::of_process(cli.global.output, cli.global.verbosity());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a process that could start can wait for events");
    let mut session = Session::new(cli.global, ui);
    let done = runtime.block_on(cli::dispatch(cli.command, &mut session));
    session.note_age();
    session.remember_members();
    runtime.block_on(session.learn_authorities());
    let code = match done {
        Ok(code) => code,
        Err(error) => session.ui.error(&error.report()) as u8,
    };
    ExitCode::from(code)
}
