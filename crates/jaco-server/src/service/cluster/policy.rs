//! What deployments may reach of the nodes (R-IN-6). What is refused is decided where entries are applied.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jaco_compose::reach::reaches;
use jaco_proto::v1;
use jaco_state::command::{Command, PolicyAllow, PolicyRevoke, PolicySet};
use jaco_state::policy::{PolicyMode, allow_command};
use jaco_state::{ClusterState, Deployment};
use jaco_types::spec::Reach;
use jaco_types::{Author, DeploymentName, Rejection};

use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::invalid;

#[async_trait]
impl Write for v1::SetPolicyRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::SetPolicyResponse, Rejection> {
        let mode = PolicyMode::ALL.iter().copied().find(|mode| mode.as_str() == self.mode);
        let mode = mode.ok_or_else(|| invalid("the policy is warn or refuse"))?;
        let policy = change(member, by, &self.request_id, PolicySet::new(mode).into()).await?;
        Ok(v1::SetPolicyResponse { policy: Some(policy) })
    }
}

#[async_trait]
impl Write for v1::AllowReachesRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::AllowReachesResponse, Rejection> {
        let (deployment, reaches) = parsed(&self.deployment, &self.reaches)?;
        let command = PolicyAllow::new(deployment, reaches).into();
        let policy = change(member, by, &self.request_id, command).await?;
        Ok(v1::AllowReachesResponse { policy: Some(policy) })
    }
}

#[async_trait]
impl Write for v1::RevokeReachesRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RevokeReachesResponse, Rejection> {
        let (deployment, reaches) = parsed(&self.deployment, &self.reaches)?;
        let command = PolicyRevoke::new(deployment, reaches).into();
        let policy = change(member, by, &self.request_id, command).await?;
        Ok(v1::RevokeReachesResponse { policy: Some(policy) })
    }
}

fn parsed(
    deployment: &str,
    reaches: &[String],
) -> Result<(DeploymentName, BTreeSet<Reach>), Rejection> {
    let deployment = DeploymentName::new(deployment).map_err(invalid)?;
    let reaches = reaches.iter().map(|text| Reach::parse(text).map_err(invalid));
    Ok((deployment, reaches.collect::<Result<_, _>>()?))
}

async fn change(
    member: &Member,
    by: Author,
    request_id: &str,
    command: Command,
) -> Result<v1::PolicyInfo, Rejection> {
    member.store.read(upgraded::policy_may_begin)?;
    member.commit(by, request_id, command).await?;
    Ok(member.store.read(info))
}

/// The policy, and who would be refused by it at the next change.
pub(super) fn info(state: &ClusterState) -> v1::PolicyInfo {
    let grants = state.policy.grants.iter().map(|(deployment, reaches)| v1::DeploymentReaches {
        deployment: deployment.to_string(),
        reaches: reaches.iter().map(ToString::to_string).collect(),
    });
    v1::PolicyInfo {
        mode: state.policy.mode.as_str().to_owned(),
        grants: grants.collect(),
        ungranted: state.deployments.values().flat_map(|one| ungranted(state, one)).collect(),
    }
}

fn ungranted(state: &ClusterState, deployment: &Deployment) -> Vec<v1::UngrantedReaches> {
    let services = deployment.spec().services.values().filter_map(|service| {
        let reaches = reaches(&service.container).ok()?;
        let missing = state.policy.ungranted(&deployment.name, &reaches);
        (!missing.is_empty()).then(|| v1::UngrantedReaches {
            deployment: deployment.name.to_string(),
            service: service.name.to_string(),
            reaches: missing.iter().map(ToString::to_string).collect(),
            command: allow_command(&deployment.name, &missing),
        })
    });
    services.collect()
}
