//! Manifests: the user's compose files, jaco.yaml and jaco.services.toml.

mod args;
pub(crate) mod disk;
mod find;
mod input;
mod load;

pub(crate) use args::ManifestArgs;
pub(crate) use load::Manifest;
