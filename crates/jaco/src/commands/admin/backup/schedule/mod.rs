//! `jaco backup schedule`

mod add;
mod command;
mod run;

pub(super) use command::{Action, dispatch};
