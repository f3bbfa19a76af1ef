//! What each page is made of: which rpcs it asks, and what of them it does without.
//!
//! A part that is refused or late is missing on the page, which says so; a page is refused only where its subject is.

use std::future::Future;
use std::time::Duration;

use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use jaco_ui::{
    AuditPage, DeploymentPage, Frame, NodePage, OverviewPage, Part, ProblemPage, Question, Refused,
    WhyPage,
};
use tonic::codegen::http::StatusCode;
use tonic::codegen::http::request::Parts;
use tonic::{Response, Status};

use super::origin::parameter;
use crate::gateway::{self, Rpcs, refused};

/// How long a page waits for a part of it. What only the leader knows is late where there is none.
const PART_TIME_MAX: Duration = Duration::from_secs(3);

/// Events on a page.
const EVENTS: usize = 50;

/// How many indices before an event are searched for those before it, at first; four times as many each time that is not
/// enough.
const WINDOW: u64 = 64;

/// Makes a document of what was read, and says what its status is.
pub(super) type Render = Box<dyn FnOnce(&Frame) -> (StatusCode, String) + Send>;

pub(super) async fn overview(rpcs: &Rpcs, find: String) -> Render {
    let (cluster, status, routes, voters, backups) = tokio::join!(
        cluster(rpcs),
        status(rpcs, ""),
        routes(rpcs, ""),
        voters(rpcs),
        backups(rpcs)
    );
    with_cluster("Overview", cluster, move |cluster, frame| {
        let page = OverviewPage { cluster, status, routes, voters, backups, find, around: None };
        (StatusCode::OK, page.html(frame))
    })
}

pub(super) async fn deployment(rpcs: &Rpcs, name: &str) -> Render {
    let history = async {
        let request = v1::HistoryRequest { deployment: name.to_owned() };
        part(rpcs.query().history(request)).await
    };
    let (cluster, status, history, routes) =
        tokio::join!(cluster(rpcs), status(rpcs, name), history, routes(rpcs, name));
    let heading = format!("Deployment {name}");
    let name = name.to_owned();
    with_cluster(heading.clone(), cluster, move |cluster, frame| {
        let status = match status {
            Ok(status) => status,
            Err(refused) => return page_of(heading, refused, cluster, frame),
        };
        let found = status.deployments.iter().find(|it| it.name == name);
        let Some(deployment) = found else {
            let message = format!("{} knows no deployment {name}", cluster.answered_by);
            let missing = Rejection::new(ErrorCode::DeploymentNotFound, message);
            return problem(heading, &missing, Some(cluster), frame);
        };
        let page =
            DeploymentPage { cluster, deployment, status: &status, history, routes, around: None };
        (StatusCode::OK, page.html(frame))
    })
}

pub(super) async fn node(rpcs: &Rpcs, name: &str) -> Render {
    let facts = async {
        let request = v1::NodeFactsRequest { hostname: name.to_owned() };
        let found = part(rpcs.query().node_facts(request)).await;
        found.map(|found| found.nodes.into_iter().find(|node| node.hostname == name))
    };
    let top = async { part(rpcs.planner().top(v1::TopRequest {})).await };
    let (cluster, status, facts, top, voters) =
        tokio::join!(cluster(rpcs), status(rpcs, ""), facts, top, voters(rpcs));
    let heading = format!("Node {name}");
    let name = name.to_owned();
    with_cluster(heading.clone(), cluster, move |cluster, frame| {
        let replicas = status.map(|status| status.replicas);
        let page = NodePage { cluster, name: &name, replicas, facts, top, voters };
        match page.html(frame) {
            Some(html) => (StatusCode::OK, html),
            None => {
                let message = format!("{} knows no node {name}", cluster.answered_by);
                let missing = Rejection::new(ErrorCode::NodeNotFound, message);
                problem(heading, &missing, Some(cluster), frame)
            }
        }
    })
}

