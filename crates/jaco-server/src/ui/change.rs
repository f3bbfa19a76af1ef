//! The rpcs that actions are made of, in the name of who sent the form. What an action needs, and whether it is done a
//! second time, is decided by the rpcs alone.

use std::time::Duration;

use jaco_compose::{restart, scale};
use jaco_proto::v1;
use jaco_types::code::ExitCode;
use jaco_types::{Availability, Drain, ErrorCode, Rejection};
use jaco_ui::Once;
use jaco_ui::action::{Action, Allocation, BoundData};
use tokio::time::Instant;

use crate::gateway::{Rpcs, refused};
use crate::status::invalid;

/// How long an action is tried again while there is no leader: longer than an election takes.
const PATIENCE: Duration = Duration::from_secs(8);

/// How long an attempt waits for the next one.
const PAUSE: Duration = Duration::from_millis(200);

/// Does what a form asks for. Without a leader it is tried again, with the same request id: it is done once at most.
///
/// # Errors
/// The refusal of the rpc. [`is_unknown`] says whether it may have been done nevertheless.
pub(super) async fn perform(rpcs: &Rpcs, action: &Action, once: &Once) -> Result<(), Rejection> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt(rpcs, action, once).await {
            Err(why) if is_leaderless(why.code) && Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

fn is_leaderless(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NoLeader | ErrorCode::QuorumLost)
}

/// Whether it may have been done although it was refused: the answer may have been lost.
pub(super) fn is_unknown(why: &Rejection) -> bool {
    matches!(why.code.exit_code(), ExitCode::Unreachable | ExitCode::TimedOut)
}

async fn attempt(rpcs: &Rpcs, action: &Action, once: &Once) -> Result<(), Rejection> {
    let request_id = once.request_id.clone();
    match action {
        Action::Scale { deployment, .. } | Action::Restart { deployment, .. } => {
            let stored = serving(rpcs, deployment, based_on(once)?).await?;
            let request = v1::ApplyRequest { request_id, ..revised(stored, action)? };
            rpcs.deploy().apply(request).await.map_err(refused)?;
        }
        Action::Run { deployment, service } => {
            let (deployment, service) = (deployment.clone(), service.clone());
            let request = v1::RunJobRequest { deployment, service, request_id };
            rpcs.deploy().run_job(request).await.map_err(refused)?;
        }
        Action::Rollback { deployment, to } => {
            let deployment = deployment.clone();
            let request = v1::RollbackRequest { deployment, to: *to, request_id };
            rpcs.deploy().rollback(request).await.map_err(refused)?;
        }
        Action::Delete { deployment } => {
            let request = v1::DeleteRequest { deployment: deployment.clone(), request_id };
            rpcs.deploy().delete(request).await.map_err(refused)?;
        }
        Action::Disable(of) => set_disabled(rpcs, "disable", of, request_id).await?,
        Action::Enable(of) => set_disabled(rpcs, "enable", of, request_id).await?,
        Action::Cordon { node } => {
            set_availability(rpcs, available(node, Availability::Cordoned, request_id)).await?;
        }
        Action::Uncordon { node } => {
            set_availability(rpcs, available(node, Availability::Active, request_id)).await?;
        }
        Action::Drain { node, data } => {
            let mut request = available(node, Availability::Draining, request_id);
            match data {
                BoundData::Refuses => refuse_bound(rpcs, node).await?,
                BoundData::Stays => request.drain_timeout_ms = Drain::WITHOUT_DATA.0,
            }
            set_availability(rpcs, request).await?;
        }
        Action::Remove { node } => remove(rpcs, node, Emptiness::Required, once).await?,
        Action::RemoveLost { node } => remove(rpcs, node, Emptiness::GivenUp, once).await?,
    }
    Ok(())
}

/// Whether a node has to be empty to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Emptiness {
    Required,
    GivenUp,
}

async fn remove(
    rpcs: &Rpcs,
    node: &str,
    emptiness: Emptiness,
    once: &Once,
) -> Result<(), Rejection> {
    let request = v1::RemoveNodeRequest {
        hostname: node.to_owned(),
        force: emptiness == Emptiness::GivenUp,
        request_id: once.request_id.clone(),
        node_id: based_on(once)?,
    };
    rpcs.cluster().remove_node(request).await.map_err(refused)?;
    Ok(())
}

fn available(
    node: &str,
    availability: Availability,
    request_id: String,
) -> v1::SetAvailabilityRequest {
    v1::SetAvailabilityRequest {
        hostname: node.to_owned(),
        availability: availability.as_str().to_owned(),
        request_id,
        drain_timeout_ms: 0,
    }
}

