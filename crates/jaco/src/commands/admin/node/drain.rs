//! Starts, follows and cancels drains.

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    NodeInfo, SetAvailabilityRequest, StatusRequest, StatusResponse, StatusScope, WhatifRequest,
};
use jaco_types::{Availability, Drain, ErrorCode};
use serde_json::json;

use crate::deploy::whatif::whatif;
use crate::error::CliError;
use crate::format::quantity::count;
use crate::format::time;
use crate::session::wait::{Ended, Step, Wait, wait};
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// How long a drain may take.
#[derive(Debug, clap::Args)]
pub(super) struct Limits {
    /// Maximum time for the whole drain; then it is cancelled and the remaining replicas stay
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::duration)]
    timeout: Duration,
    /// Maximum time for the next replica to move; then the cluster cancels the drain
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    replica_timeout: Duration,
    /// Move the other replicas although some with data on the node must stay; those keep running there, and the node stays
    /// draining
    #[arg(long, conflicts_with = "replica_timeout")]
    leave_data: bool,
}

/// The question what a drain would move.
pub(super) fn request(nodes: Vec<String>) -> WhatifRequest {
    WhatifRequest { drain: nodes, ..WhatifRequest::default() }
}

/// Sets the availability of a node.
pub(super) async fn set(
    session: &mut Session,
    node: &str,
    availability: Availability,
) -> Result<(), CliError> {
    send(session, node, availability, Duration::ZERO).await
}

async fn send(
    session: &mut Session,
    node: &str,
    availability: Availability,
    replica_timeout: Duration,
) -> Result<(), CliError> {
    let request = SetAvailabilityRequest {
        hostname: node.to_owned(),
        availability: availability.as_str().to_owned(),
        request_id: fresh_request_id(),
        drain_timeout_ms: u64::try_from(replica_timeout.as_millis()).unwrap_or(u64::MAX),
    };
    session.client()?.set_availability(request).await?;
    Ok(())
}

/// Cancels drains. A node that is not draining stays as it is: one that was cordoned for another reason
/// must not get new replicas.
pub(super) async fn cancel(session: &mut Session, names: &[String]) -> CommandResult {
    let request = nodes_now();
    let status = session.client()?.read_status(request).await?;
    let (mut text, mut outcomes) = (String::new(), Vec::new());
    for name in names {
        let not_draining =
            find(&status, name).filter(|it| it.availability != Availability::Draining.as_str());
        let now = match not_draining {
            Some(node) => {
                text.push_str(&format!("{name} is not draining: {}\n", node.availability));
                node.availability.clone()
            }
            // The cluster refuses an unknown name, with a list of the known ones.
            None => {
                set(session, name, Availability::Active).await?;
                let now = Availability::Active.as_str();
                text.push_str(&format!("{name} {now}\n"));
                now.to_owned()
            }
        };
        outcomes.push(json!({ "node": name, "outcome": now }));
    }
    let json = if outcomes.len() == 1 { outcomes.remove(0) } else { json!(outcomes) };
    session.done(&Summary { json, text })
}

/// The nodes. Linearizable, so that a status from any node includes what was just told another one.
pub(super) fn nodes_now() -> StatusRequest {
    let scope = StatusScope::Nodes.into();
    StatusRequest { scope, linearizable: true, ..StatusRequest::default() }
}

/// A node to be drained.
struct DrainedNode<'n> {
    name: &'n str,
    /// Its availability before; `None` if another command was draining it.
    before: Option<Availability>,
}

/// Starts a drain, after listing the replicas that cannot move.
pub(super) async fn begin(
    session: &mut Session,
    names: &[String],
    limits: &Limits,
) -> Result<(), CliError> {
    prepare(session, names, limits).await.map(drop)
}

