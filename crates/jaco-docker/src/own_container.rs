//! Containers that are no replicas: those that the daemon makes for work of its own. A label says what for, and whose they are; they
//! have none of the labels that replicas have, so that nothing takes them for one.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::ContainerSummary;
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use jaco_agent::engine::{EngineError, Owner};

use crate::error::{NOT_FOUND, allow, engine_error};
use crate::names;

/// The containers with this label that are the owner's, running or not.
///
/// # Errors
/// If the engine is unreachable.
pub(crate) async fn labelled(
    docker: &Docker,
    owner: &Owner,
    label: &str,
) -> Result<Vec<ContainerSummary>, EngineError> {
    let label = format!("{label}={}", names::scope(owner));
    let options = ListContainersOptions {
        all: true,
        filters: Some(HashMap::from([("label".to_owned(), vec![label])])),
        ..ListContainersOptions::default()
    };
    docker.list_containers(Some(options)).await.map_err(engine_error)
}

/// Removes a container, with the volumes that its image declares: nothing else has them. One that is gone is no error.
///
/// # Errors
/// If the engine does not remove it.
pub(crate) async fn discard(docker: &Docker, id: &str) -> Result<(), EngineError> {
    let options =
        RemoveContainerOptions { force: true, v: true, ..RemoveContainerOptions::default() };
    allow(docker.remove_container(id, Some(options)).await, &[NOT_FOUND])
}
