//! Gives the services that use a secret its newest version, by a rollout of each deployment.

use std::collections::BTreeSet;
use std::time::Duration;

use jaco_compose::{UploadKind, UploadSource, from_model};
use jaco_proto::v1::{ApplyResponse, GetDeploymentResponse};
use jaco_types::{ErrorCode, NamedKind};
use serde_json::{Value, json};

use super::actions;
use crate::deploy::{After, accept_changed, settle};
use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// How the deployments are rolled: one after another, each within this time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rolling {
    pub(super) timeout: Duration,
    pub(super) after: After,
}

/// What came of the roll of a deployment.
#[derive(Debug)]
pub(super) struct Rolled {
    applied: ApplyResponse,
    /// Whether it runs the newest version, or is about to.
    outcome: &'static str,
}

pub(super) async fn roll(
    session: &mut Session,
    name: &str,
    only: &[String],
    rolling: Rolling,
) -> CommandResult {
    let info = actions::find(session, NamedKind::Secret, name).await?;
    if let Some(other) = only.iter().find(|deployment| !info.used_by.contains(deployment)) {
        return Err(CliError::Refused {
            code: ErrorCode::InvalidRequest,
            message: format!("{other} does not use the secret {name}"),
            help: Some(format!("jaco secret get {name} shows which deployments do")),
        });
    }
    let wanted = |deployment: &&String| only.is_empty() || only.contains(deployment);
    let deployments: Vec<String> = info.used_by.iter().filter(wanted).cloned().collect();
    let rolled = each(session, name, &deployments, rolling).await?;
    let json = json!({
        "kind": "secret",
        "name": name,
        "version": info.version,
        "rolled": rolled.iter().map(json).collect::<Value>(),
    });
    let text = match rolled.is_empty() {
        true => format!("no deployment uses the secret {name}\n"),
        false => rolled.iter().map(text).collect(),
    };
    session.done(&Summary { json, text })
}

/// Rolls deployments one after another. The first that fails is the last: what is wrong with a version is wrong with it
/// everywhere.
///
/// # Errors
/// That of the deployment that failed.
pub(super) async fn each(
    session: &mut Session,
    name: &str,
    deployments: &[String],
    rolling: Rolling,
) -> Result<Vec<Rolled>, CliError> {
    let mut rolled = Vec::new();
    let mut left = deployments.iter();
    while let Some(deployment) = left.next() {
        match one(session, name, deployment, rolling).await {
            Ok(done) => rolled.push(done),
            Err(error) => {
                let left: Vec<&str> = left.map(String::as_str).collect();
                if !left.is_empty() {
                    let left = left.join(" ");
                    session.ui.note(&format!("not rolled: jaco secret roll {name} {left} goes on"));
                }
                return Err(error);
            }
        }
    }
    Ok(rolled)
}

async fn one(
    session: &mut Session,
    name: &str,
    deployment: &str,
    rolling: Rolling,
) -> Result<Rolled, CliError> {
    session.limit(rolling.timeout);
    let change = |stored| without_pin(stored, name);
    let applied = accept_changed(session, deployment, change).await?;
    let status = settle(session, &applied, rolling.after).await?;
    Ok(Rolled { applied, outcome: if status.is_some() { "converged" } else { "accepted" } })
}

/// A stored deployment without the version of the secret that its revision has: the cluster looks the newest one up.
fn without_pin(
    stored: GetDeploymentResponse,
    name: &str,
) -> Result<GetDeploymentResponse, CliError> {
    let project = from_model(stored.compose_json.as_bytes()).map_err(|problems| {
        let what = format!("cannot parse the stored compose model of {}", stored.name);
        CliError::local(what, problems.to_string())
    })?;
    let items = project.upload_items().into_iter();
    let of_name = items.filter(|item| {
        matches!(item.kind, UploadKind::Secret)
            && matches!(&item.source, UploadSource::External(external) if external == name)
    });
    let keys: BTreeSet<String> = of_name.map(|item| item.name).collect();
    let mut secrets = stored.secrets;
    secrets.retain(|secret| !keys.contains(&secret.name));
    Ok(GetDeploymentResponse { secrets, ..stored })
}

pub(super) fn json(rolled: &Rolled) -> Value {
    let Rolled { applied, outcome } = rolled;
    json!({
        "deployment": applied.deployment,
        "revision": applied.revision,
        "change": applied.change,
        "outcome": outcome,
    })
}

pub(super) fn text(rolled: &Rolled) -> String {
    let Rolled { applied, outcome } = rolled;
    format!("{} revision {} {}: {outcome}\n", applied.deployment, applied.revision, applied.change)
}