async fn prepare<'n>(
    session: &mut Session,
    names: &'n [String],
    limits: &Limits,
) -> Result<Vec<DrainedNode<'n>>, CliError> {
    let plan = whatif(session, request(names.to_vec())).await?;
    let bound: Vec<String> = plan.bound_by_data().collect();
    if !bound.is_empty() && !limits.leave_data {
        return Err(bound_by_data(names, bound));
    }
    for line in plan.pending() {
        session.ui.note(&line);
    }
    let request = nodes_now();
    let status = session.client()?.read_status(request).await?;
    let before = |name: &String| {
        let was = find(&status, name).map(|node| node.availability.clone());
        [Availability::Active, Availability::Cordoned]
            .into_iter()
            .find(|each| was.as_deref() == Some(each.as_str()))
    };
    let drained: Vec<_> =
        names.iter().map(|name| DrainedNode { name, before: before(name) }).collect();
    // Cordoned first, so that no replica moves from the first node to the second and then again.
    for node in drained.iter().skip(1).filter(|node| node.before == Some(Availability::Active)) {
        set(session, node.name, Availability::Cordoned).await?;
    }
    let timeout = match limits.leave_data {
        // What stays never leaves: no progress is no failure then.
        true => Duration::from_millis(Drain::WITHOUT_DATA.0),
        false => limits.replica_timeout,
    };
    for name in names {
        send(session, name, Availability::Draining, timeout).await?;
    }
    Ok(drained)
}

/// Refuses to begin what cannot end: data does not move, and its replicas stay where it is.
fn bound_by_data(names: &[String], because: Vec<String>) -> CliError {
    let nodes = names.join(" ");
    let mut help: Vec<String> = names
        .iter()
        .map(|name| format!("jaco disable --node {name} stops its replicas for maintenance, and keeps their data"))
        .collect();
    help.push(format!("jaco node drain {nodes} --leave-data moves the others"));
    CliError::Outcome {
        code: ErrorCode::CannotPlace,
        message: format!("{nodes} cannot be emptied, and nothing was changed"),
        because,
        help,
    }
}

/// How a drain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// No replicas and containers are left on the node but these, which their data keeps there.
    Empty(Vec<String>),
    /// The node was removed from the cluster.
    Removed(String),
    /// A user cancelled the drain.
    Cancelled(String),
    /// The cluster cancelled the drain; the reason.
    TimedOut(String),
}

impl End {
    /// What is left on an emptied node.
    fn left(self) -> Option<Vec<String>> {
        match self {
            Self::Empty(left) => Some(left),
            Self::Removed(_) | Self::Cancelled(_) | Self::TimedOut(_) => None,
        }
    }
}

/// Drains nodes and waits until they are empty, or have nothing left but what their data keeps there, where that is to be
/// left: the names of those replicas. At the timeout their availability is restored: remaining replicas stay and serve, and
/// moved ones are not moved back.
pub(super) async fn drain(
    session: &mut Session,
    names: &[String],
    limits: &Limits,
) -> Result<Vec<String>, CliError> {
    let drained = prepare(session, names, limits).await?;
    let request = nodes_now();
    let agreed = session.client()?.read_status(request).await?;
    let request = StatusRequest { min_index: agreed.raft_index, ..StatusRequest::default() };
    let lines = |status: &StatusResponse| names.iter().flat_map(|it| lines(status, it)).collect();
    let summary = |status: &StatusResponse| {
        let nodes = names.iter().filter_map(|name| find(status, name));
        nodes.map(remaining).collect::<Vec<_>>().join("; ")
    };
    let waiting = Wait { request, limit: Some(limits.timeout), lines: &lines, summary: &summary };
    let ended = wait(session, waiting, |status| {
        let mut ends = names.iter().filter_map(|name| end(status, name, limits));
        let first_failure = ends.clone().find(|end| !matches!(end, End::Empty(_)));
        if let Some(end) = first_failure {
            return Step::Done(end);
        }
        let left: Vec<Vec<String>> = ends.by_ref().filter_map(End::left).collect();
        match left.len() == names.len() {
            true => Step::Done(End::Empty(left.concat())),
            false => Step::Wait,
        }
    });
    match ended.await? {
        Ended::Reached(End::Empty(left)) => Ok(left),
        Ended::Reached(End::Removed(name)) => Err(CliError::Refused {
            code: ErrorCode::NodeNotFound,
            message: format!("{name} was removed by another user"),
            help: None,
        }),
        Ended::Reached(End::Cancelled(name)) => Err(CliError::Outcome {
            code: ErrorCode::CalledOff,
            message: format!("the drain of {name} was cancelled by another user"),
            because: Vec::new(),
            help: vec!["jaco audit shows who did it".to_owned()],
        }),
        Ended::Reached(End::TimedOut(reason)) => Err(CliError::Outcome {
            code: ErrorCode::TimedOut,
            message: reason,
            because: Vec::new(),
            help: vec![
                "the drain was cancelled and the remaining replicas stay; --replica-timeout waits longer"
                    .to_owned(),
            ],
        }),
        Ended::TimedOut(last) => {
            let because = last.as_ref().map(lines).unwrap_or_default();
            Err(CliError::Outcome {
                code: ErrorCode::TimedOut,
                message: format!(
                    "{} not empty after {}",
                    subject(names),
                    time::elapsed(limits.timeout)
                ),
                because,
                help: restore(session, &drained).await?,
            })
        }
        Ended::Interrupted => Err(CliError::Interrupted {
            message: format!("\nThe drain goes on in the cluster; {}.", how_to_cancel(names)),
        }),
    }
}

