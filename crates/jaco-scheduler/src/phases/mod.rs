//! The phases of a pass: each carries out what was judged, or adds and reports what is missing.

mod carry_out;
mod create;
mod drain;
mod moving;
mod node_status;
mod record;
mod report;
mod terminating;

pub(crate) use carry_out::{carry_out, carry_out_in};
pub(crate) use create::{Services, create, reserve};
pub(crate) use node_status::judge_nodes;
pub(crate) use record::write_records;
pub(crate) use report::report;
pub(crate) use terminating::{expire_consumers, release};
