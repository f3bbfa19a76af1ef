//! What the replicated state consists of.

pub mod acme;
pub mod backup;
pub mod cluster_meta;
pub mod contents;
pub mod deployment;
pub mod disabled;
pub mod edge;
pub mod envelope;
pub mod images;
pub mod job;
pub mod kek;
pub mod network;
pub mod notify;
pub mod policy;
pub mod registries;
pub mod rotation;
pub mod sealed_key;
pub mod token;
