//! `jaco restore`

mod check;
mod checked;
mod command;
mod open;

pub(crate) use command::{Args, run};
pub(super) use open::source;
