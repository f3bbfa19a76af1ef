//! Applies and deletes deployments.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::audit::AuditKind;
use jaco_state::command::{AuditNote, DeploymentApply, DeploymentDelete, SpecChange};
use jaco_state::view::serving_revision;
use jaco_state::{ClusterState, Outcome};
use jaco_types::spec::DeploymentSpec;
use jaco_types::{Author, DeploymentName, ErrorCode, NodeId, Rejection, RequestId, Revision, Role};
use tracing::warn;

use super::preview::{check_preview, forecast_apply, required};
use crate::admission::{self, Admitted, Stored, volumes_of_others};
use crate::auth::permission::Concern;
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::invalid;
use crate::traced::{self, Step};

#[async_trait]
impl Write for v1::ApplyRequest {
    fn is_traced(&self) -> bool {
        !self.dry_run
    }

    async fn execute(self, member: &Member, by: Author) -> Result<v1::ApplyResponse, Rejection> {
        let place = traced::place_of(&self.traceparent).filter(|_| self.is_traced());
        let admission = Step::begin(member, place, "admission");
        let turn = member.gate.turn().await?;
        let stored = stored(member);
        let request = Arc::new(self);
        let judged = Arc::clone(&request);
        let admitted = turn.run(move || admission::admit(&judged, &stored)).await?;
        let Admitted { name, spec, reaches, mut warnings } = match admitted {
            Ok(admitted) => admitted,
            Err(rejection) => return Err(refused(member, by, &request, rejection).await),
        };
        member.admit(&by, [Concern::Deployment(&name)])?;
        let taken = (member.rights(&by)?.role() == Role::Deployer)
            .then(|| volumes_of_others(&name, &spec))
            .flatten();
        if let Some(rejection) = taken {
            return Err(refused(member, by, &request, rejection).await);
        }
        let spec = member.store.read(|state| for_all_members(state, spec, &mut warnings));
        if spec.needs_edges() {
            let known = match request.dry_run {
                true => member.store.read(upgraded::edges_may_begin),
                false => upgraded::begin_edges(member, by.clone()).await,
            };
            if let Err(rejection) = known {
                return Err(refused(member, by, &request, rejection).await);
            }
        }
        if spec.services.values().any(|service| !service.volumes.is_empty())
            && let Err(rejection) = member.store.read(upgraded::volume_classes_may_begin)
        {
            return Err(refused(member, by, &request, rejection).await);
        }
        if spec.services.values().any(|service| service.schedule.is_some())
            && let Err(rejection) = member.store.read(upgraded::runs_may_begin)
        {
            return Err(refused(member, by, &request, rejection).await);
        }
        let based_on = (request.based_on > 0).then_some(Revision(request.based_on));
        // A member that does not know them would write another audit event.
        let known = member.store.read(upgraded::reaches_are_known);
        let reaches = if known { reaches } else { BTreeMap::new() };
        let max = member.store.read(upgraded::replicas_max);
        let running =
            member.store.read(|state| upgraded::running(state, &name, &spec, &mut warnings));
        let command = DeploymentApply::new(name.clone(), spec).based_on(based_on).reaches(reaches);
        let trace = place.filter(|_| member.store.read(upgraded::traces_are_known));
        let command = command.replicas_max(max).trace(trace).running(running).into();
        if request.dry_run {
            required(&request.require_survive)?;
            let (revision, change, preview) = forecast_apply(member, by, command).await?;
            return Ok(v1::ApplyResponse {
                deployment: name.to_string(),
                revision: revision.0,
                change: change_name(change).to_owned(),
                warnings,
                preview: Some(preview),
                raft_index: 0,
            });
        }
        let has_requirements =
            !request.expected_digest.is_empty() || !request.require_survive.is_empty();
        if has_requirements && !was_executed(member, &request.request_id) {
            let forecast = forecast_apply(member, by.clone(), command.clone()).await;
            let checked = forecast.and_then(|(_, _, preview)| check_preview(&request, &preview));
            if let Err(rejection) = checked {
                return Err(refused(member, by, &request, rejection).await);
            }
        }
        if !was_executed(member, &request.request_id) {
            member.store.read(|state| check_made_from(state, &name, &request))?;
        }
        admission.done(|| vec![("jaco.deployment", name.to_string())]);
        let commit = Step::begin(member, place, "commit");
        let applied = member.commit(by, &request.request_id, command).await?;
        commit.done(|| vec![("jaco.raft_index", applied.index.to_string())]);
        let Outcome::Deployed { revision, change } = applied.outcome else {
            let message = "the request id was used for a request of another kind: use a new id";
            return Err(invalid(message));
        };
        Ok(v1::ApplyResponse {
            deployment: name.to_string(),
            revision: revision.0,
            change: change_name(change).to_owned(),
            warnings,
            preview: None,
            raft_index: applied.index.0,
        })
    }
}

