//! The placement in a hypothetical cluster.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_scheduler::{Hypothesis, PlanInput, forecast, suppose};
use jaco_state::ClusterState;
use jaco_types::spec::{MAX_REPLICAS, Placement};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{ErrorCode, Gpu, Hostname, NodeFacts, Rejection};

use super::input::{Present, compute, not_found, service};
use crate::forward::LeaderRead;
use crate::member::Member;
use crate::preview::preview;
use crate::status::invalid;

/// The most hypothetical nodes of one question.
const ADDED_MAX: usize = 1000;

#[async_trait]
impl LeaderRead for v1::WhatifRequest {
    async fn answer(self, member: &Member) -> Result<v1::WhatifResponse, Rejection> {
        let voters = member.store.raft().status().voters;
        compute(member, move |present| answered(present, &self, &voters)).await
    }
}

fn answered(
    present: &Present,
    request: &v1::WhatifRequest,
    voters: &BTreeSet<u64>,
) -> Result<v1::WhatifResponse, Rejection> {
    let hypothesis = hypothesis(&present.state, request)?;
    let (state, signals) = suppose(&present.input(), &hypothesis)?;
    let forecast = forecast(&PlanInput { state: &state, signals: &signals, ..present.input() });
    let preview = preview(&present.state, &forecast, &present.config, voters);
    Ok(v1::WhatifResponse { preview: Some(preview) })
}

fn hypothesis(state: &ClusterState, request: &v1::WhatifRequest) -> Result<Hypothesis, Rejection> {
    let mut hypothesis = Hypothesis::default();
    let find = |name: &String| {
        let hostname = Hostname::new(name).map_err(invalid)?;
        let node = state.node_by_hostname(&hostname).map(|node| node.id);
        node.ok_or_else(|| not_found(ErrorCode::NodeNotFound, "node", name))
    };
    hypothesis.lost = request.lose.iter().map(find).collect::<Result<_, _>>()?;
    hypothesis.drained = request.drain.iter().map(find).collect::<Result<_, _>>()?;
    if request.add.len() > ADDED_MAX {
        return Err(invalid(format!("at most {ADDED_MAX} nodes can be added in one question")));
    }
    let members: BTreeSet<&Hostname> = state.nodes.values().map(|node| &node.hostname).collect();
    for node in &request.add {
        let hostname = Hostname::new(&node.hostname).map_err(invalid)?;
        if usize::try_from(node.gpus).is_ok_and(|count| count > Gpu::PER_NODE_MAX) {
            let most = Gpu::PER_NODE_MAX;
            let message = format!("node {}: a node has at most {most} GPUs", node.hostname);
            return Err(invalid(message));
        }
        let known = members.contains(&hostname);
        if known || hypothesis.added.insert(hostname, facts(node)).is_some() {
            let message = format!(
                "there is already a node {}: give the added one another name",
                node.hostname
            );
            return Err(Rejection::new(ErrorCode::NodeAlreadyMember, message));
        }
    }
    for scale in &request.scale {
        let key = service(state, &scale.deployment, &scale.service)?;
        let wanted = state.deployments.get(&key.deployment);
        let spec = wanted.and_then(|wanted| wanted.spec().services.get(&key.service));
        if spec.is_some_and(|spec| spec.placement == Placement::Global) {
            return Err(invalid(format!("{key} is global: it has one replica per node")));
        }
        if scale.replicas > MAX_REPLICAS {
            return Err(invalid(format!("a deployment has at most {MAX_REPLICAS} replicas")));
        }
        hypothesis.scaled.insert(key, scale.replicas);
    }
    Ok(hypothesis)
}

fn gpu(node: &v1::HypotheticalNode, number: u32) -> Gpu {
    let driver = match node.gpu_driver.as_str() {
        "" => "nvidia".to_owned(),
        driver => driver.to_owned(),
    };
    let id = format!("hypothetical-{number}").into();
    Gpu { id, driver, model: String::new(), memory: Bytes(0) }
}

fn facts(node: &v1::HypotheticalNode) -> NodeFacts {
    NodeFacts {
        os: node.os.clone(),
        arch: node.arch.clone(),
        capacity: Resources { cpu: MilliCores(node.cpu_millis), memory: Bytes(node.memory_bytes) },
        labels: node.labels.clone().into_iter().collect(),
        gpus: (0..node.gpus).map(|number| gpu(node, number)).collect(),
        ..NodeFacts::default()
    }
}
