//! Why a service has replicas on its nodes and not on others.

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_scheduler::explain::{NodeAnswer, NodeScore, SpreadShare, explain, spread_shares};
use jaco_scheduler::suggestion::smallest_change;
use jaco_state::ClusterState;
use jaco_state::view::held_spec;
use jaco_types::spec::Placement;
use jaco_types::{ErrorCode, Rejection, Slot};

use super::input::{Present, compute, not_found, service};
use crate::forward::LeaderRead;
use crate::member::Member;
use crate::view;

#[async_trait]
impl LeaderRead for v1::ExplainRequest {
    async fn answer(self, member: &Member) -> Result<v1::ExplainResponse, Rejection> {
        compute(member, move |present| explained(present, &self)).await
    }
}

fn explained(
    present: &Present,
    request: &v1::ExplainRequest,
) -> Result<v1::ExplainResponse, Rejection> {
    let state = &present.state;
    let slot = replica(state, &request.replica)?;
    let key = match slot {
        Some(slot) => slot.service.clone(),
        None => service(state, &request.deployment, &request.service)?,
    };
    let missing = || not_found(ErrorCode::ServiceNotFound, "service", &key.to_string());
    let answers = explain(&present.input(), &key).ok_or_else(missing)?;
    let shares = spread_shares(&present.input(), &key).unwrap_or_default();
    let deployment = state.deployments.get(&key.deployment).ok_or_else(missing)?;
    let spec = held_spec(state, deployment, &key.service).ok_or_else(missing)?;
    let of_service = state.slots.values().filter(|slot| slot.service == key);
    let unplaced = state.scheduling.get(&key).map(|record| record.unplaced.clone());
    let waits = unplaced.unwrap_or_default().into_iter().map(|entry| v1::PlannedWait {
        deployment: key.deployment.to_string(),
        service: key.service.to_string(),
        count: entry.count,
        reason: entry.reason,
        details: entry.details.into_iter().collect(),
    });
    Ok(v1::ExplainResponse {
        deployment: key.deployment.to_string(),
        service: key.service.to_string(),
        placement: spec.placement.as_str().to_owned(),
        desired: if spec.placement == Placement::Global { 0 } else { spec.replicas },
        present: u32::try_from(of_service.count()).unwrap_or(u32::MAX),
        replica: request.replica.clone(),
        replica_node: slot.map(|slot| view::hostname(state, slot.current.node)).unwrap_or_default(),
        nodes: answers.iter().map(node_answer).collect(),
        waits: waits.collect(),
        smallest_change: smallest_change(&answers)
            .map(|change| change.describe().collect())
            .unwrap_or_default(),
        shares: shares.into_iter().map(spread_share).collect(),
    })
}

fn spread_share(share: SpreadShare) -> v1::SpreadShare {
    let SpreadShare { attribute, value, desired, actual } = share;
    v1::SpreadShare { attribute, value, desired, actual }
}

fn node_score(score: NodeScore) -> v1::NodeScore {
    let NodeScore { fit, anti_affinity, affinity, spread, total } = score;
    v1::NodeScore { fit, anti_affinity, affinity, spread, total }
}

fn node_answer(answer: &NodeAnswer) -> v1::NodeAnswer {
    let rule = |rule: &jaco_scheduler::Ineligible| v1::FailedRule {
        rule: rule.as_str().to_owned(),
        text: rule.to_string(),
    };
    let facts = answer.facts;
    v1::NodeAnswer {
        node: answer.hostname.to_string(),
        failed: answer.failed.iter().map(rule).collect(),
        affinity: facts.affinity,
        of_service: facts.of_service,
        of_all: facts.of_all,
        cpu_left_millis: facts.cpu_left.map(|left| left.0),
        memory_left_bytes: facts.memory_left.map(|left| left.0),
        score: answer.score.map(node_score),
    }
}

/// The replica in the request, if there is one.
fn replica<'a>(state: &'a ClusterState, name: &str) -> Result<Option<&'a Slot>, Rejection> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = state.slots.values().find(|slot| slot.id.as_str() == name);
    found.map(Some).ok_or_else(|| not_found(ErrorCode::ReplicaNotFound, "replica", name))
}
