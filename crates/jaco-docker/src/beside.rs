//! Commands in containers of their own, beside the container of a replica: with its image, environment, mounts and limits, and in its
//! network, so that names and addresses are those of the replica. Nothing restarts or checks them, and they are removed with the
//! connection of whoever started them, or with the replica.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{
    ContainerConfig, ContainerCreateBody, ContainerInspectResponse, HealthConfig, HostConfig,
    HostConfigLogConfig,
};
use bollard::query_parameters::{
    AttachContainerOptions, CreateContainerOptions, InspectContainerOptions, StartContainerOptions,
};
use jaco_agent::engine::{ContainerId, EngineError, Owner};
use jaco_agent::exec::{BesideRequest, ExecInputs, ExecOutputs, Stdin};

use crate::error::{NOT_FOUND, engine_error, status};
use crate::exec::{Attached, NO_DETACH_KEYS, Running};
use crate::{names, own_container};

/// Label of the containers, with the scope of their owner.
const LABEL: &str = "jaco.beside";

/// How often it is looked whether the replica still runs. A request that waits for its end would be cut off by the time limit of
/// requests, again and again.
const REPLICA_LOOK: Duration = Duration::from_secs(1);

/// Removes what a process before this one has left: whoever had started it is gone.
///
/// # Errors
/// If the engine is unreachable.
pub(crate) async fn remove_left(docker: &Docker, owner: &Owner) -> Result<(), EngineError> {
    let left = own_container::labelled(docker, owner, LABEL).await?;
    for id in left.into_iter().filter_map(|container| container.id) {
        tracing::warn!(container = %id, "container of a command removed, its connection was lost");
        own_container::discard(docker, &id).await?;
    }
    Ok(())
}

/// Runs the command. See [`jaco_agent::ContainerEngine::run_beside`].
///
/// # Errors
/// If the container is not running, the command cannot be started, or Docker is unreachable.
pub(crate) async fn run(
    docker: Docker,
    owner: &Owner,
    container: &ContainerId,
    request: &BesideRequest,
    inputs: ExecInputs,
) -> Result<ExecOutputs, EngineError> {
    let replica = docker.inspect_container(&container.0, None::<InspectContainerOptions>).await;
    let body = body(owner, container, replica.map_err(engine_error)?, request)?;
    let (container, request) = (container.clone(), request.clone());
    // A caller that disconnects while it starts drops the output, and with it the container.
    let started = tokio::spawn(begin(docker, container, body, request, inputs));
    started.await.map_err(|error| EngineError::Refused { reason: error.to_string() })?
}

/// Makes the container, and removes it at the end of the command.
async fn begin(
    docker: Docker,
    replica: ContainerId,
    body: ContainerCreateBody,
    request: BesideRequest,
    inputs: ExecInputs,
) -> Result<ExecOutputs, EngineError> {
    let created = docker.create_container(None::<CreateContainerOptions>, body).await;
    let id = created.map_err(engine_error)?.id;
    let (output, input) = match start(&docker, &id, &request).await {
        Ok(connection) => connection,
        Err(error) => {
            own_container::discard(&docker, &id).await?;
            return Err(error);
        }
    };
    let command = &request.command;
    let running = Running::Container(id.clone());
    let attached = Attached::new(docker.clone(), running, command.stdin, command.terminal);
    let replica_ended = ended(docker.clone(), replica);
    Ok(attached.transfer(output, input, inputs, replica_ended, async move {
        if let Err(error) = own_container::discard(&docker, &id).await {
            tracing::warn!(container = %id, %error, "container of a command not removed");
        }
    }))
}

/// Waits until the replica's container does not run any more: what runs beside it has its volumes and secrets, and must not keep
/// them longer.
async fn ended(docker: Docker, replica: ContainerId) -> EngineError {
    loop {
        tokio::time::sleep(REPLICA_LOOK).await;
        let seen = docker.inspect_container(&replica.0, None::<InspectContainerOptions>).await;
        let runs = match seen {
            Ok(seen) => seen.state.and_then(|state| state.running) == Some(true),
            Err(error) => status(&error) != Some(NOT_FOUND),
        };
        if !runs {
            let reason = "the replica has ended, and what ran beside it with it".to_owned();
            return EngineError::Refused { reason };
        }
    }
}

