//! Emptying nodes: what would come of it, beginning it, waiting for its end.

use std::time::Duration;

use jaco_client::fresh_request_id;
use jaco_proto::v1::{
    NodeInfo, SetAvailabilityRequest, StatusRequest, StatusResponse, WhatifRequest,
};
use jaco_types::{Availability, ErrorCode};
use serde_json::json;

use super::super::whatif::{Answered, imagine};
use super::super::{Context, Done};
use crate::error::{CliError, count};
use crate::view::{Said, plan};
use crate::wait::{Ended, Step, Wait, wait};
use crate::when;

/// How long it may take.
#[derive(Debug, clap::Args)]
pub(super) struct Limits {
    /// How long all of it may take; after that it is called off, and what is still there stays
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = when::duration)]
    timeout: Duration,
    /// How long each next replica may take to leave; after that the cluster gives up by itself
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = when::duration)]
    replica_timeout: Duration,
}

/// Says what would move where, and what could not; changes nothing.
pub(super) async fn preview(context: &mut Context, nodes: Vec<String>) -> Done {
    let request = WhatifRequest { drain: nodes, ..WhatifRequest::default() };
    let preview = imagine(context, request).await?;
    context.done(&Answered(&preview))
}

/// Makes a node available, or takes it out of service.
pub(super) async fn set(
    context: &mut Context,
    node: &str,
    availability: Availability,
) -> Result<(), CliError> {
    send(context, node, availability, Duration::ZERO).await
}

async fn send(
    context: &mut Context,
    node: &str,
    availability: Availability,
    patience: Duration,
) -> Result<(), CliError> {
    let request = SetAvailabilityRequest {
        hostname: node.to_owned(),
        availability: availability.as_str().to_owned(),
        request_id: fresh_request_id(),
        drain_patience_ms: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
    };
    context.client()?.set_availability(request).await?;
    Ok(())
}

/// Calls drains off. A node that is not draining stays as it is: one that was cordoned for a reason of
/// its own does not get replicas by it.
pub(super) async fn cancel(context: &mut Context, names: &[String]) -> Done {
    let request = StatusRequest { linearizable: true, ..StatusRequest::default() };
    let status = context.client()?.overview(request).await?;
    let (mut text, mut outcomes) = (String::new(), Vec::new());
    for name in names {
        let idle =
            find(&status, name).filter(|it| it.availability != Availability::Draining.as_str());
        let now = match idle {
            Some(node) => {
                text.push_str(&format!("{name} is not being drained: {}\n", node.availability));
                node.availability.clone()
            }
            // A name that no node has is refused by the cluster, with the names there are.
            None => {
                set(context, name, Availability::Active).await?;
                let now = Availability::Active.as_str();
                text.push_str(&format!("{name} {now}\n"));
                now.to_owned()
            }
        };
        outcomes.push(json!({ "node": name, "outcome": now }));
    }
    let json = if outcomes.len() == 1 { outcomes.remove(0) } else { json!(outcomes) };
    context.done(&Said { json, text })
}

/// What was to be drained, and what it was before.
struct Drained<'n> {
    name: &'n str,
    /// `None` where somebody else was draining it before.
    before: Option<Availability>,
}

/// Names what cannot move, and begins.
pub(super) async fn begin(
    context: &mut Context,
    names: &[String],
    limits: &Limits,
) -> Result<(), CliError> {
    prepare(context, names, limits).await.map(drop)
}

async fn prepare<'n>(
    context: &mut Context,
    names: &'n [String],
    limits: &Limits,
) -> Result<Vec<Drained<'n>>, CliError> {
    let request = WhatifRequest { drain: names.to_vec(), ..WhatifRequest::default() };
    for line in plan::waits(&imagine(context, request).await?) {
        context.ui.note(&line);
    }
    let request = StatusRequest { linearizable: true, ..StatusRequest::default() };
    let status = context.client()?.overview(request).await?;
    let before = |name: &String| {
        let was = find(&status, name).map(|node| node.availability.clone());
        [Availability::Active, Availability::Cordoned]
            .into_iter()
            .find(|each| was.as_deref() == Some(each.as_str()))
    };
    let drained: Vec<_> = names.iter().map(|name| Drained { name, before: before(name) }).collect();
    // What leaves the first must not go to the second, and move again.
    for node in drained.iter().skip(1).filter(|node| node.before == Some(Availability::Active)) {
        set(context, node.name, Availability::Cordoned).await?;
    }
    for name in names {
        send(context, name, Availability::Draining, limits.replica_timeout).await?;
    }
    Ok(drained)
}

/// How a drain ends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    Empty,
    Gone(String),
    /// Somebody called the drain off.
    CalledOff(String),
    /// The cluster did, because too little happened.
    GivenUp(String),
}

