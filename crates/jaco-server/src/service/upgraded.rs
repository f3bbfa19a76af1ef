//! Whether all members know what a request writes: one that does not would stop at it.
//!
//! Most of what is asked for here came with the first release. What a later one brings waits for that version.

use jaco_state::ClusterState;
use jaco_state::apply::deployment::bound::CLUSTER_REPLICAS_MAX;
use jaco_state::audit::AuditKind;
use jaco_state::command::{EdgeBegin, Running};
use jaco_state::contents::{ContentUsers, NamedContent};
use jaco_state::notify::{NotifyForm, NotifyTarget};
use jaco_state::token::{OperatorToken, Proof};
use jaco_state::view::slots_of;
use jaco_types::spec::DeploymentSpec;
use jaco_types::{
    Author, DeploymentName, DesiredState, ErrorCode, Rejection, ServiceKey, Slot, Version,
};

use crate::member::Member;

/// From which version on instances that run join networks of the cluster.
const JOINS: Version = Version { major: 0, minor: 2, patch: 0 };

/// Refuses what earlier members do not know. `what` is what there can be once all know it.
///
/// # Errors
/// `code`, with the members and their versions.
pub(super) fn by_all(state: &ClusterState, what: &str, code: ErrorCode) -> Result<(), Rejection> {
    since(Version::FIRST, state, what, code)
}

fn since(
    since: Version,
    state: &ClusterState,
    what: &str,
    code: ErrorCode,
) -> Result<(), Rejection> {
    let others = state.nodes.values().filter(|node| !since.is_known_by(&node.facts.version));
    let others: Vec<String> = others
        .map(|node| match node.facts.version.as_str() {
            "" => format!("{} has not reported its version yet", node.hostname),
            version => format!("{} runs version {version}", node.hostname),
        })
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let message =
        format!("{what} once all members run version {since} or later: {}", others.join(", "));
    Err(Rejection::new(code, message).with("members", others.join(", ")))
}

/// Whether all members note in the audit log what an apply reaches of the nodes.
///
/// Once there is a policy or a token with a role, who does not know it cannot be a member; one that runs a later version
/// knows it.
pub(super) fn reaches_are_known(state: &ClusterState) -> bool {
    state.policy.has_begun()
        || roles_have_begun(state)
        || by_all(state, "reaches of nodes are audited", ErrorCode::MembersOutdated).is_ok()
}

/// The bound that entries carry on the replicas of all deployments: none as long as a member may not know it, and would
/// stop at it. Requests are compared with it all the same.
pub(super) fn replicas_max(state: &ClusterState) -> Option<u64> {
    let known = by_all(state, "replicas are bounded", ErrorCode::MembersOutdated);
    known.is_ok().then_some(CLUSTER_REPLICAS_MAX)
}

/// Whether all members know that a revision has the trace of its request. Once one has, who does not know it cannot be a
/// member.
pub(super) fn traces_are_known(state: &ClusterState) -> bool {
    let mut revisions = state.deployments.values().flat_map(|one| one.revisions.values());
    revisions.any(|record| record.trace.is_some())
        || by_all(state, "applies are traced", ErrorCode::MembersOutdated).is_ok()
}

/// What becomes of instances that run while their services get networks of the cluster: they stay as they are as long as a
/// member may not know that they can join these. Where none of them does, the entry says nothing that an earlier version
/// would not know: a member may go back to that. Where they stay apart for a member's sake, a warning says so.
pub(super) fn running(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
    warnings: &mut Vec<String>,
) -> Running {
    let is_attached = |service: &ServiceKey| {
        spec.services.get(&service.service).is_some_and(|wanted| !wanted.networks.is_empty())
    };
    let is_apart = |slot: &Slot| {
        let mut specs = slot
            .instances()
            .filter_map(|(_, instance)| state.service_spec(&slot.service, instance.revision));
        slot.desired_state == DesiredState::Active && specs.any(|own| own.networks.is_empty())
    };
    let moves = slots_of(state, name).any(|slot| is_attached(&slot.service) && is_apart(slot));
    match joins_are_known(state) {
        Ok(()) if moves => Running::JoinNetworks,
        Err(outdated) if moves => {
            warnings.push(format!(
                "replicas of {name} from before this apply and those that replace them do not reach each other until \
                 all are replaced: {}",
                outdated.message
            ));
            Running::Stay
        }
        Ok(()) | Err(_) => Running::Stay,
    }
}