pub(super) async fn why(rpcs: &Rpcs, head: &Parts) -> Render {
    let text = |name| parameter(head, name).unwrap_or_default();
    let question = Question {
        deployment: text("deployment"),
        service: text("service"),
        replica: text("replica"),
    };
    let answer = async {
        let Question { deployment, service, replica } = question.clone();
        if replica.is_empty() && service.is_empty() && deployment.is_empty() {
            return None;
        }
        let request = v1::ExplainRequest { deployment, service, replica };
        Some(part(rpcs.planner().explain(request)).await)
    };
    let (cluster, answer) = tokio::join!(cluster(rpcs), answer);
    with_cluster("Why", cluster, move |cluster, frame| {
        let page = WhyPage { cluster, question, answer };
        (StatusCode::OK, page.html(frame))
    })
}

pub(super) async fn audit(rpcs: &Rpcs, head: &Parts) -> Render {
    let text = |name| parameter(head, name).unwrap_or_default();
    let (deployment, node, kind) = (text("deployment"), text("node"), text("type"));
    let before = text("before");
    let request = v1::AuditRequest {
        deployment: deployment.clone(),
        node: node.clone(),
        // As they are shown, and as commands call them.
        kinds: match kind.replace(' ', "_") {
            kind if kind.is_empty() => Vec::new(),
            kind => vec![kind],
        },
        ..v1::AuditRequest::default()
    };
    let (cluster, events) = tokio::join!(cluster(rpcs), events(rpcs, request, &before));
    with_cluster("Audit events", cluster, move |cluster, frame| {
        let mut events = events.map_err(|rejection| in_words(&rejection));
        let older = match &mut events {
            Ok(events) if events.len() > EVENTS => {
                events.truncate(EVENTS);
                events.last().map(|last| jaco_json::audit::place(last.index, last.number))
            }
            _ => None,
        };
        let older = older.unwrap_or_default();
        let page = AuditPage { cluster, events, before, older, deployment, node, kind };
        (StatusCode::OK, page.html(frame))
    })
}

/// The newest events before one, or of all; one more than a page has, if there are so many. The newest one first.
pub(super) async fn events(
    rpcs: &Rpcs,
    request: v1::AuditRequest,
    before: &str,
) -> Result<Vec<v1::AuditEvent>, Rejection> {
    if before.is_empty() {
        let last = u32::try_from(EVENTS + 1).unwrap_or(u32::MAX);
        return newest(rpcs, v1::AuditRequest { last, ..request }, None).await;
    }
    let cursor = before.split_once('/').and_then(|(index, number)| {
        Some((index.parse::<u64>().ok()?, number.parse::<u32>().ok()?))
    });
    let cursor = cursor.ok_or_else(|| {
        let message =
            format!("before is {before:?}: it is index and number of an event, for example 120/0");
        Rejection::new(ErrorCode::InvalidRequest, message)
    })?;
    let mut window = WINDOW;
    loop {
        let after_index = cursor.0.saturating_sub(window);
        let after_number = if after_index == 0 { 0 } else { u32::MAX };
        let request = v1::AuditRequest { after_index, after_number, ..request.clone() };
        let found = newest(rpcs, request, Some(cursor)).await?;
        if found.len() > EVENTS || after_index == 0 {
            return Ok(found);
        }
        window = window.saturating_mul(4);
    }
}

/// The last events of a stream before this one, the newest first.
async fn newest(
    rpcs: &Rpcs,
    request: v1::AuditRequest,
    before: Option<(u64, u32)>,
) -> Result<Vec<v1::AuditEvent>, Rejection> {
    let mut parts = rpcs.query().audit(request).await.map_err(refused)?.into_inner();
    let mut found = std::collections::VecDeque::new();
    while let Some(event) = parts.message().await.map_err(refused)? {
        if before.is_some_and(|before| (event.index, event.number) >= before) {
            break;
        }
        if event.gap.is_some() {
            continue;
        }
        found.push_front(event);
        found.truncate(EVENTS + 1);
    }
    Ok(found.into())
}

