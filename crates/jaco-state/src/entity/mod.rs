//! What the replicated state consists of.

pub mod cluster_meta;
pub mod contents;
pub mod deployment;
pub mod disabled;
pub mod registries;
pub mod token;