async fn set_availability(
    rpcs: &Rpcs,
    request: v1::SetAvailabilityRequest,
) -> Result<(), Rejection> {
    rpcs.cluster().set_availability(request).await.map_err(refused)?;
    Ok(())
}

async fn set_disabled(
    rpcs: &Rpcs,
    change: &str,
    of: &Allocation,
    request_id: String,
) -> Result<(), Rejection> {
    let allocation = match of {
        Allocation::Service { deployment, service } => v1::AllocationRef {
            deployment: deployment.clone(),
            service: service.clone(),
            ..Default::default()
        },
        Allocation::Node(node) => v1::AllocationRef { node: node.clone(), ..Default::default() },
    };
    let (change, allocations) = (change.to_owned(), vec![allocation]);
    let request = v1::SetDisabledRequest { change, allocations, request_id };
    rpcs.cluster().set_disabled(request).await.map_err(refused)?;
    Ok(())
}

/// The question what a drain would move.
pub(super) fn drained(node: &str) -> v1::WhatifRequest {
    v1::WhatifRequest { drain: vec![node.to_owned()], ..Default::default() }
}

/// Refuses to begin a drain that cannot end: data does not move, and its replicas stay where it is.
async fn refuse_bound(rpcs: &Rpcs, node: &str) -> Result<(), Rejection> {
    let answer = rpcs.planner().whatif(drained(node)).await.map_err(refused)?.into_inner();
    let preview = answer.preview.unwrap_or_default();
    let bound: Vec<String> = jaco_ui::bound_by_data(&preview).collect();
    if bound.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{node} cannot be emptied, and nothing was changed: {}. The page of the drain says what can be done instead",
        bound.join("; ")
    );
    Err(Rejection::new(ErrorCode::CannotPlace, message))
}

/// What an action changes: the revision that serves instead of a desired one; 0 for whichever is desired now.
///
/// # Errors
/// If there is none.
pub(super) async fn serving(
    rpcs: &Rpcs,
    deployment: &str,
    revision: u64,
) -> Result<v1::GetDeploymentResponse, Rejection> {
    let name = deployment.to_owned();
    let request = v1::GetDeploymentRequest { name, revision, serving: true };
    Ok(rpcs.query().get_deployment(request).await.map_err(refused)?.into_inner())
}

/// The revision that serves as an action leaves it, refused by then if another one is desired.
///
/// # Errors
/// If there is no such service, or jaco.yaml sets its number of replicas.
pub(super) fn revised(
    stored: v1::GetDeploymentResponse,
    action: &Action,
) -> Result<v1::ApplyRequest, Rejection> {
    let mut model = serde_json::from_str(&stored.compose_json).map_err(|error| {
        let message = format!("the stored compose model of {} is damaged: {error}", stored.name);
        Rejection::new(ErrorCode::Internal, message)
    })?;
    let is_found = if let Action::Scale { service, replicas, .. } = action {
        let set = scale::set_by_overlay(&stored.overlay_yaml, service)
            .map_err(|problems| invalid(problems.to_string()))?;
        if let Some(set) = set {
            return Err(invalid(format!(
                "jaco.yaml sets the replicas of {service} to {set}: change the number there and apply it"
            )));
        }
        let replicas =
            replicas.ok_or_else(|| invalid("the field replicas is missing: a number"))?;
        scale::set(&mut model, service, replicas)
    } else if let Action::Restart { service, .. } = action {
        restart::count(&mut model, service.as_deref())
    } else {
        true
    };
    if !is_found {
        let message = format!("{} has no such service: {}", stored.name, action.title());
        return Err(Rejection::new(ErrorCode::ServiceNotFound, message));
    }
    Ok(v1::ApplyRequest {
        compose_json: model.to_string(),
        overlay_yaml: stored.overlay_yaml,
        environment_toml: stored.environment_toml,
        deployment: stored.name,
        binds: stored.binds,
        configs: stored.configs,
        secrets: stored.secrets,
        // Their size was checked when they were first applied.
        max_file_bytes: u64::MAX,
        based_on: stored.instead_of,
        made_from: stored.revision,
        ..v1::ApplyRequest::default()
    })
}

/// What the page was made from. Without it a form of another page, or of nobody's, would change whatever is there now.
fn based_on(once: &Once) -> Result<u64, Rejection> {
    match once.based_on {
        0 => Err(invalid("the form does not say what its page was made from: load the page again")),
        based_on => Ok(based_on),
    }
}
