//! `jaco scale`

use std::time::Duration;

use jaco_compose::scale;
use jaco_proto::v1::{DeploymentInfo, GetDeploymentResponse, StatusRequest, StatusScope};
use jaco_types::ErrorCode;
use serde_json::Value;

use crate::deploy::{After, reapply};
use crate::error::CliError;
use crate::format::time;
use crate::session::{CommandResult, Session};

/// Set the number of replicas of a service
///
/// Applies the stored spec with the new number as a new revision. The next `jaco apply` of the files
/// sets the number in the files again. After a rollout was rolled back, that is the spec which serves, and
/// not the one that failed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco scale shop/web 5
  jaco scale web=5                  if one deployment has a service web
  jaco scale shop/web 0 --detach")]
pub(crate) struct Args {
    /// The service, or the service and its number of replicas; the deployment may be omitted if the name is
    /// unambiguous
    #[arg(value_name = "[DEPLOYMENT/]SERVICE[=N]")]
    of: String,
    /// The number of replicas
    #[arg(value_name = "N")]
    replicas: Option<u32>,
    /// Return as soon as the cluster has accepted the change
    #[arg(long)]
    detach: bool,
    /// Maximum time to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    timeout: Duration,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    session.limit(args.timeout);
    let (of, replicas) = target(&args.of, args.replicas)?;
    let (name, service) = match of.split_once('/') {
        Some((name, service)) => (name.to_owned(), service),
        None => (only_deployment_with(session, of).await?, of),
    };
    let after = if args.detach { After::Return } else { After::Wait(args.timeout) };
    let change = |stored: &GetDeploymentResponse| {
        check_overlay(stored, service)?;
        scaled(stored, service, replicas)
    };
    reapply(session, &name, change, after).await
}

/// The service and the number of `web 3` or `web=3`.
fn target(of: &str, replicas: Option<u32>) -> Result<(&str, u32), CliError> {
    let help = "give SERVICE N or SERVICE=N, as in shop/web=3";
    match (of.split_once('='), replicas) {
        (None, Some(replicas)) => Ok((of, replicas)),
        (Some((of, number)), None) => match number.parse() {
            Ok(replicas) => Ok((of, replicas)),
            Err(_) => Err(CliError::usage(format!("{number:?} is not a number of replicas"), help)),
        },
        (None, None) => Err(CliError::usage("no number of replicas is given", help)),
        (Some(_), Some(_)) => Err(CliError::usage("two numbers of replicas are given", help)),
    }
}

/// The deployment that has a service of this name, if only one has.
async fn only_deployment_with(session: &mut Session, service: &str) -> Result<String, CliError> {
    let scope = StatusScope::Deployments.into();
    let request = StatusRequest { scope, ..StatusRequest::default() };
    let status = session.client()?.read_status(request).await?;
    let has_it = |found: &&DeploymentInfo| found.services.iter().any(|known| known.name == service);
    let names: Vec<&str> =
        status.deployments.iter().filter(has_it).map(|found| found.name.as_str()).collect();
    match names[..] {
        [name] => Ok(name.to_owned()),
        [] => Err(CliError::Refused {
            code: ErrorCode::ServiceNotFound,
            message: format!("no deployment has a service {service}"),
            help: None,
        }),
        _ => Err(CliError::usage(
            format!("{} have a service {service}", names.join(" and ")),
            "give DEPLOYMENT/SERVICE",
        )),
    }
}

/// Refuses a service whose number of replicas is set in jaco.yaml.
fn check_overlay(stored: &GetDeploymentResponse, service: &str) -> Result<(), CliError> {
    let set = scale::set_by_overlay(&stored.overlay_yaml, service)
        .map_err(|problems| CliError::Manifest { problems })?;
    match set {
        None => Ok(()),
        Some(replicas) => Err(CliError::Refused {
            code: ErrorCode::InvalidRequest,
            message: format!("jaco.yaml sets the replicas of {service} to {replicas}"),
            help: Some("change the number there and apply it".to_owned()),
        }),
    }
}

/// The stored model with another number of replicas.
fn scaled(
    stored: &GetDeploymentResponse,
    service: &str,
    replicas: u32,
) -> Result<String, CliError> {
    let mut model: Value = serde_json::from_str(&stored.compose_json)
        .map_err(|error| CliError::local("cannot parse the stored compose model", error))?;
    if scale::set(&mut model, service, replicas) {
        return Ok(model.to_string());
    }
    Err(CliError::Refused {
        code: ErrorCode::ServiceNotFound,
        message: format!("{} has no service {service}", stored.name),
        help: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number is an argument of its own, or follows the service as in `jaco whatif --scale`.
    #[test]
    fn number_is_given_once() {
        let read = |of, replicas| target(of, replicas).ok();
        assert_eq!(read("shop/web", Some(3)), Some(("shop/web", 3)));
        assert_eq!(read("web=3", None), Some(("web", 3)));
        assert_eq!(
            (read("web", None), read("web=3", Some(3)), read("web=x", None)),
            (None, None, None)
        );
    }
}
