//! What each path serves: which rpcs it asks, and how their messages become JSON.

use jaco_json::{
    allocation, audit, certificate, cluster, deployment, image, job, network, node, replica, route,
    status, token, volume,
};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use serde::Serialize;
use serde_json::Value;

use super::answer;
use super::query::Query;
use super::rpcs::{Rpcs, refused};
use crate::endpoints::{Located, Subject};

/// Audit events in an answer, unless the request says otherwise.
const EVENTS: u64 = 100;

/// Audit events in an answer at most.
const EVENTS_MAX: u64 = 1000;

/// Makes the text of an answer of its messages. That takes long where there are thousands of them.
pub(super) type Render = Box<dyn FnOnce() -> Result<Vec<u8>, Rejection> + Send>;

/// Asks the rpcs that an answer is made of; `now_ms` is the present, for durations among the parameters.
///
/// # Errors
/// Those of the rpcs, and `invalid_request` for a parameter that is wrong.
pub(super) async fn read(
    rpcs: &Rpcs,
    at: Located<'_>,
    query: &Query,
    now_ms: i64,
) -> Result<Render, Rejection> {
    let of_deployment = || query.text("deployment");
    match at.endpoint.subject {
        Subject::Paths => Ok(value(answer::paths)),
        Subject::Allocations => allocations(rpcs, query).await,
        Subject::Certificates => {
            let asked = rpcs.cluster().list_certificates(v1::ListCertificatesRequest {}).await;
            Ok(list(asked.map_err(refused)?.into_inner().certificates, certificate::json))
        }
        Subject::Cluster => {
            let asked = rpcs.cluster().status(v1::ClusterStatusRequest {}).await;
            let found = asked.map_err(refused)?.into_inner();
            Ok(value(move || cluster::json(&found)))
        }
        Subject::Deployments => deployments(rpcs).await,
        Subject::Deployment => stored(rpcs, at.name, query).await,
        Subject::History => {
            let request = v1::HistoryRequest { deployment: at.name.to_owned() };
            let found = rpcs.query().history(request).await.map_err(refused)?.into_inner();
            Ok(value(move || deployment::history_json(&found)))
        }
        Subject::Events => events(rpcs, query, now_ms).await,
        Subject::Images => {
            let asked = rpcs.images().list_images(v1::ListImagesRequest::default()).await;
            Ok(list(asked.map_err(refused)?.into_inner().images, image::json))
        }
        Subject::Jobs => {
            let request =
                v1::JobsRequest { deployment: of_deployment(), service: query.text("service") };
            let asked = rpcs.query().jobs(request).await;
            Ok(list(asked.map_err(refused)?.into_inner().jobs, job::json))
        }
        Subject::Networks => {
            let asked = rpcs.cluster().list_networks(v1::ListNetworksRequest::default()).await;
            Ok(list(asked.map_err(refused)?.into_inner().networks, network::json))
        }
        Subject::Nodes => {
            let found = rpcs.status(scoped(v1::StatusScope::Nodes)).await?;
            Ok(list(found.nodes, node::json))
        }
        Subject::Replicas => {
            let found = rpcs.status(filtered(query)).await?;
            Ok(Box::new(move || to_text(&replica::OneByOne(&found.replicas))))
        }
        Subject::Routes => {
            let at_index = query.number("at", 1, u64::MAX)?.unwrap_or_default();
            let request = v1::ListRoutesRequest { deployment: of_deployment(), at_index };
            let asked = rpcs.cluster().list_routes(request).await;
            Ok(list(asked.map_err(refused)?.into_inner().routes, route::json))
        }
        Subject::Status => {
            let at_index = query.number("at", 1, u64::MAX)?.unwrap_or_default();
            let request = v1::StatusRequest { at_index, ..filtered(query) };
            let found = rpcs.status(request).await?;
            Ok(Box::new(move || to_text(&status::Json::of(&found))))
        }
        Subject::Tokens => {
            let asked = rpcs.cluster().list_tokens(v1::ListTokensRequest {}).await;
            Ok(list(asked.map_err(refused)?.into_inner().tokens, token::json))
        }
        Subject::Volumes => {
            let request = v1::ListVolumesRequest { deployment: of_deployment(), local_only: false };
            let asked = rpcs.volumes().list_volumes(request).await;
            Ok(list(asked.map_err(refused)?.into_inner().volumes, volume::json))
        }
    }
}