pub(super) async fn cluster(rpcs: &Rpcs) -> Result<v1::ClusterStatusResponse, Rejection> {
    let asked = rpcs.cluster().status(v1::ClusterStatusRequest {}).await;
    asked.map(Response::into_inner).map_err(refused)
}

pub(super) async fn status(rpcs: &Rpcs, deployment: &str) -> Part<v1::StatusResponse> {
    let deployment = deployment.to_owned();
    let request = v1::StatusRequest { deployment, ..v1::StatusRequest::default() };
    rpcs.status(request).await.map_err(|rejection| in_words(&rejection))
}

async fn routes(rpcs: &Rpcs, deployment: &str) -> Part<Vec<v1::RouteInfo>> {
    let deployment = deployment.to_owned();
    let request = v1::ListRoutesRequest { deployment, ..v1::ListRoutesRequest::default() };
    part(rpcs.cluster().list_routes(request)).await.map(|found| found.routes)
}

async fn backups(rpcs: &Rpcs) -> Part<Vec<v1::BackupScheduleInfo>> {
    let request = v1::ListBackupSchedulesRequest::default();
    part(rpcs.cluster().list_backup_schedules(request)).await.map(|found| found.schedules)
}

/// How far the voters are, by the leader of the newest term.
async fn voters(rpcs: &Rpcs) -> Part<Vec<v1::VoterProgress>> {
    let request = v1::ExamineRequest { scope: "leader".to_owned() };
    let nodes = part(rpcs.query().examine(request)).await?.nodes;
    let silent = nodes.iter().find(|node| !node.unreachable.is_empty());
    if let Some(silent) = silent {
        let message = format!("{} did not answer: {}", silent.node, silent.unreachable);
        return Err(in_words(&Rejection::new(ErrorCode::Unavailable, message)));
    }
    let newest = nodes.into_iter().max_by_key(|node| node.term);
    newest.map(|leader| leader.voters).ok_or_else(|| {
        in_words(&Rejection::new(ErrorCode::NoLeader, "there is no leader that could say it"))
    })
}

/// A part of a page, or why it is missing.
pub(super) async fn part<T>(asked: impl Future<Output = Result<Response<T>, Status>>) -> Part<T> {
    match tokio::time::timeout(PART_TIME_MAX, asked).await {
        Ok(Ok(found)) => Ok(found.into_inner()),
        Ok(Err(status)) => Err(in_words(&refused(status))),
        Err(_) => {
            let message = format!("no answer came within {} s", PART_TIME_MAX.as_secs());
            Err(in_words(&Rejection::new(ErrorCode::TimedOut, message)))
        }
    }
}

pub(super) fn in_words(rejection: &Rejection) -> Refused {
    Refused { code: rejection.code.as_str().to_owned(), message: rejection.message.clone() }
}

/// A page about a cluster that this node knows something of.
pub(super) fn with_cluster(
    heading: impl Into<String>,
    cluster: Result<v1::ClusterStatusResponse, Rejection>,
    page: impl FnOnce(&v1::ClusterStatusResponse, &Frame) -> (StatusCode, String) + Send + 'static,
) -> Render {
    let heading = heading.into();
    Box::new(move |frame| match cluster {
        Ok(cluster) => page(&cluster, frame),
        Err(rejection) => problem(heading, &rejection, None, frame),
    })
}

pub(super) fn problem(
    heading: String,
    rejection: &Rejection,
    cluster: Option<&v1::ClusterStatusResponse>,
    frame: &Frame,
) -> (StatusCode, String) {
    let page = ProblemPage { heading, refused: in_words(rejection), cluster };
    (gateway::status(rejection), page.html(frame))
}

/// A page whose subject could not be had.
fn page_of(
    heading: String,
    refused: Refused,
    cluster: &v1::ClusterStatusResponse,
    frame: &Frame,
) -> (StatusCode, String) {
    let page = ProblemPage { heading, refused, cluster: Some(cluster) };
    (StatusCode::SERVICE_UNAVAILABLE, page.html(frame))
}
