//! `jaco notify`

mod add;
mod command;
mod pause;

pub(crate) use command::{Args, run};
