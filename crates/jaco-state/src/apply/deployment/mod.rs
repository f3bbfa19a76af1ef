//! The desired state of deployments.

pub mod bound;
mod difference;
mod digests;
pub mod revision;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::spec::{DeploymentSpec, Placement, Reach};
use jaco_types::{
    DeploymentName, ErrorCode, Rejection, Revision, ServiceKey, ServiceName, StateIndex,
    TraceContext,
};

use self::bound::Asked;
use self::difference::difference;
use super::audit::Audit;
use super::cluster::disabled;
use super::content;
use super::edge;
use super::images;
use super::job;
use super::network::{address, join, wanted as networks};
use super::policy;
use crate::audit::AuditKind;
use crate::command::{DeploymentApply, DeploymentDelete, Entry, Outcome, Running, SpecChange};
use crate::deployment::{Deployment, Pin, RevisionRecord};
use crate::state::ClusterState;
use crate::view::slots_of;

/// How many revisions are kept besides those that are pinned and those that a replica still runs.
pub const KEPT_REVISIONS: usize = 10;

pub(in crate::apply) fn apply_spec(
    state: &mut ClusterState,
    entry: &Entry,
    command: &DeploymentApply,
    audit: &mut Audit<'_>,
) -> Outcome {
    let DeploymentApply { name, spec, based_on, reaches, replicas_max, trace, running } = command;
    let based_on = *based_on;
    let checked = check_base(state, name, based_on)
        .and_then(|()| check(state, name, spec))
        .and_then(|()| check_replicas(state, name, spec, *replicas_max))
        .and_then(|()| policy::check(state, &entry.by, name, spec, reaches))
        .and_then(|()| policy::check_named(state, &entry.by, name, spec));
    if let Err(rejection) = checked {
        return Outcome::Rejected(rejection);
    }
    let before = state.deployments.get(name).map(|deployment| deployment.spec().clone());
    let outcome = want(state, entry, name, Wanted { spec, restores: None, trace: *trace }, audit);
    if let Outcome::Deployed { revision, change: SpecChange::Created | SpecChange::Updated } =
        &outcome
    {
        let facts = [
            ("deployment", name.to_string()),
            ("revision", revision.to_string()),
            ("services", join(spec.services.keys())),
        ];
        match before.map(|before| difference(&before, spec)) {
            // Another attempt at a failed rollout differs in nothing.
            None => audit.event(AuditKind::Apply, facts),
            Some(changes) => {
                let [name, revision, services] = facts;
                let changes = ("changes", changes);
                audit.event(AuditKind::Apply, [name, revision, services, changes]);
            }
        }
        note_privileges(name, *revision, Admitted { spec, reaches }, audit);
        edge::settle(state, entry.at, name, audit);
        if *running == Running::JoinNetworks {
            join::begin(state, entry, name);
        }
    }
    outcome
}

/// What a new revision reaches of the nodes.
#[derive(Clone, Copy)]
pub(in crate::apply) struct Admitted<'a> {
    pub(in crate::apply) spec: &'a DeploymentSpec,
    /// With values; none where they are not known.
    pub(in crate::apply) reaches: &'a BTreeMap<ServiceName, BTreeSet<Reach>>,
}

/// Adds an event for each service of a new revision that reaches its nodes.
pub(in crate::apply) fn note_privileges(
    name: &DeploymentName,
    revision: Revision,
    Admitted { spec, reaches }: Admitted<'_>,
    audit: &mut Audit<'_>,
) {
    let services: BTreeSet<&ServiceName> = spec.privileges.keys().chain(reaches.keys()).collect();
    for service in services {
        let privileges = spec.privileges.get(service).into_iter().flatten();
        let facts = [
            ("deployment", name.to_string()),
            ("revision", revision.to_string()),
            ("service", service.to_string()),
            ("privileges", join(privileges.map(|privilege| privilege.as_str()))),
        ];
        match reaches.get(service) {
            None => audit.event(AuditKind::PrivilegedWorkloadAdmitted, facts),
            Some(reaches) => {
                let [name, revision, service, privileges] = facts;
                let reaches = ("reaches", join(reaches));
                let facts = [name, revision, service, privileges, reaches];
                audit.event(AuditKind::PrivilegedWorkloadAdmitted, facts);
            }
        }
    }
}

