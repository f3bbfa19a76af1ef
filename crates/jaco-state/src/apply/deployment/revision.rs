//! Rolling back to an earlier revision, and pinning one.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_types::{DeploymentName, ErrorCode, ImageDigest, Rejection, Revision, ServiceKey};

use super::difference::difference;
use super::{Admitted, Wanted, check, check_replicas, note_privileges, want};
use crate::apply::audit::Audit;
use crate::apply::{edge, policy};
use crate::audit::AuditKind;
use crate::command::{DeploymentRollback, Entry, Outcome, RevisionPin, SpecChange};
use crate::deployment::{Deployment, Pin, RevisionRecord};
use crate::state::ClusterState;

/// How many revisions of a deployment can be pinned: as many as are kept without.
pub const PINNED_MAX: usize = super::KEPT_REVISIONS;

/// Makes the spec of an earlier revision the desired one, under a new revision: containers are created
/// from exactly that spec, in a rollout as after any change.
pub(in crate::apply) fn rollback(
    state: &mut ClusterState,
    entry: &Entry,
    command: &DeploymentRollback,
    audit: &mut Audit<'_>,
) -> Outcome {
    let DeploymentRollback { name, to, reaches, replicas_max } = command;
    let to = *to;
    let Some(deployment) = state.deployments.get(name) else { return unknown_deployment(name) };
    let Some(to) = to.or_else(|| previous_good(deployment)) else {
        let message = format!("{name} has no earlier revision that was rolled out and differs");
        return Outcome::Rejected(Rejection::new(ErrorCode::NoPreviousRevision, message));
    };
    let Some(record) = deployment.revisions.get(&to) else {
        return unknown_revision(deployment, to);
    };
    let spec = record.spec.clone();
    let checked = check(state, name, &spec)
        .and_then(|()| check_replicas(state, name, &spec, *replicas_max))
        .and_then(|()| policy::check(state, &entry.by, name, &spec, reaches))
        .and_then(|()| policy::check_named(state, &entry.by, name, &spec));
    if let Err(rejection) = checked {
        return Outcome::Rejected(rejection);
    }
    let changes = difference(deployment.spec(), &spec);
    let wanted = Wanted { spec: &spec, restores: Some(to), trace: None };
    let outcome = want(state, entry, name, wanted, audit);
    if let Outcome::Deployed { revision, change } = &outcome {
        audit.event(
            AuditKind::Rollback,
            [
                ("deployment", name.to_string()),
                ("revision", revision.to_string()),
                ("restores", to.to_string()),
                ("changes", changes),
            ],
        );
        if *change != SpecChange::Unchanged {
            let admitted = Admitted { spec: &spec, reaches };
            note_privileges(name, *revision, admitted, audit);
            edge::settle(state, entry.at, name, audit);
        }
    }
    outcome
}

/// The newest revision before the desired one whose spec differs and whose rollout did not fail.
#[must_use]
pub fn previous_good(deployment: &Deployment) -> Option<Revision> {
    let wanted = deployment.spec();
    let earlier = deployment.revisions.range(..deployment.revision).rev();
    let mut good = earlier
        .filter(|(_, record)| record.failure.is_empty() && !record.spec.asks_the_same(wanted));
    good.next().map(|(revision, _)| *revision)
}

/// Pins a revision, so that it is kept as long as its deployment, or unpins it.
pub(in crate::apply) fn pin(
    state: &mut ClusterState,
    command: &RevisionPin,
    audit: &mut Audit<'_>,
) -> Outcome {
    let RevisionPin { name, revision, pin } = command;
    let (revision, pin) = (*revision, *pin);
    let Some(deployment) = state.deployments.get(name) else { return unknown_deployment(name) };
    let Some(record) = deployment.revisions.get(&revision) else {
        return unknown_revision(deployment, revision);
    };
    if record.pin == pin {
        return Outcome::Done;
    }
    let pinned = deployment.revisions.values().filter(|record| record.pin == Pin::Yes).count();
    if pin == Pin::Yes && pinned >= PINNED_MAX {
        let message = format!("{name} has {PINNED_MAX} pinned revisions already: unpin one first");
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    let facts = [
        ("deployment", name.to_string()),
        ("revision", revision.to_string()),
        ("pinned", pin.as_str().to_owned()),
    ];
    audit.event(AuditKind::RevisionPinned, facts);
    edit(state, name, revision, |record| record.pin = pin);
    Outcome::Done
}

/// Records that the rollout to a revision failed.
pub(in crate::apply) fn note_failure(
    state: &mut ClusterState,
    name: &DeploymentName,
    revision: Revision,
    reason: &str,
) {
    edit(state, name, revision, |record| reason.clone_into(&mut record.failure));
}

/// Pins the image digest of a service at a revision. One that is pinned stays (ST-16).
pub(in crate::apply) fn note_digest(
    state: &mut ClusterState,
    service: &ServiceKey,
    revision: Revision,
    digest: &ImageDigest,
) {
    edit(state, &service.deployment, revision, |record| {
        record.digests.entry(service.service.clone()).or_insert_with(|| digest.clone());
    });
}

fn edit(
    state: &mut ClusterState,
    name: &DeploymentName,
    revision: Revision,
    edit: impl FnOnce(&mut RevisionRecord),
) {
    let revisions: Option<&mut BTreeMap<_, _>> =
        state.deployments.get_mut(name).map(|deployment| &mut deployment.revisions);
    if let Some(record) = revisions.and_then(|revisions| revisions.get_mut(&revision)) {
        edit(Arc::make_mut(record));
    }
}

fn unknown_deployment(name: &DeploymentName) -> Outcome {
    let message = format!("there is no deployment {name}");
    Outcome::Rejected(Rejection::new(ErrorCode::DeploymentNotFound, message))
}

fn unknown_revision(deployment: &Deployment, revision: Revision) -> Outcome {
    let kept: Vec<_> = deployment.revisions.keys().map(ToString::to_string).collect();
    let message = format!(
        "{} has no revision {revision} any more; there are {}",
        deployment.name,
        kept.join(", ")
    );
    Outcome::Rejected(Rejection::new(ErrorCode::RevisionNotFound, message))
}