fn joins_are_known(state: &ClusterState) -> Result<(), Rejection> {
    let what = "running replicas join networks of the cluster";
    since(JOINS, state, what, ErrorCode::MembersOutdated)
}

/// Whether there is a policy of what deployments may reach, or may be.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn policy_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if state.policy.has_begun() {
        return Ok(());
    }
    by_all(state, "what deployments may reach can be set", ErrorCode::MembersOutdated)
}

/// Whether there is a token with a role: who does not know roles cannot be a member any more.
fn roles_have_begun(state: &ClusterState) -> bool {
    state.operator_tokens.values().any(|token| token.rights.is_some())
}

/// Whether tokens may have roles.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn roles_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if roles_have_begun(state) {
        return Ok(());
    }
    by_all(state, "tokens have roles", ErrorCode::MembersOutdated)
}

/// Whether jobs may have schedules, and be run by users.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn runs_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if !state.jobs.is_empty() {
        return Ok(());
    }
    by_all(state, "jobs can have schedules and be run again", ErrorCode::MembersOutdated)
}

/// Whether services may have DNS servers of their own in networks of the cluster.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn resolvers_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    let mut services = state.deployments.values().flat_map(|one| one.spec().services.values());
    if services.any(|service| !service.resolvers.is_empty()) {
        return Ok(());
    }
    by_all(state, "DNS servers of its own are asked", ErrorCode::MembersOutdated)
}

/// Whether volumes may have classes.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn volume_classes_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    let mut services = state.deployments.values().flat_map(|one| one.spec().services.values());
    if services.any(|service| !service.volumes.is_empty()) {
        return Ok(());
    }
    by_all(state, "volumes can have classes", ErrorCode::MembersOutdated)
}

/// Whether secrets of tokens may be rotated.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn token_rotation_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    let by_version = by_all(state, "tokens can be rotated", ErrorCode::MembersOutdated);
    match by_version {
        Err(_) if has_event(state, &[AuditKind::TokenRotate]) => Ok(()),
        by_version => by_version,
    }
}

/// Whether images may be pushed.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn images_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    // Once there is one, who does not know images cannot be a member.
    if !state.images.rows.is_empty() {
        return Ok(());
    }
    by_all(state, "images can be pushed", ErrorCode::MembersOutdated)
}

/// Whether operators may have certificates.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn certificates_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    let is_certificate = |token: &OperatorToken| matches!(token.proof, Proof::Certificate(_));
    if state.operator_tokens.values().any(is_certificate) {
        return Ok(());
    }
    by_all(state, "operators can have certificates", ErrorCode::MembersOutdated)
}

/// Whether secrets can be for some deployments only.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn users_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if state.named.values().any(|named| named.users != ContentUsers::All) {
        return Ok(());
    }
    by_all(state, "secrets can be for some deployments only", ErrorCode::MembersOutdated)
}

/// Whether contents may have an expiry, and be changed only from a certain version.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn terms_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    let has_terms = |named: &NamedContent| named.expires_at.is_some() || !named.former.is_empty();
    if state.named.values().any(has_terms) {
        return Ok(());
    }
    by_all(state, "secrets can expire and be edited", ErrorCode::MembersOutdated)
}

/// Whether all members know the event of a content that was read.
///
/// # Errors
/// `members_outdated` as long as a member may not.
pub(super) fn reads_may_be_audited(state: &ClusterState) -> Result<(), Rejection> {
    match by_all(state, "secrets can be edited", ErrorCode::MembersOutdated) {
        Err(_) if has_event(state, &[AuditKind::ContentRead]) => Ok(()),
        by_version => by_version,
    }
}

/// Whether the authority was rotated, or may be.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn rotation_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if state.rotation.is_some() {
        return Ok(());
    }
    by_all(state, "the authority can be rotated", ErrorCode::MembersOutdated)
}

