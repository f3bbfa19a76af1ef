//! Waits until disabled replicas have stopped and enabled ones run.

use std::time::Duration;

use jaco_proto::v1::{AllocationRef, ReplicaInfo, StatusRequest, StatusResponse, StatusScope};
use jaco_types::ErrorCode;

use crate::error::CliError;
use crate::format::time;
use crate::session::Session;
use crate::session::wait::{Ended, Step, Wait, wait};
use crate::view::progress;

/// How long "cannot be placed" must last before it is reported: it also appears while a plan is computed.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// What is done with the allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Disable,
    Enable,
    /// Exactly the given ones are disabled, and all others enabled.
    Replace,
}

impl Change {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Enable => "enable",
            Self::Replace => "replace",
        }
    }
}

/// Waits for what was accepted. Replicas on nodes that are down are not waited for: nobody knows of them.
///
/// # Errors
/// If enabled replicas cannot be placed or fail, or the time is over; the change stands in any case.
pub(super) async fn wait_until_settled(
    session: &mut Session,
    change: Change,
    allocations: &[AllocationRef],
    limit: Duration,
) -> Result<(), CliError> {
    // Linearizable, so that a status from any node includes the change.
    let scope = StatusScope::Nodes.into();
    let request = StatusRequest { scope, linearizable: true, ..StatusRequest::default() };
    let agreed = session.client()?.read_status(request).await?;
    let request = StatusRequest { min_index: agreed.raft_index, ..StatusRequest::default() };
    let lines = |status: &StatusResponse| unsettled(status, change, allocations).1;
    let summary = |status: &StatusResponse| lines(status).join("; ");
    let waiting = Wait { request, limit: Some(limit), lines: &lines, summary: &summary };
    let ended = wait(session, waiting, |status| match unsettled(status, change, allocations) {
        (Settled::Yes, _) => Step::Done(Ok(())),
        (Settled::NotYet, _) => Step::Wait,
        (Settled::Stuck, lines) => Step::DoneAfter(STUCK_AFTER, Err(lines)),
    });
    match ended.await? {
        Ended::Reached(Ok(())) => Ok(()),
        Ended::Reached(Err(because)) => Err(CliError::Outcome {
            code: ErrorCode::CannotPlace,
            message: "not all of the enabled replicas can be placed".to_owned(),
            because,
            help: vec!["they stay enabled, and start as soon as a node is eligible".to_owned()],
        }),
        Ended::TimedOut(last) => Err(CliError::Outcome {
            code: ErrorCode::TimedOut,
            message: format!("not all replicas are there after {}", time::elapsed(limit)),
            because: last.as_ref().map(lines).unwrap_or_default(),
            help: vec!["the change stands; jaco status -w shows how it goes on".to_owned()],
        }),
        Ended::Interrupted => Err(CliError::Interrupted {
            message: "\nThe change stands; `jaco status -w` shows how it goes on.".to_owned(),
        }),
    }
}

/// Whether all that was asked for has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    Yes,
    NotYet,
    /// It waits for room on a node.
    Stuck,
}

/// Whether a status shows the end of the change, and a line for each replica that is not there.
fn unsettled(
    status: &StatusResponse,
    change: Change,
    allocations: &[AllocationRef],
) -> (Settled, Vec<String>) {
    let is_meant =
        |replica: &ReplicaInfo| allocations.iter().any(|allocation| matches(allocation, replica));
    let to_enable = |replica: &&ReplicaInfo| match change {
        Change::Disable => false,
        Change::Enable => is_meant(replica),
        Change::Replace => !is_meant(replica),
    };
    let to_disable = |replica: &&ReplicaInfo| match change {
        Change::Enable => false,
        Change::Disable | Change::Replace => is_meant(replica),
    };
    let replicas = || status.replicas.iter().filter(|it| it.state != "unknown");
    let off: Vec<&ReplicaInfo> = replicas().filter(to_disable).collect();
    let stopping =
        off.iter().filter(|replica| replica.code != "disabled" || is_stopping(status, replica));
    let starting: Vec<&ReplicaInfo> =
        replicas().filter(to_enable).filter(|replica| !is_there(replica)).collect();
    let mut lines: Vec<String> = stopping
        .map(|replica| format!("{} on {} has not stopped", replica.id, replica.node))
        .collect();
    let still_stops = !lines.is_empty();
    lines.extend(starting.iter().map(|replica| progress::replica_text(replica)));
    let waits_for_room = |replica: &&ReplicaInfo| {
        let mut services = status.deployments.iter().filter(|it| it.name == replica.deployment);
        let mut services = services.by_ref().flat_map(|it| &it.services);
        services.any(|service| service.name == replica.service && !service.unplaced.is_empty())
    };
    let settled = match (still_stops, starting.is_empty()) {
        (false, true) => Settled::Yes,
        (false, false) if starting.iter().all(waits_for_room) => Settled::Stuck,
        (_, _) => Settled::NotYet,
    };
    (settled, lines)
}

