//! Commands for deployments and their replicas.

pub(crate) mod apply;
mod attached;
pub(crate) mod cp;
pub(crate) mod delete;
pub(crate) mod diff;
pub(crate) mod disable;
pub(crate) mod edit;
pub(crate) mod exec;
pub(crate) mod gc;
pub(crate) mod get;
pub(crate) mod history;
pub(crate) mod logs;
pub(crate) mod plan;
pub(crate) mod port_forward;
pub(crate) mod restart;
pub(crate) mod rollback;
pub(crate) mod run;
pub(crate) mod scale;
pub(crate) mod status;
mod terminal;
pub(crate) mod ui;
pub(crate) mod wait;
