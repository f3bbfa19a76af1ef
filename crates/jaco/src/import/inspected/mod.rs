//! What the engine's `inspect` says of containers, images, networks, volumes and Swarm services, as far as a compose file can
//! say it too. Keys that are not listed are not read.

mod container;
mod resource;
mod swarm;

pub(super) use container::{
    Container, ContainerConfig, Device, DeviceRequest, Endpoint, HostConfig, Mount, MountOptions,
    PortBinding, Ulimit,
};
pub(super) use resource::{Health, Image, ImageConfig, Network, Volume};
pub(super) use swarm::{
    ContainerSpec, EndpointSpec, FileUse, Service, Spec, TaskTemplate, UpdateConfig,
};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads what one object is.
///
/// # Errors
/// If a key has a value of another kind than engines give it.
pub(super) fn read<T: DeserializeOwned>(value: Value) -> Result<T, serde_json::Error> {
    serde_json::from_value(without_nulls(value))
}

/// Takes out keys without a value: engines write `null` for empty lists and mappings.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let set = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(set.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}
