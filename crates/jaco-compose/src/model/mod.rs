//! A typed view of the canonical text of a container, for the engine.
//!
//! Every key that reaches a container has a field; lengths of time are nanoseconds, amounts of
//! memory are bytes, with the unit in the name. Reading is strict: a text that does not fit was not
//! made by this crate.

mod limits;
mod mount;
mod read;
mod resource;
mod service;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use limits::{
    Blkio, BlkioLimit, BlkioWeight, Deploy, Device, DeviceRequest, Limits, Reservations, Resources,
    Ulimit,
};
pub use mount::{
    BindOptions, FileMount, ImageOptions, Mount, MountKind, TmpfsOptions, VolumeOptions,
};
pub use resource::{ClusterNetwork, Content, Network, Volume};
pub use service::{Attachment, Health, Hook, Logging, Port, Service};

/// What a container is made of.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// The service.
    pub service: Service,
    /// Networks of the deployment that the service is attached to, by key.
    #[serde(default)]
    pub networks: BTreeMap<String, Network>,
    /// Named volumes that it mounts, by key.
    #[serde(default)]
    pub volumes: BTreeMap<String, Volume>,
    /// Configs that it gets, by key.
    #[serde(default)]
    pub configs: BTreeMap<String, Content>,
    /// Secrets that it gets, by key.
    #[serde(default)]
    pub secrets: BTreeMap<String, Content>,
    /// Versions of uploaded files, by the source path of their mounts.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A canonical text that is not one.
#[derive(Debug, thiserror::Error)]
#[error("the canonical container text cannot be read")]
pub struct ModelError(#[from] serde_json::Error);

impl ContainerSpec {
    /// Reads [`crate::Container::canonical`].
    ///
    /// # Errors
    ///
    /// When the text was not made by this crate.
    pub fn parse(canonical: &str) -> Result<Self, ModelError> {
        Ok(serde_json::from_str(canonical)?)
    }
}