/// Attaches before the start, so that nothing of the output is missed.
async fn start(
    docker: &Docker,
    id: &str,
    request: &BesideRequest,
) -> Result<(crate::exec::Output, crate::exec::Input), EngineError> {
    let options = AttachContainerOptions {
        stream: true,
        stdin: request.command.stdin == Stdin::Sent,
        stdout: true,
        stderr: true,
        detach_keys: request.command.terminal.map(|_| NO_DETACH_KEYS.to_owned()),
        ..AttachContainerOptions::default()
    };
    let attached = docker.attach_container(id, Some(options)).await.map_err(engine_error)?;
    docker.start_container(id, None::<StartContainerOptions>).await.map_err(engine_error)?;
    Ok((attached.output, attached.input))
}

/// The replica's container once more, with another command.
fn body(
    owner: &Owner,
    container: &ContainerId,
    replica: ContainerInspectResponse,
    request: &BesideRequest,
) -> Result<ContainerCreateBody, EngineError> {
    if replica.state.and_then(|state| state.running) != Some(true) {
        let reason = "the container of the replica is not running".to_owned();
        return Err(EngineError::Refused { reason });
    }
    let command = &request.command;
    let ContainerConfig { env, user, working_dir, entrypoint, stop_signal, .. } =
        replica.config.unwrap_or_default();
    let environment = env.unwrap_or_default().into_iter().chain(command.environment.clone());
    let own_entrypoint = request.entrypoint.clone().map(|program| vec![program]);
    Ok(ContainerCreateBody {
        image: replica.image,
        cmd: Some(command.command.clone()),
        entrypoint: own_entrypoint.or(entrypoint),
        env: Some(environment.collect()),
        user: command.user.clone().or(user),
        working_dir: command.working_dir.clone().or(working_dir),
        labels: Some(HashMap::from([(LABEL.to_owned(), names::scope(owner))])),
        tty: Some(command.terminal.is_some()),
        open_stdin: Some(command.stdin == Stdin::Sent),
        // The end of the input is that of the command's.
        stdin_once: Some(command.stdin == Stdin::Sent),
        attach_stdin: Some(command.stdin == Stdin::Sent),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        stop_signal,
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        host_config: Some(host_config(container, replica.host_config.unwrap_or_default())),
        ..ContainerCreateBody::default()
    })
}

