//! `jaco restart`

use std::time::Duration;

use jaco_compose::restart;
use jaco_proto::v1::GetDeploymentResponse;
use jaco_types::ErrorCode;
use serde_json::Value;

use super::apply::{Then, reapply};
use super::{Context, Done};
use crate::error::CliError;
use crate::when;

/// Replace the replicas of a service by new ones of the same spec
///
/// It is a rollout like any other: one replica after another, and back if the new ones do not become
/// healthy. The image stays what it is, unless the service has `pull_policy: always`: then what its name
/// leads to is looked up again. An apply of the same files afterwards changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco restart shop/web
  jaco restart shop            all services of the deployment
  jaco restart shop --detach")]
pub(crate) struct Args {
    /// The service, or the deployment for all of its services
    #[arg(value_name = "DEPLOYMENT[/SERVICE]")]
    of: String,
    /// Return as soon as the cluster has agreed
    #[arg(long)]
    detach: bool,
    /// How long to wait
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = when::duration)]
    timeout: Duration,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let (name, service) = match args.of.split_once('/') {
        Some((name, service)) => (name, Some(service)),
        None => (args.of.as_str(), None),
    };
    let then = if args.detach { Then::Return } else { Then::Wait(args.timeout) };
    reapply(context, name, |stored| restarted(stored, service), then).await
}

/// The stored model with one restart more.
fn restarted(stored: &GetDeploymentResponse, service: Option<&str>) -> Result<String, CliError> {
    let mut model: Value = serde_json::from_str(&stored.compose_json)
        .map_err(|error| CliError::local("the cluster's compose model is not understood", error))?;
    if restart::count(&mut model, service) {
        return Ok(model.to_string());
    }
    Err(CliError::Refused {
        code: ErrorCode::ServiceNotFound,
        message: format!("{} has no service {}", stored.name, service.unwrap_or_default()),
        help: None,
    })
}
