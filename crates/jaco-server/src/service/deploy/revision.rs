//! Revisions: history, rollback, pinning.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use jaco_compose::reach::reaches;
use jaco_proto::v1;
use jaco_state::apply::deployment::bound::CLUSTER_REPLICAS_MAX;
use jaco_state::apply::deployment::revision::previous_good;
use jaco_state::command::{DeploymentRollback, RevisionPin};
use jaco_state::deployment::{Pin, RevisionRecord};
use jaco_state::{ClusterState, Entry, Outcome, apply};
use jaco_types::spec::Reach;
use jaco_types::{Author, DeploymentName, ErrorCode, Rejection, Revision, ServiceName, StateIndex};

use super::apply::change_name;
use crate::auth::permission::Concern;
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::invalid;
use crate::view;

#[async_trait]
impl Write for v1::RollbackRequest {
    async fn execute(self, member: &Member, by: Author) -> Result<v1::RollbackResponse, Rejection> {
        let name = DeploymentName::new(&self.deployment).map_err(invalid)?;
        member.admit(&by, [Concern::Deployment(&name)])?;
        let to = (self.to > 0).then_some(Revision(self.to));
        let (to, reaches) = member.store.read(|state| restored(state, &name, to));
        let command = DeploymentRollback::new(name.clone()).to(to).reaches(reaches);
        check_replicas(member, &by, &command)?;
        let max = member.store.read(upgraded::replicas_max);
        let command = command.replicas_max(max).into();
        let applied = member.commit(by, &self.request_id, command).await?;
        let Outcome::Deployed { revision, change } = applied.outcome else {
            return Err(invalid(
                "the request id was used for a request of another kind: use a new id",
            ));
        };
        let restores = member.store.read(|state| {
            let record = state.deployments.get(&name)?.revisions.get(&revision)?;
            record.restores
        });
        Ok(v1::RollbackResponse {
            deployment: name.to_string(),
            revision: revision.0,
            change: change_name(change).to_owned(),
            restores: restores.or(to).map_or(0, |restores| restores.0),
            raft_index: applied.index.0,
        })
    }
}

/// Refuses a rollback to more replicas than a cluster may have, also as long as a member does not know that bound. Carried
/// out on a copy of the state; another refusal of that is left to the commit.
fn check_replicas(
    member: &Member,
    by: &Author,
    command: &DeploymentRollback,
) -> Result<(), Rejection> {
    let mut state = member.store.read(ClusterState::for_decisions);
    let Author { by, origin } = by.clone();
    let (index, at) = (StateIndex(state.index.0 + 1), member.clock.now());
    let command = command.clone().replicas_max(Some(CLUSTER_REPLICAS_MAX)).into();
    let outcome = apply(&mut state, &Entry { index, at, by, origin, request: None, command });
    if let Outcome::Rejected(rejection) = outcome
        && rejection.code == ErrorCode::TooLarge
    {
        return Err(rejection);
    }
    Ok(())
}

/// The revision that a rollback restores, and what it reaches. It is fixed here, so that what was looked at is what is
/// restored.
fn restored(
    state: &ClusterState,
    name: &DeploymentName,
    to: Option<Revision>,
) -> (Option<Revision>, BTreeMap<ServiceName, BTreeSet<Reach>>) {
    let none = (to, BTreeMap::new());
    let Some(deployment) = state.deployments.get(name) else { return none };
    let to = to.or_else(|| previous_good(deployment));
    let record = to.and_then(|to| deployment.revisions.get(&to));
    let Some(record) = record.filter(|_| upgraded::reaches_are_known(state)) else { return none };
    let services = record.spec.services.values().filter_map(|service| {
        let reaches = reaches(&service.container).ok()?;
        (!reaches.is_empty()).then(|| (service.name.clone(), reaches))
    });
    let reaches: BTreeMap<_, _> = services.collect();
    if reaches.is_empty() { none } else { (to, reaches) }
}

#[async_trait]
impl Write for v1::PinRevisionRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::PinRevisionResponse, Rejection> {
        let name = DeploymentName::new(&self.deployment).map_err(invalid)?;
        member.admit(&by, [Concern::Deployment(&name)])?;
        let pin = if self.pinned { Pin::Yes } else { Pin::No };
        let command = RevisionPin::new(name, Revision(self.revision), pin).into();
        member.commit(by, &self.request_id, command).await?;
        Ok(v1::PinRevisionResponse {})
    }
}

/// The revisions of a deployment that are kept, oldest first.
pub(in crate::service) fn history(
    state: &ClusterState,
    request: &v1::HistoryRequest,
) -> Result<v1::HistoryResponse, Rejection> {
    let name = DeploymentName::new(&request.deployment).map_err(invalid)?;
    let Some(deployment) = state.deployments.get(&name) else {
        let message = format!("there is no deployment {name}");
        return Err(Rejection::new(ErrorCode::DeploymentNotFound, message));
    };
    let mut replicas: BTreeMap<Revision, u32> = BTreeMap::new();
    for slot in jaco_state::view::slots_of(state, &name) {
        *replicas.entry(slot.current.revision).or_default() += 1;
    }
    let info = |(revision, record): (&Revision, &std::sync::Arc<RevisionRecord>)| {
        let services = record.spec.services.values();
        v1::RevisionInfo {
            revision: revision.0,
            applied_at_ms: view::millis(record.applied_at),
            applied_by: record.applied_by.to_string(),
            restores: record.restores.map_or(0, |restores| restores.0),
            pinned: record.pin == Pin::Yes,
            failure: record.failure.clone(),
            replicas: replicas.get(revision).copied().unwrap_or_default(),
            images: services.map(|s| (s.name.to_string(), s.image.to_string())).collect(),
            digests: record.digests.iter().map(|(s, d)| (s.to_string(), d.to_string())).collect(),
        }
    };
    Ok(v1::HistoryResponse {
        deployment: name.to_string(),
        revision: deployment.revision.0,
        revisions: deployment.revisions.iter().map(info).collect(),
    })
}
