//! What deployments may reach of the nodes (R-IN-6). The check is here, where no other entry can come in between.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::spec::{DeploymentSpec, Reach, ServiceSpec};
use jaco_types::{DeploymentName, ErrorCode, Identity, NamedKey, Rejection, Role, ServiceName};

use super::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{Outcome, PolicyAllow, PolicyRevoke, PolicySet};
use crate::policy::{GRANTS_MAX, GRANTS_PER_DEPLOYMENT_MAX, PolicyMode, allow_command};
use crate::state::ClusterState;

/// Sets the mode.
pub(super) fn set(state: &mut ClusterState, command: &PolicySet, audit: &mut Audit<'_>) -> Outcome {
    let PolicySet { mode } = command;
    let before = std::mem::replace(&mut state.policy.mode, *mode);
    if before != *mode {
        let facts = [("from", before.as_str().to_owned()), ("to", mode.as_str().to_owned())];
        audit.event(AuditKind::PolicySet, facts);
    }
    Outcome::Done
}

/// Adds grants.
pub(super) fn allow(
    state: &mut ClusterState,
    command: &PolicyAllow,
    audit: &mut Audit<'_>,
) -> Outcome {
    let PolicyAllow { deployment, reaches } = command;
    for reach in reaches {
        if let Err(invalid) = reach.clone().checked() {
            return Outcome::Rejected(Rejection::new(
                ErrorCode::InvalidRequest,
                invalid.to_string(),
            ));
        }
    }
    let before = state.policy.grants.get(deployment).cloned().unwrap_or_default();
    let new: BTreeSet<Reach> = reaches.difference(&before).cloned().collect();
    if new.is_empty() {
        return Outcome::Done;
    }
    let own = before.len() + new.len();
    let all = state.policy.grants.values().map(BTreeSet::len).sum::<usize>() + new.len();
    if own > GRANTS_PER_DEPLOYMENT_MAX || all > GRANTS_MAX {
        let message = format!(
            "{deployment} would have {own} grants and the cluster {all}, and these can be \
             {GRANTS_PER_DEPLOYMENT_MAX} and {GRANTS_MAX}: revoke some that are not used any more"
        );
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    audit.event(AuditKind::PolicyGranted, facts(deployment, &new));
    state.policy.grants.insert(deployment.clone(), before.into_iter().chain(new).collect());
    Outcome::Done
}

/// Takes grants back. Without any there is nothing to do.
pub(super) fn revoke(
    state: &mut ClusterState,
    command: &PolicyRevoke,
    audit: &mut Audit<'_>,
) -> Outcome {
    let PolicyRevoke { deployment, reaches } = command;
    let before = state.policy.grants.get(deployment).cloned().unwrap_or_default();
    let gone: BTreeSet<Reach> = before.intersection(reaches).cloned().collect();
    if gone.is_empty() {
        return Outcome::Done;
    }
    audit.event(AuditKind::PolicyRevoked, facts(deployment, &gone));
    let left: BTreeSet<Reach> = before.difference(&gone).cloned().collect();
    match left.is_empty() {
        true => state.policy.grants.remove(deployment),
        false => state.policy.grants.insert(deployment.clone(), left),
    };
    Outcome::Done
}

fn facts(deployment: &DeploymentName, reaches: &BTreeSet<Reach>) -> [(&'static str, String); 2] {
    [("deployment", deployment.to_string()), ("reaches", listed(reaches))]
}

/// Refuses services that reach for what is not granted. One that is as the desired revision has it passes, so that
/// it can be scaled and restarted.
///
/// # Errors
/// `policy_refused`, with each service, what it reaches for, and the command that grants all of it.
pub(super) fn check(
    state: &ClusterState,
    by: &Identity,
    name: &DeploymentName,
    spec: &DeploymentSpec,
    reaches: &BTreeMap<ServiceName, BTreeSet<Reach>>,
) -> Result<(), Rejection> {
    if state.policy.mode == PolicyMode::Warn && !is_deployer(state, by) {
        return Ok(());
    }
    let desired = state.deployments.get(name).map(|deployment| deployment.spec());
    let is_kept = |service: &ServiceName| {
        let before = desired.and_then(|desired| desired.services.get(service));
        before.zip(spec.services.get(service)).is_some_and(|(before, after)| is_same(before, after))
    };
    let changed = reaches.iter().filter(|(service, _)| !is_kept(service));
    let refused = changed.map(|(service, all)| (service, state.policy.ungranted(name, all)));
    let refused: Vec<_> = refused.filter(|(_, missing)| !missing.is_empty()).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let services = refused.iter().map(|(service, missing)| {
        format!("service {service} reaches the node it runs on by {}", listed(missing))
    });
    let services: Vec<String> = services.collect();
    let missing: BTreeSet<Reach> = refused.into_iter().flat_map(|(_, missing)| missing).collect();
    let command = allow_command(name, &missing);
    let message =
        format!("{}, which is not granted to {name}; to grant it: {command}", services.join("; "));
    Err(Rejection::new(ErrorCode::PolicyRefused, message).with("command", command))
}

/// Refuses named secrets that are not for the deployment, where reaches without a grant are refused. One that the desired
/// revision has passes.
///
/// # Errors
/// `policy_refused`, with the secrets and the commands that allow them.
pub(super) fn check_named(
    state: &ClusterState,
    by: &Identity,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    if state.policy.mode == PolicyMode::Warn && !is_deployer(state, by) {
        return Ok(());
    }
    let desired = state.deployments.get(name).map(|deployment| deployment.spec());
    let is_kept = |key: &NamedKey| desired.is_some_and(|desired| desired.named.contains(key));
    let is_refused = |key: &&NamedKey| {
        let named = state.named.get(key);
        !is_kept(key) && named.is_some_and(|named| !named.users.include(name))
    };
    let refused: Vec<&NamedKey> = spec.named.iter().filter(is_refused).collect();
    if refused.is_empty() {
        return Ok(());
    }
    let allow = |key: &&NamedKey| format!("jaco {} allow {} {name}", key.kind.as_str(), key.name);
    let commands = refused.iter().map(allow).collect::<Vec<_>>().join("; ");
    let keys: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let message = format!("{} is not for {name}; to allow it: {commands}", keys.join(" and "));
    Err(Rejection::new(ErrorCode::PolicyRefused, message).with("command", commands))
}

/// Whether a token for some deployments only asks. What reaches its node reaches all deployments there, so that a grant is
/// needed whatever the policy is.
fn is_deployer(state: &ClusterState, by: &Identity) -> bool {
    let Identity::Operator { token } = by else { return false };
    state.operator_tokens.get(token).is_some_and(|token| token.rights().role() == Role::Deployer)
}

fn is_same(before: &ServiceSpec, after: &ServiceSpec) -> bool {
    before.image == after.image
        && without_restarts(&before.container) == without_restarts(&after.container)
}

/// The text of a container without the label that counts its restarts. Quotes inside of strings are escaped, so that
/// only a key with digits can be taken away.
fn without_restarts(text: &str) -> String {
    const LABEL: &str = "\"jaco.restart\":\"";
    let Some((head, tail)) = text.split_once(LABEL) else { return text.to_owned() };
    let tail = tail.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let Some(tail) = tail.strip_prefix('"') else { return text.to_owned() };
    let joined = match (head.strip_suffix(','), tail.strip_prefix(',')) {
        (_, Some(tail)) => format!("{head}{tail}"),
        (Some(head), None) => format!("{head}{tail}"),
        (None, None) => format!("{head}{tail}"),
    };
    joined.replacen("\"labels\":{},", "", 1).replacen(",\"labels\":{}", "", 1)
}

fn listed(reaches: &BTreeSet<Reach>) -> String {
    reaches.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
