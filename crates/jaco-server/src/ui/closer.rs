//! Pages that look closer at one thing: log lines of a replica, the difference of two revisions, links between nodes.

use std::time::Duration;

use jaco_json::difference;
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};
use jaco_ui::{DifferencePage, LogsPage, NetworkPage};
use prost::Message as _;
use tonic::Response;
use tonic::codegen::http::StatusCode;
use tonic::codegen::http::request::Parts;

use super::origin::parameter;
use super::read::{Render, cluster, part, problem, with_cluster};
use crate::gateway::{Rpcs, refused};
use crate::status::invalid;

/// Log lines of each replica, unless the request says otherwise, and at most.
const TAIL: u32 = 200;
const TAIL_MAX: u32 = 1000;

/// Bytes of log lines on a page.
const LOG_BYTES_MAX: usize = 1 << 20;

/// How long log lines are waited for. Other nodes send theirs.
const LOG_TIME_MAX: Duration = Duration::from_secs(3);

/// The last log lines of a replica, or of all of a service or deployment.
pub(super) async fn logs(rpcs: &Rpcs, head: &Parts) -> Render {
    let (cluster, found) = tokio::join!(cluster(rpcs), read_logs(rpcs, head));
    with_cluster("Log lines", cluster, move |cluster, frame| match found {
        Err(rejection) => problem("Log lines".to_owned(), &rejection, Some(cluster), frame),
        Ok((request, lines, cut)) => {
            let v1::LogsRequest { deployment, service, replica, tail, .. } = request;
            let page = LogsPage { cluster, deployment, service, replica, tail, lines, cut };
            (StatusCode::OK, page.html(frame))
        }
    })
}

type Read = (v1::LogsRequest, Vec<v1::LogLine>, Option<String>);

async fn read_logs(rpcs: &Rpcs, head: &Parts) -> Result<Read, Rejection> {
    let request = logs_request(rpcs, head).await?;
    let mut parts = rpcs.query().logs(request.clone()).await.map_err(refused)?.into_inner();
    let (mut lines, mut bytes) = (Vec::new(), 0);
    let reading = async {
        while let Some(line) = parts.message().await.map_err(refused)? {
            bytes += line.encoded_len();
            if bytes > LOG_BYTES_MAX {
                let limit = LOG_BYTES_MAX >> 20;
                return Ok(Some(format!("there are more than {limit} MiB: ask for fewer lines")));
            }
            lines.push(line);
        }
        Ok(None)
    };
    let cut = match tokio::time::timeout(LOG_TIME_MAX, reading).await {
        Ok(cut) => cut?,
        Err(_) => {
            let limit = LOG_TIME_MAX.as_secs();
            Some(format!("not all nodes sent their lines within {limit} s"))
        }
    };
    lines.sort_by_key(|line| line.at_ms);
    Ok((request, lines, cut))
}

/// What a request asks for. A replica alone names its deployment and service.
pub(super) async fn logs_request(rpcs: &Rpcs, head: &Parts) -> Result<v1::LogsRequest, Rejection> {
    let text = |name| parameter(head, name).unwrap_or_default();
    let tail = number(head, "tail", u64::from(TAIL_MAX))?;
    let tail = tail.and_then(|tail| u32::try_from(tail).ok()).unwrap_or(TAIL);
    let (mut deployment, mut service, replica) =
        (text("deployment"), text("service"), text("replica"));
    if deployment.is_empty() && !replica.is_empty() {
        let replicas = rpcs.status(v1::StatusRequest::default()).await?.replicas;
        let found = replicas.into_iter().find(|it| it.id == replica).ok_or_else(|| {
            Rejection::new(ErrorCode::ReplicaNotFound, format!("there is no replica {replica}"))
        })?;
        (deployment, service) = (found.deployment, found.service);
    }
    let last = Some(tail);
    Ok(v1::LogsRequest { deployment, service, replica, tail, last, ..Default::default() })
}

/// What two revisions differ in: the current one and the one before it, unless the request names others.
pub(super) async fn difference(rpcs: &Rpcs, head: &Parts, name: &str) -> Render {
    let (cluster, compared) = tokio::join!(cluster(rpcs), compare(rpcs, head, name));
    let heading = format!("Revisions of {name}");
    with_cluster(heading.clone(), cluster, move |cluster, frame| match compared {
        Err(rejection) => problem(heading, &rejection, Some(cluster), frame),
        Ok(Compared { earlier, later, changes }) => {
            let page = DifferencePage {
                cluster,
                deployment: later.name,
                from: earlier.revision,
                to: later.revision,
                kept: later.revisions,
                changes,
            };
            (StatusCode::OK, page.html(frame))
        }
    })
}

struct Compared {
    earlier: v1::GetDeploymentResponse,
    later: v1::GetDeploymentResponse,
    changes: Vec<difference::Change>,
}

async fn compare(rpcs: &Rpcs, head: &Parts, name: &str) -> Result<Compared, Rejection> {
    let (from, to) = (number(head, "from", u64::MAX)?, number(head, "to", u64::MAX)?);
    let later = stored(rpcs, name, to.unwrap_or_default()).await?;
    let before = || later.revisions.iter().copied().filter(|it| *it < later.revision).max();
    let from = from.or_else(before).ok_or_else(|| {
        let message = format!("{name} keeps no revision before {}", later.revision);
        Rejection::new(ErrorCode::NoPreviousRevision, message)
    })?;
    let earlier = stored(rpcs, name, from).await?;
    let model = |stored| {
        difference::model(stored).map_err(|error| {
            let message = format!("the stored compose model of {name} cannot be read: {error}");
            Rejection::new(ErrorCode::Internal, message)
        })
    };
    let changes = difference::changes(&model(&earlier)?, &model(&later)?);
    Ok(Compared { earlier, later, changes })
}

async fn stored(
    rpcs: &Rpcs,
    name: &str,
    revision: u64,
) -> Result<v1::GetDeploymentResponse, Rejection> {
    let request =
        v1::GetDeploymentRequest { name: name.to_owned(), revision, ..Default::default() };
    rpcs.query().get_deployment(request).await.map(Response::into_inner).map_err(refused)
}

/// Which node reaches which.
pub(super) async fn network(rpcs: &Rpcs) -> Render {
    let examined = async { part(rpcs.query().examine_network(v1::ExamineNetworkRequest {})).await };
    let (cluster, examined) = tokio::join!(cluster(rpcs), examined);
    with_cluster("Network", cluster, move |cluster, frame| {
        (StatusCode::OK, NetworkPage { cluster, examined }.html(frame))
    })
}

/// A number from 1 on, if the request has it.
pub(super) fn number(head: &Parts, name: &str, most: u64) -> Result<Option<u64>, Rejection> {
    let Some(text) = parameter(head, name).filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    let wrong = || invalid(format!("{name} is {text:?}: give a number from 1 to {most}"));
    number.map(Some).ok_or_else(wrong)
}