/// What a container that shares the network of another one may not have of its own is left out, and what would keep it.
fn host_config(container: &ContainerId, replica: HostConfig) -> HostConfig {
    HostConfig {
        network_mode: Some(format!("container:{container}")),
        port_bindings: None,
        publish_all_ports: None,
        dns: None,
        dns_options: None,
        dns_search: None,
        extra_hosts: None,
        links: None,
        sysctls: None,
        restart_policy: None,
        auto_remove: None,
        container_id_file: None,
        // Its output goes to whoever started it.
        log_config: Some(HostConfigLogConfig {
            typ: Some("none".to_owned()),
            ..HostConfigLogConfig::default()
        }),
        ..replica
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::{ContainerState, Mount, RestartPolicy};
    use jaco_agent::exec::ExecRequest;
    use jaco_types::{ClusterId, NodeId};

    use super::*;

    fn request() -> BesideRequest {
        let command = ExecRequest {
            command: vec!["rake".to_owned(), "db:migrate".to_owned()],
            environment: vec!["RAILS_ENV=test".to_owned()],
            user: None,
            working_dir: None,
            stdin: Stdin::None,
            terminal: None,
        };
        BesideRequest { command, entrypoint: None }
    }

    fn replica(running: bool) -> ContainerInspectResponse {
        ContainerInspectResponse {
            image: Some("sha256:1".to_owned()),
            state: Some(ContainerState { running: Some(running), ..ContainerState::default() }),
            config: Some(ContainerConfig {
                env: Some(vec!["PATH=/bin".to_owned(), "RAILS_ENV=production".to_owned()]),
                user: Some("app".to_owned()),
                working_dir: Some("/srv".to_owned()),
                entrypoint: Some(vec!["/entry".to_owned()]),
                cmd: Some(vec!["serve".to_owned()]),
                exposed_ports: Some(vec!["80/tcp".to_owned()]),
                hostname: Some("web".to_owned()),
                labels: Some(HashMap::from([(names::DEPLOYMENT.to_owned(), "shop".to_owned())])),
                ..ContainerConfig::default()
            }),
            host_config: Some(HostConfig {
                mounts: Some(vec![Mount { target: Some("/data".to_owned()), ..Mount::default() }]),
                memory: Some(1 << 28),
                cap_drop: Some(vec!["ALL".to_owned()]),
                dns: Some(vec!["10.0.0.1".to_owned()]),
                restart_policy: Some(RestartPolicy::default()),
                network_mode: Some("jaco".to_owned()),
                ..HostConfig::default()
            }),
            ..ContainerInspectResponse::default()
        }
    }

    fn made(request: &BesideRequest) -> ContainerCreateBody {
        let owner =
            Owner { cluster: ClusterId::new(&"0a".repeat(16)).expect("a name"), node: NodeId(1) };
        body(&owner, &ContainerId("abc".into()), replica(true), request).expect("it runs")
    }

    /// R-JOB-2: what the replica has, the command has; what makes a container a replica, it has not.
    #[test]
    fn a_command_gets_what_the_replica_has() {
        let body = made(&request());
        assert_eq!(body.image.as_deref(), Some("sha256:1"));
        assert_eq!(body.entrypoint, Some(vec!["/entry".to_owned()]));
        assert_eq!(body.cmd, Some(request().command.command));
        // Of two values of a variable the last one counts.
        let env = ["PATH=/bin", "RAILS_ENV=production", "RAILS_ENV=test"].map(str::to_owned);
        assert_eq!(body.env, Some(env.to_vec()));
        assert_eq!(
            (body.user.as_deref(), body.working_dir.as_deref()),
            (Some("app"), Some("/srv"))
        );
        assert_eq!((body.hostname, body.exposed_ports), (None, None));
        assert_eq!(body.healthcheck.and_then(|check| check.test), Some(vec!["NONE".to_owned()]));
        let labels = body.labels.unwrap_or_default();
        assert_eq!(labels.keys().collect::<Vec<_>>(), [LABEL]);
        let host = body.host_config.expect("it has one");
        assert_eq!(host.network_mode.as_deref(), Some("container:abc"));
        assert_eq!((host.memory, host.mounts.map(|mounts| mounts.len())), (Some(1 << 28), Some(1)));
        assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!((host.dns, host.restart_policy), (None, None));
    }

    /// R-JOB-2: what the user asks for goes before what the replica has.
    #[test]
    fn a_command_gets_what_is_asked_for() {
        let mut asked = request();
        asked.entrypoint = Some("sh".to_owned());
        asked.command.user = Some("0".to_owned());
        asked.command.working_dir = Some("/tmp".to_owned());
        let body = made(&asked);
        assert_eq!(body.entrypoint, Some(vec!["sh".to_owned()]));
        assert_eq!((body.user.as_deref(), body.working_dir.as_deref()), (Some("0"), Some("/tmp")));
    }

    /// R-JOB-2: a container that is not running has no network to share.
    #[test]
    fn nothing_runs_beside_a_stopped_container() {
        let owner =
            Owner { cluster: ClusterId::new(&"0a".repeat(16)).expect("a name"), node: NodeId(1) };
        let made = body(&owner, &ContainerId("abc".into()), replica(false), &request());
        assert!(matches!(made, Err(EngineError::Refused { .. })), "{made:?}");
    }
}
