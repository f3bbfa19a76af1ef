//! From flags, environment and contexts to a cluster to connect to.

mod choice;
mod context_folder;
mod contexts;
mod target;

pub(crate) use choice::{Choice, CredentialSource, Environment, choose};
pub(crate) use context_folder::{ContextFolder, is_context_name, replace};
pub(crate) use contexts::{Cluster, Contexts, load as load_contexts, save as save_contexts};
pub(crate) use target::{client_certificate, parse_token, private_key, secret_file, target, trust};

/// Reads a file of contexts; see [`crate::decoders`].
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_any(text: &str) {
    let Ok(contexts) = toml::from_str::<Contexts>(text) else { return };
    let written = toml::to_string(&contexts).expect("the fields are texts, lists and tables");
    assert_eq!(toml::from_str::<Contexts>(&written).ok(), Some(contexts));
}