/// Where no other entry can come in between. Entries from before the bound are executed as they were then.
fn check_replicas(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
    max: Option<u64>,
) -> Result<(), Rejection> {
    max.map_or(Ok(()), |max| Asked::of(state).check(name, spec, max).map(drop))
}

/// A spec that was made from one revision must not undo a later one.
fn check_base(
    state: &ClusterState,
    name: &DeploymentName,
    based_on: Option<Revision>,
) -> Result<(), Rejection> {
    let Some(based_on) = based_on else { return Ok(()) };
    let wanted = state.deployments.get(name).map(|deployment| deployment.revision);
    if wanted == Some(based_on) {
        return Ok(());
    }
    let now = wanted.map_or("gone".to_owned(), |wanted| format!("at revision {wanted}"));
    let message =
        format!("the change was made from revision {based_on} of {name}, which is {now} by now");
    Err(Rejection::new(ErrorCode::StalePlan, message))
}

/// The new desired spec of a deployment.
#[derive(Clone, Copy)]
pub(in crate::apply) struct Wanted<'a> {
    pub(in crate::apply) spec: &'a DeploymentSpec,
    /// The revision that it is taken from, if it is a rollback.
    pub(in crate::apply) restores: Option<Revision>,
    /// The trace of the request.
    pub(in crate::apply) trace: Option<TraceContext>,
}

/// Makes a spec the desired one, under a new revision unless it is that already. It was checked before.
pub(in crate::apply) fn want(
    state: &mut ClusterState,
    entry: &Entry,
    name: &DeploymentName,
    wanted: Wanted<'_>,
    audit: &mut Audit<'_>,
) -> Outcome {
    let spec = wanted.spec;
    reset_restarts(state, entry.index, name);
    let previous = state.deployments.get(name);
    if let Some(deployment) = previous
        && deployment.spec().asks_the_same(spec)
        && !has_failed(state, deployment)
    {
        return Outcome::Deployed { revision: deployment.revision, change: SpecChange::Unchanged };
    }
    let change = if previous.is_some() { SpecChange::Updated } else { SpecChange::Created };
    let revision = Revision(previous.map_or(1, |deployment| deployment.revision.0 + 1));
    let mut revisions = previous.map(|deployment| deployment.revisions.clone()).unwrap_or_default();
    let record = RevisionRecord {
        spec: spec.clone(),
        applied_at: entry.at,
        applied_by: entry.by.clone(),
        restores: wanted.restores,
        pin: Pin::No,
        failure: String::new(),
        digests: digests::carried(state, name, &wanted),
        trace: wanted.trace,
    };
    revisions.insert(revision, Arc::new(record));
    forget_old_revisions(state, name, &mut revisions);
    let deployment = Deployment { name: name.clone(), revision, revisions, modified: entry.index };
    let before = state.deployments.insert(name.clone(), deployment);
    disabled::forget_unwanted(state, entry.index, name);
    job::follow(state, entry, name, before.as_deref().map(Deployment::spec), audit);
    content::settle(state, entry.at);
    images::settle(state, entry.at, audit);
    networks::create(state, name, spec);
    address::expire(state, entry.at);
    networks::settle(state);
    Outcome::Deployed { revision, change }
}

/// Whether the rollout to the wanted revision was aborted or paused. Applying the same spec again is then a new
/// attempt, under a new revision.
fn has_failed(state: &ClusterState, deployment: &Deployment) -> bool {
    deployment.spec().services.keys().any(|service| {
        let key = ServiceKey { deployment: deployment.name.clone(), service: service.clone() };
        let rollout = state.scheduling.get(&key).and_then(|record| record.rollout.as_ref());
        rollout.is_some_and(|rollout| {
            rollout.state.has_failed() && rollout.target_revision == deployment.revision
        })
    })
}

