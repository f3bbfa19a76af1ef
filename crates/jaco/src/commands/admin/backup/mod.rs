//! `jaco backup`

mod command;
mod receive;
mod schedule;
mod to_folder;
mod written;

pub(crate) use command::{Args, run};
