//! Pages of an earlier moment: the status at an index, and the events around it.

use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use jaco_ui::{Around, DeploymentPage, NodeThenPage, OverviewPage, Part};
use tonic::codegen::http::StatusCode;
use tonic::codegen::http::request::Parts;

use super::origin::parameter;
use super::read::{Render, cluster, events, in_words, part, problem, with_cluster};
use crate::gateway::{Rpcs, refused};
use crate::status::invalid;

/// How many events are shown up to the moment, unless it wrote more, and how many after it.
const EVENTS: usize = 8;

/// The index that a request names, if it names one.
///
/// # Errors
/// `invalid_request` if it is none.
pub(super) fn index(head: &Parts) -> Result<Option<u64>, Rejection> {
    let Some(text) = parameter(head, "at").filter(|text| !text.is_empty()) else { return Ok(None) };
    let index = text.parse().ok().filter(|index| *index > 0);
    let wrong = || {
        invalid(format!("at is {text:?}: it is an index of the log from 1 on, for example at=120"))
    };
    index.map(Some).ok_or_else(wrong)
}

/// The overview as it was.
pub(super) async fn overview(rpcs: &Rpcs, find: String, index: u64) -> Render {
    let (cluster, (status, routes), around) =
        tokio::join!(cluster(rpcs), as_it_was(rpcs, "", index), around(rpcs, Whose::All, index));
    with_cluster("Overview", cluster, move |cluster, frame| {
        let status = match status {
            Ok(status) => status,
            Err(rejection) => {
                return problem("Overview".to_owned(), &rejection, Some(cluster), frame);
            }
        };
        let page = OverviewPage {
            cluster,
            status: Ok(status),
            routes,
            voters: Ok(Vec::new()),
            backups: Ok(Vec::new()),
            find,
            around: Some(around),
        };
        (StatusCode::OK, page.html(frame))
    })
}

/// A deployment as it was.
pub(super) async fn deployment(rpcs: &Rpcs, name: &str, index: u64) -> Render {
    let whose = Whose::Deployment(name);
    let (cluster, (status, routes), around) =
        tokio::join!(cluster(rpcs), as_it_was(rpcs, name, index), around(rpcs, whose, index));
    let heading = format!("Deployment {name}");
    let name = name.to_owned();
    with_cluster(heading.clone(), cluster, move |cluster, frame| {
        let status = match status {
            Ok(status) => status,
            Err(rejection) => return problem(heading, &rejection, Some(cluster), frame),
        };
        let found = status.deployments.iter().find(|it| it.name == name);
        let Some(deployment) = found else {
            let message = format!("there was no deployment {name} at index {index}");
            let missing = Rejection::new(ErrorCode::DeploymentNotFound, message);
            return problem(heading, &missing, Some(cluster), frame);
        };
        let page = DeploymentPage {
            cluster,
            deployment,
            status: &status,
            history: Ok(v1::HistoryResponse::default()),
            routes,
            around: Some(around),
        };
        (StatusCode::OK, page.html(frame))
    })
}

/// A node as it was, and what it ran.
pub(super) async fn node(rpcs: &Rpcs, name: &str, index: u64) -> Render {
    let whose = Whose::Node(name);
    let (cluster, status, around) =
        tokio::join!(cluster(rpcs), status(rpcs, "", index), around(rpcs, whose, index));
    let heading = format!("Node {name}");
    let name = name.to_owned();
    with_cluster(heading.clone(), cluster, move |cluster, frame| {
        let status = match status {
            Ok(status) => status,
            Err(rejection) => return problem(heading, &rejection, Some(cluster), frame),
        };
        let page = NodeThenPage { cluster, name: &name, status: &status, around };
        match page.html(frame) {
            Some(html) => (StatusCode::OK, html),
            None => {
                let message = format!("there was no node {name} at index {index}");
                let missing = Rejection::new(ErrorCode::NodeNotFound, message);
                problem(heading, &missing, Some(cluster), frame)
            }
        }
    })
}

/// The status and the routes, one after the other: a node makes one state again at a time, and keeps it for the second question.
async fn as_it_was(
    rpcs: &Rpcs,
    deployment: &str,
    index: u64,
) -> (Result<v1::StatusResponse, Rejection>, Part<Vec<v1::RouteInfo>>) {
    let status = status(rpcs, deployment, index).await;
    if status.is_err() {
        return (status, Ok(Vec::new()));
    }
    let request = v1::ListRoutesRequest { deployment: deployment.to_owned(), at_index: index };
    let routes = part(rpcs.cluster().list_routes(request)).await.map(|found| found.routes);
    (status, routes)
}

async fn status(
    rpcs: &Rpcs,
    deployment: &str,
    index: u64,
) -> Result<v1::StatusResponse, Rejection> {
    let request = v1::StatusRequest {
        deployment: deployment.to_owned(),
        at_index: index,
        ..v1::StatusRequest::default()
    };
    rpcs.status(request).await
}

/// Whose events are shown.
enum Whose<'n> {
    All,
    Deployment(&'n str),
    Node(&'n str),
}

/// The events around an index.
async fn around(rpcs: &Rpcs, whose: Whose<'_>, index: u64) -> Around {
    let (deployment, node) = match whose {
        Whose::All => ("", ""),
        Whose::Deployment(name) => (name, ""),
        Whose::Node(name) => ("", name),
    };
    let (deployment, node) = (deployment.to_owned(), node.to_owned());
    let request = v1::AuditRequest { deployment, node, ..v1::AuditRequest::default() };
    let before = format!("{}/0", index.saturating_add(1));
    let upto = events(rpcs, request.clone(), &before).await;
    let upto = upto.map(|mut events| {
        // One entry may have written more: the event before it is kept as well.
        let before = events.iter().position(|event| event.index < index);
        events.truncate(before.map_or(EVENTS, |place| EVENTS.max(place + 1)));
        events
    });
    Around {
        upto: upto.map_err(|rejection| in_words(&rejection)),
        later: later(rpcs, request, index).await,
    }
}

async fn later(rpcs: &Rpcs, request: v1::AuditRequest, index: u64) -> Part<Vec<v1::AuditEvent>> {
    let request = v1::AuditRequest { after_index: index, after_number: u32::MAX, ..request };
    let read = async {
        let mut parts = rpcs.query().audit(request).await?.into_inner();
        let mut found = Vec::new();
        while let Some(event) = parts.message().await? {
            if event.gap.is_none() {
                found.push(event);
            }
            if found.len() == EVENTS {
                break;
            }
        }
        Ok(found)
    };
    read.await.map_err(|status| in_words(&refused(status)))
}
