//! From flags, environment and contexts to a cluster to connect to.

mod choice;
mod context_folder;
mod contexts;
mod target;

pub(crate) use choice::{Choice, Environment, choose};
pub(crate) use context_folder::{ContextFolder, is_context_name};
pub(crate) use contexts::{Cluster, Contexts};
pub(crate) use target::{parse_token, secret_file, target, trust};
