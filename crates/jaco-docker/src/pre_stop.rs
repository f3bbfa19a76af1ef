//! The `pre_stop` hooks of a container: commands that are run in it before the stop signal.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::exec::CreateExecOptions;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::InspectContainerOptions;
use futures::{StreamExt, TryStreamExt, stream};
use jaco_agent::engine::{ContainerId, EngineError};
use jaco_agent::exec::{ExecOutput, Stdin};
use jaco_compose::model::Hook;

use crate::error::{NOT_FOUND, engine_error, status};
use crate::{exec, names};

/// The grace period of a container without one, as in Docker.
const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// Runs the hooks of a container, if it is running and has any, and returns how long Docker may wait between signal
/// and kill, in seconds: what the hooks left of the grace period, rounded down. `None` if no hook ran: the grace
/// period of the container applies.
///
/// A hook that fails, or has not ended with the grace period, is logged and prevents nothing; after it no other one
/// is run.
///
/// # Errors
/// If Docker cannot be asked for the container.
pub(crate) async fn run(
    docker: &Docker,
    container: &ContainerId,
) -> Result<Option<i32>, EngineError> {
    let begun = Instant::now();
    let inspected = docker.inspect_container(&container.0, None::<InspectContainerOptions>).await;
    let inspected = match inspected {
        Ok(inspected) => inspected,
        Err(error) if status(&error) == Some(NOT_FOUND) => return Ok(None),
        Err(error) => return Err(engine_error(error)),
    };
    let Some(Pending { hooks, grace }) = Pending::of(inspected, container) else { return Ok(None) };
    for (index, hook) in hooks.into_iter().enumerate() {
        let left = grace.saturating_sub(begun.elapsed());
        let ended = tokio::time::timeout(left, exit_code(docker, container, hook)).await;
        match ended {
            Ok(Ok(0)) => continue,
            Ok(Ok(code)) => {
                tracing::warn!(%container, index, code, "pre_stop hook failed, the stop signal follows");
            }
            Ok(Err(error)) => {
                tracing::warn!(%container, index, %error, "pre_stop hook not run, the stop signal follows");
            }
            Err(_) => {
                let grace = grace.as_secs();
                tracing::warn!(
                    %container, index, grace,
                    "pre_stop hook did not end within the grace period, the stop signal follows"
                );
            }
        }
        break;
    }
    let left = grace.saturating_sub(begun.elapsed()).as_secs();
    Ok(Some(i32::try_from(left).unwrap_or(i32::MAX)))
}

/// Hooks to run.
struct Pending {
    hooks: Vec<Hook>,
    grace: Duration,
}

impl Pending {
    /// `None` if the container does not run or has no hook.
    fn of(inspected: ContainerInspectResponse, container: &ContainerId) -> Option<Self> {
        if inspected.state.and_then(|state| state.running) != Some(true) {
            return None;
        }
        let config = inspected.config?;
        // A container that was made before there were hooks has no such label.
        let label = config.labels?.remove(names::PRE_STOP)?;
        let hooks = match serde_json::from_str::<Vec<Hook>>(&label) {
            Ok(hooks) => hooks,
            Err(error) => {
                tracing::warn!(%container, %error, "pre_stop hooks cannot be read, the stop signal follows");
                return None;
            }
        };
        let grace = config.stop_timeout.and_then(|seconds| u64::try_from(seconds).ok());
        let grace = grace.map_or(DEFAULT_GRACE, Duration::from_secs);
        (!hooks.is_empty()).then_some(Self { hooks, grace })
    }
}

async fn exit_code(
    docker: &Docker,
    container: &ContainerId,
    hook: Hook,
) -> Result<i64, EngineError> {
    let inputs = stream::empty().boxed();
    let mut outputs =
        exec::attach(docker.clone(), container, options(hook), (Stdin::None, None), inputs).await?;
    while let Some(output) = outputs.try_next().await? {
        if let ExecOutput::Exited(code) = output {
            return Ok(code);
        }
    }
    Err(EngineError::Refused { reason: "docker did not tell the exit code".to_owned() })
}

fn options(hook: Hook) -> CreateExecOptions<String> {
    let environment = hook.environment.into_iter();
    CreateExecOptions {
        // Read until the hook ends: a full pipe would block it.
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        env: Some(
            environment.filter_map(|(key, value)| Some(format!("{key}={}", value?))).collect(),
        ),
        cmd: Some(hook.command),
        privileged: Some(hook.privileged),
        user: hook.user,
        working_dir: hook.working_dir,
        ..CreateExecOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-2: only a hook that asks for it is given all rights. A machine that gives them away itself is needed to see
    /// them in a container.
    #[test]
    fn a_hook_is_given_to_docker_with_its_rights() {
        for privileged in [false, true] {
            let hook = Hook { command: vec!["true".to_owned()], privileged, ..Hook::default() };
            assert_eq!(options(hook).privileged, Some(privileged));
        }
    }
}