fn subject(names: &[String]) -> String {
    match names {
        [name] => format!("{name} is"),
        names => format!("{} are", names.join(", ")),
    }
}

fn how_to_cancel(names: &[String]) -> String {
    format!("jaco node drain {} --cancel cancels it", names.join(" "))
}

/// Restores the availability of the nodes; returns what was done.
async fn restore(
    session: &mut Session,
    drained: &[DrainedNode<'_>],
) -> Result<Vec<String>, CliError> {
    let mut help = Vec::new();
    for DrainedNode { name, before } in drained {
        match before {
            Some(before) => {
                set(session, name, *before).await?;
                let now = before.as_str();
                help.push(format!(
                    "the drain was cancelled: {name} is {now}, remaining replicas stay"
                ));
            }
            // Another command started this drain.
            None => {
                help.push("the drain goes on in the cluster".to_owned());
                help.push(how_to_cancel(&[(*name).to_owned()]));
            }
        }
    }
    Ok(help)
}

/// How the drain of a node ended; `None` while it is in progress.
fn end(status: &StatusResponse, name: &str, limits: &Limits) -> Option<End> {
    let Some(node) = find(status, name) else { return Some(End::Removed(name.to_owned())) };
    if node.availability == Availability::Draining.as_str() {
        let left = match limits.leave_data {
            true => kept_by_data(status, name),
            false => Vec::new(),
        };
        let is_empty = node.replicas as usize <= left.len() && node.stopping == 0;
        return is_empty.then_some(End::Empty(left));
    }
    Some(match node.availability_reason.as_str() {
        "" => End::Cancelled(name.to_owned()),
        reason => End::TimedOut(format!("{name}: {reason}")),
    })
}

/// The replicas that their data keeps on a node which is to be left.
fn kept_by_data(status: &StatusResponse, name: &str) -> Vec<String> {
    let services = status.deployments.iter().flat_map(|deployment| &deployment.services);
    let waits = services.flat_map(|service| &service.unplaced);
    let here = waits.filter(|one| {
        one.reason == "data_stays_on_node"
            && one.details.get("node").is_some_and(|node| node == name)
    });
    here.filter_map(|one| one.details.get("replica").cloned()).collect()
}

fn find<'s>(status: &'s StatusResponse, name: &str) -> Option<&'s NodeInfo> {
    status.nodes.iter().find(|node| node.hostname == name)
}

fn remaining(node: &NodeInfo) -> String {
    let replicas = count(node.replicas as usize, "replica");
    let stopping = match node.stopping {
        0 => String::new(),
        containers => {
            format!(", {} to stop and remove", count(containers as usize, "container"))
        }
    };
    format!("{}: {replicas} left{stopping}", node.hostname)
}

/// The number of remaining replicas, and those that are moving.
fn lines(status: &StatusResponse, name: &str) -> Vec<String> {
    let Some(node) = find(status, name) else { return Vec::new() };
    let mut lines = vec![remaining(node)];
    for replica in &status.replicas {
        let is_moving = replica.retiring.as_ref().is_some_and(|retiring| retiring.node == name);
        if is_moving {
            lines.push(format!("  {} moves to {}: {}", replica.id, replica.node, replica.state));
        } else if replica.node == name {
            lines.push(format!("  {} has not started to move", replica.id));
        }
    }
    lines
}
