//! Errors of commands, their printed form, and the page of each error code.

mod cli_error;
pub(crate) mod pages;
mod report;

pub use cli_error::CliError;
pub use report::{Colour, Report};
