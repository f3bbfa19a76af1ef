//! What people want to run.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jaco_controller::leader_loop::Options;
use jaco_proto::v1::deploy_server::Deploy;
use jaco_proto::v1::{self};
use jaco_scheduler::{PlanInput, forecast};
use jaco_state::audit::AuditKind;
use jaco_state::command::SpecChange;
use jaco_state::{ClusterState, Command, Entry, Outcome, apply};
use jaco_types::spec::DeploymentSpec;
use jaco_types::{Author, DeploymentName, ErrorCode, Rejection, RequestId, Revision, StateIndex};
use tonic::{Request, Response, Status};
use tracing::warn;

use super::{Context, contents, named};
use crate::admission::{self, Admitted, Stored};
use crate::member::{Member, Write, name_if_unnamed};
use crate::preview::{Kind, preview, survives};
use crate::status::{invalid, to_status};

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

    async fn rollback(
        &self,
        request: Request<v1::RollbackRequest>,
    ) -> Result<Response<v1::RollbackResponse>, Status> {
        self.write(request).await
    }

    async fn pin_revision(
        &self,
        request: Request<v1::PinRevisionRequest>,
    ) -> Result<Response<v1::PinRevisionResponse>, Status> {
        self.write(request).await
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteResponse>, Status> {
        self.write(request).await
    }

    async fn missing_contents(
        &self,
        request: Request<v1::MissingContentsRequest>,
    ) -> Result<Response<v1::MissingContentsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let missing = contents::missing(&member, request.into_inner());
        missing.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn store_content(
        &self,
        request: Request<v1::StoreContentRequest>,
    ) -> Result<Response<v1::StoreContentResponse>, Status> {
        self.write(request).await
    }

    async fn remove_content(
        &self,
        request: Request<v1::RemoveContentRequest>,
    ) -> Result<Response<v1::RemoveContentResponse>, Status> {
        self.write(request).await
    }

    async fn list_contents(
        &self,
        request: Request<v1::ListContentsRequest>,
    ) -> Result<Response<v1::ListContentsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.recovered().await;
        let listed = member.store.read(|state| named::list(state, request.get_ref()));
        listed.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn put_contents(
        &self,
        request: Request<v1::PutContentsRequest>,
    ) -> Result<Response<v1::PutContentsResponse>, Status> {
        self.write(request).await
    }
}

#[async_trait]
impl Write for v1::ApplyRequest {
    const METHOD: &'static str = "/jaco.v1.Deploy/Apply";
    type Answer = v1::ApplyResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(self, member: &Member, by: Author) -> Result<v1::ApplyResponse, Rejection> {
        let stored = member.store.read(|state| Stored {
            contents: state.contents.clone(),
            named: state.named.clone(),
            nodes: state.nodes.clone(),
            deployments: state.deployments.clone(),
        });
        let Admitted { name, spec, warnings } = match admission::admit(&self, &stored) {
            Ok(admitted) => admitted,
            Err(rejection) => return Err(refused(member, by, &self, rejection).await),
        };
        let spec = member.store.read(|state| for_all_members(state, spec));
        let based_on = (self.based_on > 0).then_some(Revision(self.based_on));
        let command = Command::DeploymentApply { name: name.clone(), spec, based_on };
        if self.dry_run {
            required(&self.require_survive)?;
            let (revision, change, preview) = foretell(member, by, command).await?;
            return Ok(v1::ApplyResponse {
                deployment: name.to_string(),
                revision: revision.0,
                change: change_name(change).to_owned(),
                warnings,
                preview: Some(preview),
                raft_index: 0,
            });
        }
        let asks = !self.expected_digest.is_empty() || !self.require_survive.is_empty();
        if asks && !was_done(member, &self.request_id) {
            let told = foretell(member, by.clone(), command.clone()).await;
            let checked = told.and_then(|(_, _, preview)| check_preview(&self, &preview));
            if let Err(rejection) = checked {
                return Err(refused(member, by, &self, rejection).await);
            }
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
            preview: None,
            raft_index: applied.index.0,
        })
    }
}

/// A member of an older version stops at an entry that names privileges; the retention is written once
/// all are of this version.
fn for_all_members(state: &ClusterState, spec: DeploymentSpec) -> DeploymentSpec {
    match state.audit.retention {
        Some(_) => spec,
        None => DeploymentSpec { privileges: BTreeMap::new(), ..spec },
    }
}

/// A refused apply leaves no trace but its event (R-IN-3).
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
    let command = Command::AuditNote { kind: AuditKind::RequestRefused, payload };
    if let Err(error) = member.commit(by, &request.request_id, command).await {
        warn!(%error, "a refused apply could not be audited");
    }
    rejection
}

/// What an apply would do: the same functions that do it, on a copy. Off the threads that answer,
/// because it may take a second.
async fn foretell(
    member: &Member,
    by: Author,
    command: Command,
) -> Result<(Revision, SpecChange, v1::Preview), Rejection> {
    let before = member.store.read(ClusterState::for_decisions);
    let (signals, now) = (member.signals.snapshot(), member.clock.now());
    let Author { by, origin } = by;
    let work = move || {
        let mut state = before.clone();
        let index = StateIndex(state.index.0 + 1);
        let outcome =
            apply(&mut state, &Entry { index, at: now, by, origin, request: None, command });
        let (revision, change) = match outcome {
            Outcome::Deployed { revision, change } => (revision, change),
            Outcome::Rejected(rejection) => return Err(rejection),
            Outcome::Done | Outcome::NodeAdmitted { .. } => return Err(invalid("not an apply")),
        };
        let config = Options::default().planner;
        let input = PlanInput { state: &state, signals: &signals, now, config: &config };
        Ok((revision, change, preview(&before, &forecast(&input), &config)))
    };
    let told = tokio::task::spawn_blocking(work).await;
    told.map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?
}

/// Whether this very request was carried out before: it is sent again because its answer was lost,
/// and what it did must not make it stale.
fn was_done(member: &Member, request_id: &str) -> bool {
    let Ok(id) = RequestId::new(request_id) else { return false };
    let known = |state: &ClusterState| {
        matches!(state.requests.outcome(&id), Some(Outcome::Deployed { .. }))
    };
    member.store.read(known)
}

/// Whether what the sender asks of the outcome holds.
fn check_preview(request: &v1::ApplyRequest, preview: &v1::Preview) -> Result<(), Rejection> {
    let v1::ApplyRequest { expected_digest, require_survive, .. } = request;
    if !expected_digest.is_empty() && *expected_digest != preview.digest {
        let message =
            "the cluster has moved since the plan was made, and would do something else now";
        return Err(Rejection::new(ErrorCode::StalePlan, message));
    }
    match required(require_survive)? {
        Some(kind) => survives(preview, kind),
        None => Ok(()),
    }
}

/// What the sender wants to be able to lose.
fn required(text: &str) -> Result<Option<Kind>, Rejection> {
    if text.is_empty() {
        return Ok(None);
    }
    let kind = Kind::parse(text).ok_or_else(|| {
        invalid(format!("require_survive is {text:?}: write \"node\" or \"zone\""))
    })?;
    Ok(Some(kind))
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
    const METHOD: &'static str = "/jaco.v1.Deploy/Delete";
    type Answer = v1::DeleteResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(self, member: &Member, by: Author) -> Result<v1::DeleteResponse, Rejection> {
        let name = DeploymentName::new(&self.deployment).map_err(invalid)?;
        let command = Command::DeploymentDelete { name };
        let applied = member.commit(by, &self.request_id, command).await?;
        Ok(v1::DeleteResponse { raft_index: applied.index.0 })
    }
}
