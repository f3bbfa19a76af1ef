//! From flags, environment and contexts to a cluster to connect to.

mod choice;
mod contexts;
mod target;

pub(crate) use choice::{Environment, choose};
pub(crate) use contexts::{Cluster, Contexts};
pub(crate) use target::{secret_file, target};
