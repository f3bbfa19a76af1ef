//! From flags, environment and contexts to a cluster to connect to.

mod choice;
mod context_folder;
mod contexts;
mod target;

pub(crate) use choice::{Choice, CredentialSource, Environment, choose};
pub(crate) use context_folder::{ContextFolder, is_context_name, replace};
pub(crate) use contexts::{Cluster, Contexts};
pub(crate) use target::{client_certificate, parse_token, private_key, secret_file, target, trust};