/// The rules that depend on the rest of the state, checked where no other entry can come in between.
///
/// # Errors
/// The first rule that the spec breaks; admission has reported all of them before.
pub fn check(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    for service in spec.services.values() {
        let Placement::Hosts(hosts) = &service.placement else { continue };
        let unknown = hosts.iter().filter(|host| state.node_by_hostname(host).is_none());
        let unknown = join(unknown);
        if !unknown.is_empty() {
            let message = format!(
                "service {:?} is pinned to {unknown}, and the cluster has no such node",
                service.name
            );
            return Err(Rejection::new(ErrorCode::UnknownHost, message).with("missing", unknown));
        }
    }
    content::check(state, spec)?;
    networks::check(state, name, spec)?;
    edge::check(state, name, spec)?;
    check_replica_ids(state, name, spec)
}

/// `a` + `b-c` and `a-b` + `c` would both name a replica `a-b-c-1`: the second one is refused.
fn check_replica_ids(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    let prefix =
        |deployment: &DeploymentName, service: &ServiceName| format!("{deployment}-{service}");
    let wanted: BTreeMap<String, &ServiceName> =
        spec.services.keys().map(|service| (prefix(name, service), service)).collect();
    let others = state.deployments.values().filter(|other| other.name != *name);
    for other in others {
        for service in other.spec().services.keys() {
            let Some(mine) = wanted.get(&prefix(&other.name, service)) else { continue };
            let message = format!(
                "replicas of service {mine:?} would be named like those of {}/{service}",
                other.name
            );
            return Err(Rejection::new(ErrorCode::ReplicaIdConflict, message));
        }
    }
    Ok(())
}

/// An apply gives every replica of the deployment a new budget (R-HEAL-2).
fn reset_restarts(state: &mut ClusterState, index: StateIndex, name: &DeploymentName) {
    let spent =
        slots_of(state, name).filter(|slot| slot.restarts != jaco_types::RestartCount::default());
    let spent: Vec<_> = spent.map(|slot| slot.id.clone()).collect();
    for id in spent {
        if let Some(slot) = state.slots.get_mut(&id) {
            slot.restarts = jaco_types::RestartCount::default();
            slot.modified = index;
        }
    }
}

fn forget_old_revisions(
    state: &ClusterState,
    name: &DeploymentName,
    revisions: &mut BTreeMap<Revision, Arc<RevisionRecord>>,
) {
    let slots = slots_of(state, name);
    let terminating =
        state.terminating.values().filter(|terminating| terminating.service.deployment == *name);
    let used: BTreeSet<Revision> = slots
        .flat_map(|slot| std::iter::once(&slot.current).chain(&slot.retiring))
        .map(|instance| instance.revision)
        .chain(terminating.map(|terminating| terminating.revision))
        .collect();
    let unpinned = revisions.iter().filter(|(_, record)| record.pin == Pin::No);
    let recent: BTreeSet<Revision> =
        unpinned.rev().take(KEPT_REVISIONS).map(|(revision, _)| *revision).collect();
    revisions.retain(|revision, record| {
        recent.contains(revision) || used.contains(revision) || record.pin == Pin::Yes
    });
}

/// Deletes the deployment; the planner removes its slots, service by service.
pub(in crate::apply) fn delete(
    state: &mut ClusterState,
    entry: &Entry,
    command: &DeploymentDelete,
    audit: &mut Audit<'_>,
) -> Outcome {
    let DeploymentDelete { name } = command;
    let Some(deployment) = state.deployments.remove(name) else {
        let message = format!("there is no deployment {name:?}");
        return Outcome::Rejected(Rejection::new(ErrorCode::DeploymentNotFound, message));
    };
    audit.event(
        AuditKind::Delete,
        [("deployment", name.to_string()), ("revision", deployment.revision.to_string())],
    );
    edge::settle(state, entry.at, name, audit);
    let services: Vec<ServiceKey> =
        state.scheduling.keys().filter(|key| key.deployment == *name).cloned().collect();
    for key in services {
        if let Some(record) = state.scheduling.get_mut(&key) {
            record.unplaced.clear();
            record.rollout = None;
            // A deployment that comes back under this name begins at its first revision again.
            record.planned_revision = Revision::default();
            record.modified = entry.index;
        }
    }
    disabled::forget_unwanted(state, entry.index, name);
    job::follow(state, entry, name, None, audit);
    content::settle(state, entry.at);
    images::settle(state, entry.at, audit);
    address::expire(state, entry.at);
    networks::settle(state);
    Outcome::Done
}

fn join<T: std::fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}