/// Drains nodes and waits for it. What is not empty in time is what it was before: what is still on it
/// stays and serves, and what has moved is not moved back.
pub(super) async fn drain(
    context: &mut Context,
    names: &[String],
    limits: &Limits,
) -> Result<(), CliError> {
    let drained = prepare(context, names, limits).await?;
    // What was just agreed on must be in what is read, whichever node answers.
    let request = StatusRequest { linearizable: true, ..StatusRequest::default() };
    let agreed = context.client()?.overview(request).await?;
    let request = StatusRequest { min_index: agreed.raft_index, ..StatusRequest::default() };
    let lines = |status: &StatusResponse| names.iter().flat_map(|it| lines(status, it)).collect();
    let summary = |status: &StatusResponse| {
        let nodes = names.iter().filter_map(|name| find(status, name));
        nodes.map(what_is_left).collect::<Vec<_>>().join("; ")
    };
    let waiting = Wait { request, limit: Some(limits.timeout), lines: &lines, summary: &summary };
    let ended = wait(context, waiting, |status| {
        let mut ends = names.iter().filter_map(|name| end(status, name));
        let first_that_fails = ends.clone().find(|end| *end != End::Empty);
        match first_that_fails {
            Some(end) => Step::Done(end),
            None if ends.by_ref().count() == names.len() => Step::Done(End::Empty),
            None => Step::Wait,
        }
    });
    match ended.await? {
        Ended::Reached(End::Empty) => Ok(()),
        Ended::Reached(End::Gone(name)) => Err(CliError::Refused {
            code: ErrorCode::NodeNotFound,
            message: format!("{name} was removed by somebody else"),
            help: None,
        }),
        Ended::Reached(End::CalledOff(name)) => Err(CliError::Outcome {
            code: ErrorCode::CalledOff,
            message: format!("the drain of {name} was called off by somebody else"),
            because: Vec::new(),
            help: vec!["jaco audit shows by whom".to_owned()],
        }),
        Ended::Reached(End::GivenUp(reason)) => Err(CliError::Outcome {
            code: ErrorCode::TimedOut,
            message: reason,
            because: Vec::new(),
            help: vec![
                "the drain was given up, what is still there stays; --replica-timeout waits longer"
                    .to_owned(),
            ],
        }),
        Ended::TimedOut(last) => {
            let because = last.as_ref().map(lines).unwrap_or_default();
            Err(CliError::Outcome {
                code: ErrorCode::TimedOut,
                message: format!(
                    "{} not empty after {}",
                    are(names),
                    when::elapsed(limits.timeout)
                ),
                because,
                help: call_off(context, &drained).await?,
            })
        }
        Ended::Interrupted => Err(CliError::Interrupted {
            message: format!("\nThe drain goes on in the cluster; {}.", how_to_cancel(names)),
        }),
    }
}

fn are(names: &[String]) -> String {
    match names {
        [name] => format!("{name} is"),
        names => format!("{} are", names.join(", ")),
    }
}

fn how_to_cancel(names: &[String]) -> String {
    format!("jaco node drain {} --cancel calls it off", names.join(" "))
}

/// Makes the nodes what they were; says what was done.
async fn call_off(context: &mut Context, drained: &[Drained<'_>]) -> Result<Vec<String>, CliError> {
    let mut help = Vec::new();
    for Drained { name, before } in drained {
        match before {
            Some(before) => {
                set(context, name, *before).await?;
                let now = before.as_str();
                help.push(format!(
                    "the drain was called off: {name} is {now}, what is on it stays"
                ));
            }
            // Somebody else was draining it before.
            None => {
                help.push("the drain goes on in the cluster".to_owned());
                help.push(how_to_cancel(&[(*name).to_owned()]));
            }
        }
    }
    Ok(help)
}

/// How the drain of a node ended; `None` while it goes on.
fn end(status: &StatusResponse, name: &str) -> Option<End> {
    let Some(node) = find(status, name) else { return Some(End::Gone(name.to_owned())) };
    if node.availability == Availability::Draining.as_str() {
        return (node.replicas == 0 && node.ending == 0).then_some(End::Empty);
    }
    Some(match node.availability_reason.as_str() {
        "" => End::CalledOff(name.to_owned()),
        reason => End::GivenUp(format!("{name}: {reason}")),
    })
}

fn find<'s>(status: &'s StatusResponse, name: &str) -> Option<&'s NodeInfo> {
    status.nodes.iter().find(|node| node.hostname == name)
}

fn what_is_left(node: &NodeInfo) -> String {
    let replicas = count(node.replicas as usize, "replica");
    let ending = match node.ending {
        0 => String::new(),
        ending => format!(", {} to stop and remove", count(ending as usize, "container")),
    };
    format!("{}: {replicas} left{ending}", node.hostname)
}

/// How many are left, and who is on the way.
fn lines(status: &StatusResponse, name: &str) -> Vec<String> {
    let Some(node) = find(status, name) else { return Vec::new() };
    let mut lines = vec![what_is_left(node)];
    for replica in &status.replicas {
        let leaving = replica.retiring.as_ref().is_some_and(|retiring| retiring.node == name);
        if leaving {
            lines.push(format!("  {} moves to {}: {}", replica.id, replica.node, replica.state));
        } else if replica.node == name {
            lines.push(format!("  {} waits", replica.id));
        }
    }
    lines
}
