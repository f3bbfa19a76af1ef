//! `jaco restart`

use std::time::Duration;

use jaco_compose::restart;
use jaco_proto::v1::GetDeploymentResponse;
use jaco_types::ErrorCode;
use serde_json::Value;

use crate::deploy::{After, reapply};
use crate::error::CliError;
use crate::format::time;
use crate::session::{CommandResult, Session};

/// Restart the replicas of a service by a rollout
///
/// Replaces each replica with a new one of the same spec, one after another, and rolls back if the new
/// ones do not become healthy. The image digest stays the same, unless the service has `pull_policy:
/// always`: then it is resolved again. An apply of the same files afterwards changes nothing.
///
/// After a rollout was rolled back, the revision that serves is restarted, and not the one that failed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco restart shop/web
  jaco restart shop            all services of the deployment
  jaco restart shop --detach")]
pub(crate) struct Args {
    /// The service, or the deployment for all of its services
    #[arg(value_name = "DEPLOYMENT[/SERVICE]")]
    of: String,
    /// Return as soon as the cluster has accepted the change
    #[arg(long)]
    detach: bool,
    /// Maximum time to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    timeout: Duration,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    session.limit(args.timeout);
    let (name, service) = match args.of.split_once('/') {
        Some((name, service)) => (name, Some(service)),
        None => (args.of.as_str(), None),
    };
    let after = if args.detach { After::Return } else { After::Wait(args.timeout) };
    reapply(session, name, |stored| restarted(stored, service), after).await
}

/// The stored model with its restart counters increased.
fn restarted(stored: &GetDeploymentResponse, service: Option<&str>) -> Result<String, CliError> {
    let mut model: Value = serde_json::from_str(&stored.compose_json)
        .map_err(|error| CliError::local("cannot parse the stored compose model", error))?;
    if restart::count(&mut model, service) {
        return Ok(model.to_string());
    }
    Err(CliError::Refused {
        code: ErrorCode::ServiceNotFound,
        message: format!("{} has no service {}", stored.name, service.unwrap_or_default()),
        help: None,
    })
}
