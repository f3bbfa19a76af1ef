//! What people want to run.

use async_trait::async_trait;
use jaco_controller::leader_loop::Options;
use jaco_proto::v1::deploy_server::Deploy;
use jaco_proto::v1::{self};
use jaco_scheduler::{PlanInput, plan};
use jaco_state::audit::AuditKind;
use jaco_state::command::{Previous, SpecChange};
use jaco_state::{Change, ClusterState, Command, Entry, Outcome, apply};
use jaco_types::{DeploymentName, Identity, Rejection, ReplicaId, StateIndex};
use tonic::{Request, Response, Status};
use tracing::warn;

use super::Context;
use crate::admission::{self, Admitted};
use crate::member::{Member, Write};
use crate::status::{invalid, to_status};
use crate::view;

/// The service.
#[derive(Debug)]
pub struct DeployService {
    context: Context,
}

impl DeployService {
    /// The service over this context.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn write<W: Write>(&self, request: Request<W>) -> Result<Response<W::Answer>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let answer = member.write(by, request.into_inner()).await;
        answer.map(Response::new).map_err(|rejection| to_status(&rejection))
    }
}

#[async_trait]
impl Deploy for DeployService {
    async fn apply(
        &self,
        request: Request<v1::ApplyRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        self.write(request).await
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteResponse>, Status> {
        self.write(request).await
    }
}

#[async_trait]
impl Write for v1::ApplyRequest {
    const METHOD: &'static str = "/jaco.v1.Deploy/Apply";
    type Answer = v1::ApplyResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        if self.request_id.is_empty() {
            self.request_id = fresh();
        }
    }

    async fn execute(self, member: &Member, by: Identity) -> Result<v1::ApplyResponse, Rejection> {
        let Admitted { name, spec, warnings } = match admission::admit(&self) {
            Ok(admitted) => admitted,
            Err(rejection) => return Err(refused(member, by, &self, rejection).await),
        };
        let command = Command::DeploymentApply { name: name.clone(), spec };
        if self.dry_run {
            return dry_run(member, by, &name, command, warnings);
        }
        let applied = member.commit(by, &self.request_id, command).await?;
        let Outcome::Deployed { revision, change } = applied.outcome else {
            let message = "the request id belongs to an earlier request of another kind";
            return Err(invalid(message));
        };
        Ok(v1::ApplyResponse {
            deployment: name.to_string(),
            revision: revision.0,
            change: change_name(change).to_owned(),
            warnings,
            planned: Vec::new(),
            raft_index: applied.index.0,
        })
    }
}

/// A refused apply leaves no trace but its event (R-IN-3).
async fn refused(
    member: &Member,
    by: Identity,
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
    let command = Command::AuditNote { kind: AuditKind::RequestRefused, payload };
    if let Err(error) = member.commit(by, &request.request_id, command).await {
        warn!(%error, "a refused apply could not be audited");
    }
    rejection
}

/// What an apply would do: the same functions that do it, on a copy.
fn dry_run(
    member: &Member,
    by: Identity,
    name: &DeploymentName,
    command: Command,
    warnings: Vec<String>,
) -> Result<v1::ApplyResponse, Rejection> {
    let mut state = member.store.read(Clone::clone);
    let now = member.clock.now();
    let index = StateIndex(state.index.0 + 1);
    let outcome = apply(&mut state, &Entry { index, at: now, by, request: None, command });
    let (revision, change) = match outcome {
        Outcome::Deployed { revision, change } => (revision, change),
        Outcome::Rejected(rejection) => return Err(rejection),
        Outcome::Done | Outcome::NodeAdmitted { .. } => return Err(invalid("not an apply")),
    };
    let signals = member.signals.snapshot();
    let config = Options::default().planner;
    let plan = plan(&PlanInput { state: &state, signals: &signals, now, config: &config });
    let planned = plan.changes.iter().filter_map(|change| planned(&state, name, change));
    Ok(v1::ApplyResponse {
        deployment: name.to_string(),
        revision: revision.0,
        change: change_name(change).to_owned(),
        warnings,
        planned: planned.collect(),
        raft_index: 0,
    })
}

/// What a change does to a replica of this deployment, if it does anything.
fn planned(
    state: &ClusterState,
    name: &DeploymentName,
    change: &Change,
) -> Option<v1::PlannedChange> {
    let of_ours =
        |id: &ReplicaId| state.slots.get(id).filter(|slot| slot.service.deployment == *name);
    let row = |action: &str, id: &ReplicaId, node: String, reason: &str| v1::PlannedChange {
        action: action.to_owned(),
        replica: id.to_string(),
        node,
        reason: reason.to_owned(),
    };
    match change {
        Change::SlotCreate { id, service, instance, .. } => (service.deployment == *name)
            .then(|| row("create", id, view::hostname(state, instance.node), "new replica")),
        Change::SlotReplace { id, instance, previous, cause, .. } => of_ours(id).map(|_| {
            let action = match previous {
                Previous::Retire => "replace, start first",
                Previous::Drop => "replace, stop first",
            };
            row(action, id, view::hostname(state, instance.node), cause.as_str())
        }),
        Change::SlotRemove { id } => of_ours(id).map(|slot| {
            row("remove", id, view::hostname(state, slot.current.node), "not wanted any more")
        }),
        Change::SlotSettle { .. }
        | Change::SlotRevert { .. }
        | Change::SlotSetRestarts { .. }
        | Change::SchedulingSet { .. }
        | Change::NodeStatusSet { .. } => None,
    }
}

fn change_name(change: SpecChange) -> &'static str {
    match change {
        SpecChange::Created => "created",
        SpecChange::Updated => "updated",
        SpecChange::Unchanged => "unchanged",
    }
}

#[async_trait]
impl Write for v1::DeleteRequest {
    const METHOD: &'static str = "/jaco.v1.Deploy/Delete";
    type Answer = v1::DeleteResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        if self.request_id.is_empty() {
            self.request_id = fresh();
        }
    }

    async fn execute(self, member: &Member, by: Identity) -> Result<v1::DeleteResponse, Rejection> {
        let name = DeploymentName::new(&self.deployment).map_err(invalid)?;
        let command = Command::DeploymentDelete { name };
        let applied = member.commit(by, &self.request_id, command).await?;
        Ok(v1::DeleteResponse { raft_index: applied.index.0 })
    }
}
