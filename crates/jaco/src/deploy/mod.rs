//! Changes of deployments and their previews: what `apply`, `plan`, `scale`, `restart`, `rollback`,
//! `delete`, `wait`, `whatif` and `node drain` share.

pub(crate) mod build;
pub mod condition;
mod converge;
pub(crate) mod delete;
pub(crate) mod plan_file;
mod reapply;
pub(crate) mod request;
mod submit;
pub(crate) mod trace;
pub mod verdict;
pub(crate) mod waiting;
pub(crate) mod warnings;
pub(crate) mod whatif;

pub(crate) use reapply::{accept_changed, reapply};
pub(crate) use submit::{After, Change, accept, follow, settle, submit};