/// What an apply is checked against, as of now.
fn stored(member: &Member) -> Stored {
    let raft = member.store.raft().status();
    let voters = raft.established_voters.iter().map(|id| NodeId(*id)).collect();
    member.store.read(|state| Stored {
        voters,
        contents: state.contents.clone(),
        named: state.named.clone(),
        nodes: state.nodes.clone(),
        deployments: state.deployments.clone(),
        scheduling: state.scheduling.clone(),
        networks: state.networks.clone(),
        edges: state.edges.clone(),
        now: member.clock.now(),
    })
}

/// Removes what older members cannot read: they stop at an entry with privileges. The retention is set once
/// all members know it.
fn for_all_members(
    state: &ClusterState,
    mut spec: DeploymentSpec,
    warnings: &mut Vec<String>,
) -> DeploymentSpec {
    if state.audit.retention.is_none() {
        spec.privileges = BTreeMap::new();
    }
    if let Err(outdated) = upgraded::resolvers_may_begin(state) {
        for service in spec.services.values_mut().filter(|one| !one.resolvers.is_empty()) {
            warnings.push(format!("service {}: {}", service.name, outdated.message));
            Arc::make_mut(service).resolvers.clear();
        }
    }
    spec
}

/// Audits a refused apply; nothing else is written (R-IN-3).
async fn refused(
    member: &Member,
    by: Author,
    request: &v1::ApplyRequest,
    rejection: Rejection,
) -> Rejection {
    if request.dry_run {
        return rejection;
    }
    let facts = [
        ("code", rejection.code.as_str().to_owned()),
        ("message", rejection.message.clone()),
        ("deployment", request.deployment.clone()),
    ];
    let payload = facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let command = AuditNote::new(AuditKind::RequestRefused, payload).into();
    if let Err(error) = member.commit(by, &request.request_id, command).await {
        warn!(%error, "could not audit a refused apply");
    }
    rejection
}

/// A change that was made from what served must not bring back what was given up meanwhile: the node that its asker read
/// from may not have known that. Whether the desired revision is still the same is checked by the commit.
fn check_made_from(
    state: &ClusterState,
    name: &DeploymentName,
    request: &v1::ApplyRequest,
) -> Result<(), Rejection> {
    let Some(deployment) = state.deployments.get(name) else { return Ok(()) };
    if request.made_from == 0 || request.based_on != deployment.revision.0 {
        return Ok(());
    }
    let made_from = Revision(request.made_from);
    if serving_revision(state, deployment) == Ok(made_from) {
        return Ok(());
    }
    let message = format!(
        "the change was made from revision {made_from} of {name}, which does not serve by now"
    );
    Err(Rejection::new(ErrorCode::StalePlan, message))
}

/// Whether this request was executed before. It is repeated because its answer was lost, so its own effect must
/// not make it stale.
fn was_executed(member: &Member, request_id: &str) -> bool {
    let Ok(id) = RequestId::new(request_id) else { return false };
    let known = |state: &ClusterState| {
        matches!(state.requests.outcome(&id), Some(Outcome::Deployed { .. }))
    };
    member.store.read(known)
}

pub(super) fn change_name(change: SpecChange) -> &'static str {
    match change {
        SpecChange::Created => "created",
        SpecChange::Updated => "updated",
        SpecChange::Unchanged => "unchanged",
    }
}

#[async_trait]
impl Write for v1::DeleteRequest {
    async fn execute(self, member: &Member, by: Author) -> Result<v1::DeleteResponse, Rejection> {
        let name = DeploymentName::new(&self.deployment).map_err(invalid)?;
        member.admit(&by, [Concern::Deployment(&name)])?;
        let command = DeploymentDelete::new(name).into();
        let applied = member.commit(by, &self.request_id, command).await?;
        Ok(v1::DeleteResponse { raft_index: applied.index.0 })
    }
}