/// Whether the key-encryption key was rotated, or may be.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn kek_rotation_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if state.sealing.rotation.is_some() {
        return Ok(());
    }
    by_all(state, "the key-encryption key can be rotated", ErrorCode::MembersOutdated)
}

/// Whether all members know the events of copies and of forwarded ports: they are of a version that does, or have read such an
/// event.
///
/// # Errors
/// `members_outdated` as long as a member may not.
pub(super) fn copies_may_be_audited(state: &ClusterState) -> Result<(), Rejection> {
    let what = "files can be copied and ports forwarded";
    let by_version = by_all(state, what, ErrorCode::MembersOutdated);
    let known = [AuditKind::CopyStarted, AuditKind::ForwardStarted];
    match by_version {
        Err(_) if has_event(state, &known) => Ok(()),
        by_version => by_version,
    }
}

/// Whether all members know the events of reads and writes of volumes: they are of a version that does, or have read such an event.
///
/// # Errors
/// `members_outdated` as long as a member may not.
pub(super) fn volumes_may_be_audited(state: &ClusterState) -> Result<(), Rejection> {
    let by_version = by_all(state, "volumes can be read and written", ErrorCode::MembersOutdated);
    match by_version {
        Err(_) if has_event(state, &[AuditKind::VolumeRead, AuditKind::VolumeWrite]) => Ok(()),
        by_version => by_version,
    }
}

/// Whether volumes may be moved: all members know the command, or have read the event of one.
///
/// # Errors
/// `members_outdated` as long as a member may not.
pub(super) fn data_may_move(state: &ClusterState) -> Result<(), Rejection> {
    match by_all(state, "volumes can be moved", ErrorCode::MembersOutdated) {
        Err(_) if has_event(state, &[AuditKind::DataMoved]) => Ok(()),
        by_version => by_version,
    }
}

/// Whether there are notification targets, or may be.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn notifications_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if !state.notify.targets.is_empty() {
        return Ok(());
    }
    by_all(state, "there can be notification targets", ErrorCode::MembersOutdated)
}

/// Whether there are schedules of backups, or may be.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn backup_schedules_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if !state.backups.is_empty() {
        return Ok(());
    }
    by_all(state, "there can be backup schedules", ErrorCode::MembersOutdated)
}

/// Whether notifications go by mail and can be paused, or may.
///
/// # Errors
/// `members_outdated` as long as a member may not know that.
pub(super) fn mail_and_pauses_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    let is_new =
        |target: &NotifyTarget| target.form == NotifyForm::Email || target.paused_at.is_some();
    if state.notify.targets.values().any(is_new) {
        return Ok(());
    }
    let what = "notifications can go by mail and be paused";
    match by_all(state, what, ErrorCode::MembersOutdated) {
        Err(_) if has_event(state, &[AuditKind::NotifyPaused]) => Ok(()),
        by_version => by_version,
    }
}

/// Whether an event of one of these kinds is kept.
fn has_event(state: &ClusterState, kinds: &[AuditKind]) -> bool {
    state.audit.events.values().any(|event| kinds.contains(&event.kind))
}

/// Whether uses of tokens are recorded, or may be.
pub(super) fn uses_may_begin(state: &ClusterState) -> bool {
    state.operator_tokens.values().any(|token| token.last_used_at.is_some())
        || by_all(state, "uses of tokens are recorded", ErrorCode::MembersOutdated).is_ok()
}

/// Whether there are routes, drain times, published ports and certificates, or may be.
///
/// # Errors
/// `members_outdated` as long as a member may not know it.
pub(super) fn edges_may_begin(state: &ClusterState) -> Result<(), Rejection> {
    if state.edges.begun.is_some() {
        return Ok(());
    }
    let what = "routes, drain times, ports that every node answers and certificates can be used";
    by_all(state, what, ErrorCode::MembersOutdated)
}

/// Sees to it that the state may have them: with the first request that needs it, if all members know them.
///
/// # Errors
/// Those of [`edges_may_begin`], and of consensus.
pub(super) async fn begin_edges(member: &Member, by: Author) -> Result<(), Rejection> {
    member.store.read(edges_may_begin)?;
    if member.store.read(|state| state.edges.begun.is_none()) {
        member.commit(by, "", EdgeBegin.into()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