async fn allocations(rpcs: &Rpcs, query: &Query) -> Result<Render, Rejection> {
    let request = v1::AllocationsRequest {
        deployment: query.text("deployment"),
        service: query.text("service"),
        node: query.text("node"),
        with_removed: true,
    };
    let asked = rpcs.query().allocations(request).await;
    Ok(list(asked.map_err(refused)?.into_inner().allocations, allocation::json))
}

async fn deployments(rpcs: &Rpcs) -> Result<Render, Rejection> {
    let found = rpcs.status(scoped(v1::StatusScope::Deployments)).await?.deployments;
    let asked = rpcs.query().allocations(v1::AllocationsRequest::default()).await;
    let allocations = asked.map_err(refused)?.into_inner().allocations;
    let json = move |one: &_| deployment::with_allocations(one, &allocations);
    Ok(value(move || found.iter().map(json).collect()))
}

async fn stored(rpcs: &Rpcs, name: &str, query: &Query) -> Result<Render, Rejection> {
    let revision = query.number("revision", 1, u64::MAX)?.unwrap_or_default();
    let request =
        v1::GetDeploymentRequest { name: name.to_owned(), revision, ..Default::default() };
    let found = rpcs.query().get_deployment(request).await.map_err(refused)?.into_inner();
    Ok(Box::new(move || {
        let compose = serde_json::from_str(&found.compose_json).map_err(unreadable)?;
        to_text(&deployment::stored_json(&found, &compose))
    }))
}

fn unreadable(error: serde_json::Error) -> Rejection {
    let message =
        format!("the stored compose model is no JSON: {error}; `jaco doctor` examines the node");
    Rejection::new(ErrorCode::Internal, message)
}

/// The newest events, or those that follow one; the oldest of them first.
async fn events(rpcs: &Rpcs, query: &Query, now_ms: i64) -> Result<Render, Rejection> {
    let limit = query.number("limit", 1, EVENTS_MAX)?.unwrap_or(EVENTS);
    let after = query.event("after")?;
    let (after_index, after_number) = after.unwrap_or_default();
    let request = v1::AuditRequest {
        since_ms: query.moment("since", now_ms)?,
        until_ms: query.moment("until", now_ms)?,
        kinds: query.list("type"),
        deployment: query.text("deployment"),
        node: query.text("node"),
        after_index,
        after_number,
        last: if after.is_some() { 0 } else { u32::try_from(limit).unwrap_or(u32::MAX) },
        follow: false,
    };
    let mut parts = rpcs.query().audit(request).await.map_err(refused)?.into_inner();
    let mut events = Vec::new();
    while let Some(event) = parts.message().await.map_err(refused)? {
        events.push(event);
        if events.len() as u64 == limit {
            break;
        }
    }
    Ok(list(events, audit::json))
}

fn scoped(scope: v1::StatusScope) -> v1::StatusRequest {
    v1::StatusRequest { scope: scope.into(), ..v1::StatusRequest::default() }
}

fn filtered(query: &Query) -> v1::StatusRequest {
    v1::StatusRequest {
        deployment: query.text("deployment"),
        service: query.text("service"),
        ..v1::StatusRequest::default()
    }
}

fn list<T: Send + 'static>(items: Vec<T>, json: fn(&T) -> Value) -> Render {
    value(move || items.iter().map(json).collect())
}

fn value(make: impl FnOnce() -> Value + Send + 'static) -> Render {
    Box::new(move || to_text(&make()))
}

fn to_text(value: &impl Serialize) -> Result<Vec<u8>, Rejection> {
    let mut text = serde_json::to_vec(value)
        .map_err(|error| Rejection::new(ErrorCode::Internal, format!("no JSON: {error}")))?;
    text.push(b'\n');
    Ok(text)
}
