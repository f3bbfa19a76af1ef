//! The command line of JACO: reads files and flags, asks a daemon, shows what it says.
//!
//! Decides nothing about the cluster. Results go to stdout and everything else to stderr; only `ui`
//! prints. One file per command in `commands`, where the doc comments are the help.

mod archive;
mod backup;
pub mod cli;
mod commands;
pub mod connect;
pub mod contexts;
pub mod dev;
mod disabled_file;
mod disk;
pub mod error;
mod key_values;
mod manifest;
pub mod pages;
mod password;
mod plan_file;
pub mod progress;
mod restore;
mod ship;
pub mod table;
mod terminal;
pub mod ui;
pub mod view;
mod wait;
pub mod when;
pub mod yaml;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::commands::Context;
use crate::ui::Ui;

/// Runs the command line that this process was given.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut ui = Ui::of_process(&cli.global);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a process that could start can wait for events");
    let mut context = Context::new(cli.global, ui);
    let done = runtime.block_on(commands::run(cli.command, &mut context));
    ui = context.into_ui();
    let code = match done {
        Ok(code) => code,
        Err(error) => ui.error(&error.report()) as u8,
    };
    ExitCode::from(code)
}
