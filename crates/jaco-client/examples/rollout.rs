//! Applies a compose model and follows its rollout to the end:
//! `cargo run -p jaco-client --example rollout -- model.json`.
//!
//! The model is what `jaco compose config` prints for a compose file, as JSON. The cluster is that of the current context of
//! `jaco`; without one, the daemon on this machine.
#![allow(clippy::print_stdout, reason = "an example's output is its purpose")]

use std::error::Error;

use jaco_client::{Client, ClientError, DEFAULT_SOCKET, Target, fresh_request_id, v1};

/// Applies the model, and tells each change of its services until the revision serves. Returns that revision.
///
/// What passes by itself (`no_leader`, `overloaded`, a lost connection) the client asks again by itself, with the same
/// request id, so that the change is made once.
pub(crate) async fn roll_out(
    client: &Client,
    compose_json: String,
    mut tell: impl FnMut(String),
) -> Result<u64, Box<dyn Error>> {
    let request = v1::ApplyRequest {
        compose_json,
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    let applied = client.apply(request).await?;
    tell(format!("{}: revision {} is {}", applied.deployment, applied.revision, applied.change));
    let mut told = Vec::new();
    loop {
        // Not older than the change, whichever node answers.
        let asked = v1::StatusRequest {
            deployment: applied.deployment.clone(),
            min_index: applied.raft_index,
            ..v1::StatusRequest::default()
        };
        let mut statuses = client.watch_status(asked).await?;
        while let Some(status) = statuses.next().await.or_else(ended_early)? {
            let Some(deployment) = status.deployments.first() else {
                return Err(format!("{} was deleted", applied.deployment).into());
            };
            if deployment.revision != applied.revision {
                return Err(format!("revision {} was given up", applied.revision).into());
            }
            let now: Vec<String> = deployment.services.iter().map(progress).collect();
            now.iter().filter(|line| !told.contains(*line)).cloned().for_each(&mut tell);
            told = now;
            match deployment.status.as_str() {
                "active" => return Ok(applied.revision),
                "failed" | "rolled_back" => return Err(deployment.status.clone().into()),
                // Updating, pending, or what later versions call it.
                _ => {}
            }
        }
    }
}

/// The node of a stream may go: then another one is asked. What does not pass by itself ends the rollout.
fn ended_early(error: ClientError) -> Result<Option<v1::StatusResponse>, ClientError> {
    if error.is_transient() { Ok(None) } else { Err(error) }
}

fn progress(service: &v1::ServiceInfo) -> String {
    let v1::ServiceInfo { name, updated, desired, .. } = service;
    format!("{name}: {updated} of {desired} replicas run the new spec")
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "a test runs the function above in a program of its own")]
async fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give the file of a compose model")?;
    let target = Target::from_context(None).unwrap_or_else(|_| Target::socket(DEFAULT_SOCKET));
    let client = Client::new(target);
    let tell = |line: String| println!("{line}");
    roll_out(&client, std::fs::read_to_string(path)?, tell).await?;
    Ok(())
}