/// Whether its instance, or another container on its node, is still to stop.
fn is_stopping(status: &StatusResponse, replica: &ReplicaInfo) -> bool {
    let on_node = status.nodes.iter().find(|node| node.hostname == replica.node);
    !replica.terminating.is_empty() || on_node.is_some_and(|node| node.stopping > 0)
}

/// Whether an enabled replica needs nothing more: it runs, has completed, or is still disabled with something
/// else, such as its node.
fn is_there(replica: &ReplicaInfo) -> bool {
    match replica.state.as_str() {
        "running" | "stopping" | "failed" => true,
        "stopped" => replica.exited || replica.details.contains_key("disabled"),
        _ => false,
    }
}

/// Whether a replica is of an allocation.
fn matches(allocation: &AllocationRef, replica: &ReplicaInfo) -> bool {
    let AllocationRef { deployment, service, node, replica: named } = allocation;
    let is_named = |id: &str| {
        let prefix = format!("{}-{}-", replica.deployment, replica.service);
        id == named || id.strip_prefix(&prefix) == Some(named)
    };
    let any_or = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
    any_or(deployment, &replica.deployment)
        && any_or(service, &replica.service)
        && any_or(node, &replica.node)
        && (named.is_empty() || is_named(&replica.id))
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1::{DeploymentInfo, NodeInfo, ServiceInfo, UnplacedInfo};

    use super::*;

    fn replica(number: u32, node: &str, state: &str, code: &str) -> ReplicaInfo {
        ReplicaInfo {
            id: format!("shop-web-{number}"),
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            node: node.to_owned(),
            state: state.to_owned(),
            code: code.to_owned(),
            ..ReplicaInfo::default()
        }
    }

    fn status(replicas: &[ReplicaInfo], stopping: u32) -> StatusResponse {
        let node = |name: &str, stopping| NodeInfo {
            hostname: name.to_owned(),
            stopping,
            ..NodeInfo::default()
        };
        StatusResponse {
            replicas: replicas.to_vec(),
            nodes: vec![node("n1", 0), node("n2", stopping)],
            ..StatusResponse::default()
        }
    }

    fn on(node: &str) -> [AllocationRef; 1] {
        [AllocationRef { node: node.to_owned(), ..AllocationRef::default() }]
    }

    /// R-SEL-4: disabling has ended when the containers have stopped, not when it is accepted.
    #[test]
    fn disabling_ends_when_containers_have_stopped() {
        let settled = |replicas: &[ReplicaInfo], stopping| {
            unsettled(&status(replicas, stopping), Change::Disable, &on("n2")).0
        };
        let other = replica(0, "n1", "running", "");
        let accepted = replica(1, "n2", "running", "");
        assert_eq!(settled(&[other.clone(), accepted], 0), Settled::NotYet);
        let off = replica(1, "n2", "stopped", "disabled");
        assert_eq!(settled(&[other.clone(), off.clone()], 1), Settled::NotYet);
        assert_eq!(settled(&[other.clone(), off], 0), Settled::Yes);
        let lost = replica(1, "n2", "unknown", "node_down");
        assert_eq!(settled(&[other, lost], 0), Settled::Yes, "nobody knows");
    }

    /// R-SEL-4: enabling has ended when the replicas run; without room it says so.
    #[test]
    fn enabling_ends_when_replicas_run() {
        let web = AllocationRef {
            deployment: "shop".to_owned(),
            service: "web".to_owned(),
            replica: "1".to_owned(),
            ..AllocationRef::default()
        };
        let check = |status: &StatusResponse| {
            unsettled(status, Change::Enable, std::slice::from_ref(&web)).0
        };
        let other = replica(10, "n1", "pending", "");
        let of = |state, code| status(&[other.clone(), replica(1, "n2", state, code)], 0);
        assert_eq!(check(&of("stopped", "disabled")), Settled::NotYet);
        assert_eq!(check(&of("starting", "")), Settled::NotYet);
        assert_eq!(check(&of("running", "")), Settled::Yes);
        let mut full = of("pending", "");
        let unplaced = vec![UnplacedInfo { count: 1, ..UnplacedInfo::default() }];
        let service = ServiceInfo { name: "web".to_owned(), unplaced, ..ServiceInfo::default() };
        full.deployments = vec![DeploymentInfo {
            name: "shop".to_owned(),
            services: vec![service],
            ..DeploymentInfo::default()
        }];
        assert_eq!(check(&full), Settled::Stuck);
    }

    /// A file names all that is disabled: the rest is enabled.
    #[test]
    fn replacing_waits_for_both() {
        let check = |one: ReplicaInfo, two: ReplicaInfo| {
            unsettled(&status(&[one, two], 0), Change::Replace, &on("n2"))
        };
        let off = || replica(1, "n2", "stopped", "disabled");
        let (settled, lines) = check(replica(0, "n1", "starting", ""), off());
        assert_eq!(
            (settled, lines),
            (Settled::NotYet, vec!["shop-web-0 on n1: starting".to_owned()])
        );
        assert_eq!(check(replica(0, "n1", "running", ""), off()).0, Settled::Yes);
    }
}
