//! Commands for the cluster, its nodes and what it stores.

pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod certificate;
pub(crate) mod cluster;
pub(crate) mod contents;
pub(crate) mod doctor;
pub(crate) mod image;
mod keys;
pub(crate) mod network;
mod new_file;
pub(crate) mod node;
pub(crate) mod notify;
mod operator_certificate;
mod password;
pub(crate) mod policy;
pub(crate) mod registry;
pub(crate) mod restore;
mod rotate_ca;
mod rotate_kek;
pub(crate) mod route;
pub(crate) mod token;
pub(crate) mod volume;
