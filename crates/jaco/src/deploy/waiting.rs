//! Waits until a condition holds for deployments and services, and explains why it does not.

use std::collections::BTreeSet;
use std::time::Duration;

use jaco_proto::v1::{StatusRequest, StatusResponse};
use jaco_types::ErrorCode;

use super::condition::{self, Condition, Target, Unfit, covers};
use super::converge::{causes, explain};
use super::verdict::{Failure, Verdict};
use crate::error::CliError;
use crate::format::time;
use crate::session::Session;
use crate::session::wait::{Ended, Step, Wait, wait};
use crate::view::progress;

/// How long a verdict that may pass must last: it also appears while a plan is computed.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Waits until the condition holds for all targets at the same time. Returns the status that shows it.
///
/// # Errors
/// If a target does not exist, cannot meet the condition without another change, or does not in time.
pub(crate) async fn wait_for(
    session: &mut Session,
    targets: &[Target],
    condition: Condition,
    limit: Duration,
) -> Result<StatusResponse, CliError> {
    let asked = request(targets);
    // Linearizable, so that any node knows what another one has just been told.
    let first = StatusRequest { linearizable: true, ..asked.clone() };
    let known = session.client()?.read_status(first).await?;
    for target in targets {
        condition::check(&known, target, condition)
            .map_err(|unfit| refusal(&known, target, unfit))?;
    }
    let wanted = format!("waiting for {} {}", listed(targets), condition.as_infinitive());
    let limit_text = time::elapsed(limit);
    session.ui.note(&format!("{wanted}, at most {limit_text}"));
    let lines = |status: &StatusResponse| lines(status, targets, condition);
    let waiting = Wait {
        request: StatusRequest { min_index: known.raft_index, ..asked },
        limit: Some(limit),
        lines: &lines,
        summary: &|status| causes(lines(status)).join("; "),
    };
    let ended = wait(session, waiting, |status| {
        let verdicts = targets.iter().map(|target| condition::verdict(status, target, condition));
        match condition::worst(verdicts) {
            Verdict::Converged => Step::Done(Ok(status.clone())),
            Verdict::Settling => Step::DoneAfter(SETTLED_AFTER, Ok(status.clone())),
            Verdict::InProgress => Step::Wait,
            Verdict::Failed(Failure::Stuck) => {
                Step::DoneAfter(SETTLED_AFTER, Err((Failure::Stuck, status.clone())))
            }
            Verdict::Failed(failure) => Step::Done(Err((failure, status.clone()))),
        }
    });
    match ended.await? {
        Ended::Reached(Ok(status)) => Ok(status),
        Ended::Reached(Err((failure, status))) => Err(failed(&status, targets, condition, failure)),
        Ended::TimedOut(last) => Err(CliError::Outcome {
            code: ErrorCode::TimedOut,
            message: format!("{wanted} ended after {limit_text}"),
            because: last.as_ref().map(|status| causes(lines(status))).unwrap_or_default(),
            help: vec!["nothing was changed; jaco status -w shows how it goes on".to_owned()],
        }),
        Ended::Interrupted => {
            Err(CliError::Interrupted { message: "\nNothing was changed.".to_owned() })
        }
    }
}

/// Of one deployment or service, if all targets are in it; else of all.
fn request(targets: &[Target]) -> StatusRequest {
    let (first, others) = targets.split_first().expect("a command line names a target");
    let is_of_one = others.iter().all(|target| target.deployment == first.deployment);
    let deployment = if is_of_one { first.deployment.clone() } else { String::new() };
    StatusRequest { deployment, ..StatusRequest::default() }
}

/// `shop, blog/web and blog/db`
fn listed(targets: &[Target]) -> String {
    let names: Vec<String> = targets.iter().map(Target::to_string).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        Some(_) | None => names.concat(),
    }
}

fn refusal(status: &StatusResponse, target: &Target, unfit: Unfit) -> CliError {
    let Target { deployment, service } = target;
    let (code, message, help) = match unfit {
        Unfit::NoDeployment => (
            ErrorCode::DeploymentNotFound,
            format!("there is no deployment {deployment}"),
            "jaco get deployments lists the deployments".to_owned(),
        ),
        Unfit::NoService => {
            let known = status.deployments.iter().find(|known| known.name == *deployment);
            let services = known.map(|known| known.services.iter().map(|it| it.name.as_str()));
            let services: Vec<&str> = services.into_iter().flatten().collect();
            (
                ErrorCode::ServiceNotFound,
                format!("{deployment} has no service {}", service.as_deref().unwrap_or_default()),
                format!("its services are {}", services.join(", ")),
            )
        }
        Unfit::NoJob => (
            ErrorCode::InvalidRequest,
            format!("{target} has no job: an end of its containers is a failure"),
            "--for converged or --for healthy waits for what serves".to_owned(),
        ),
    };
    CliError::Refused { code, message, help: Some(help) }
}

/// The error of the first target that fails.
fn failed(
    status: &StatusResponse,
    targets: &[Target],
    condition: Condition,
    failure: Failure,
) -> CliError {
    let fails = |target: &&Target| {
        condition::verdict(status, target, condition) == Verdict::Failed(failure)
    };
    let target = targets.iter().find(fails).expect("the verdict is that of one of them");
    let found = status.deployments.iter().find(|found| found.name == target.deployment);
    let revision = found.map_or(0, |found| found.revision);
    let because = causes(lines(status, std::slice::from_ref(target), condition));
    explain(failure, (&target.deployment, revision), because, status)
}

/// The progress of all targets: as `jaco apply` shows it, with the name of the deployment; of what is to go, what is left.
fn lines(status: &StatusResponse, targets: &[Target], condition: Condition) -> Vec<String> {
    let mut lines = Vec::new();
    for target in targets {
        match condition {
            Condition::Gone => lines.extend(left(status, target)),
            Condition::Converged | Condition::Completed | Condition::Healthy => {
                lines.extend(progress::lines_of(
                    status,
                    &target.deployment,
                    target.service.as_deref(),
                ));
            }
        }
    }
    lines.extend(status.staleness.as_ref().map(|staleness| staleness.reason.clone()));
    // A service may be named beside its deployment.
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
}

/// What is left of a target.
fn left(status: &StatusResponse, target: &Target) -> Vec<String> {
    let found = status.deployments.iter().find(|found| found.name == target.deployment);
    let is_desired = found.is_some_and(|found| {
        let service = target.service.as_ref();
        service.is_none_or(|name| found.services.iter().any(|service| service.name == *name))
    });
    let desired = is_desired.then(|| format!("{target} is desired, nobody has removed it"));
    let replicas = status.replicas.iter().filter(|replica| covers(target, replica));
    desired.into_iter().chain(replicas.map(progress::replica_text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_waited_for_is_watched() {
        let asked = |names: &[&str]| {
            let targets: Vec<Target> = names.iter().map(|name| Target::parse(name)).collect();
            request(&targets).deployment
        };
        assert_eq!(asked(&["shop"]), "shop");
        assert_eq!(asked(&["shop/web", "shop/db"]), "shop");
        assert_eq!(asked(&["shop/web", "blog"]), "");
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        let list = |names: &[&str]| {
            listed(&names.iter().map(|name| Target::parse(name)).collect::<Vec<_>>())
        };
        assert_eq!(list(&["shop"]), "shop");
        assert_eq!(list(&["shop", "blog/web"]), "shop and blog/web");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
    }
}
