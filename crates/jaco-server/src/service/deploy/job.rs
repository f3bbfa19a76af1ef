//! Runs jobs now.

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::JobStart;
use jaco_types::{Author, DeploymentName, Rejection, ServiceKey, ServiceName, StateIndex};

use crate::auth::permission::Concern;
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::invalid;

#[async_trait]
impl Write for v1::RunJobRequest {
    async fn execute(self, member: &Member, by: Author) -> Result<v1::RunJobResponse, Rejection> {
        let deployment = DeploymentName::new(&self.deployment).map_err(invalid)?;
        member.admit(&by, [Concern::Deployment(&deployment)])?;
        let service = ServiceName::new(&self.service).map_err(invalid)?;
        let service = ServiceKey { deployment, service };
        member.store.read(upgraded::runs_may_begin)?;
        let command = JobStart::new(service.clone()).into();
        let applied = member.commit(by, &self.request_id, command).await?;
        let number = member.store.read(|state| number(state, &service, applied.index));
        Ok(v1::RunJobResponse { number, raft_index: applied.index.0 })
    }
}

/// The run that an entry began, or the newest one where that is not kept any more.
fn number(state: &ClusterState, service: &ServiceKey, begun: StateIndex) -> u64 {
    let Some(record) = state.jobs.get(service) else { return 0 };
    let runs = record.ended.iter().map(|ended| &ended.run).chain(&record.open);
    let mut runs = runs.filter(|run| run.begun == begun);
    runs.next().map_or(record.runs, |run| run.number)
}
