//! Questions to the planner. The leader answers: only it hears the nodes.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jaco_controller::leader_loop::Options;
use jaco_proto::v1;
use jaco_proto::v1::planner_server::Planner;
use jaco_scheduler::explain::NodeAnswer;
use jaco_scheduler::remedy::smallest_change;
use jaco_scheduler::{Imagined, PlanInput, PlannerConfig, Signals, explain, forecast, imagine};
use jaco_state::ClusterState;
use jaco_types::spec::Placement;
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    Author, DeploymentName, ErrorCode, Gpu, Hostname, NodeFacts, Rejection, ServiceKey,
    ServiceName, Slot, Timestamp,
};
use tonic::{Request, Response, Status};

use super::Context;
use crate::member::{Member, Write};
use crate::preview::preview;
use crate::status::{invalid, to_status};
use crate::view;

/// More nodes are not imagined: an answer is waited for.
const ADDED_MAX: usize = 1000;

/// The service.
#[derive(Debug)]
pub struct PlannerService {
    context: Context,
}

impl PlannerService {
    /// The service over this context.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn ask<W: Write>(&self, request: Request<W>) -> Result<Response<W::Answer>, Status> {
        let (member, by) = self.context.identify(&request)?;
        let answer = member.write(by, request.into_inner()).await;
        answer.map(Response::new).map_err(|rejection| to_status(&rejection))
    }
}

#[async_trait]
impl Planner for PlannerService {
    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        self.ask(request).await
    }

    async fn whatif(
        &self,
        request: Request<v1::WhatifRequest>,
    ) -> Result<Response<v1::WhatifResponse>, Status> {
        self.ask(request).await
    }

    async fn top(
        &self,
        request: Request<v1::TopRequest>,
    ) -> Result<Response<v1::TopResponse>, Status> {
        self.ask(request).await
    }

    async fn rebalance(
        &self,
        request: Request<v1::RebalanceRequest>,
    ) -> Result<Response<v1::RebalanceResponse>, Status> {
        self.ask(request).await
    }
}

/// What a pass would look at now.
struct Present {
    state: ClusterState,
    signals: Signals,
    now: Timestamp,
    config: PlannerConfig,
}

impl Present {
    fn of(member: &Member) -> Self {
        Self {
            state: member.store.read(ClusterState::for_decisions),
            signals: member.signals.snapshot(),
            now: member.clock.now(),
            config: Options::default().planner,
        }
    }

    fn input(&self) -> PlanInput<'_> {
        let Self { state, signals, now, config } = self;
        PlanInput { state, signals, now: *now, config }
    }
}

/// Works an answer out off the threads that answer: it may take a second.
async fn work_out<T: Send + 'static>(
    member: &Member,
    work: impl FnOnce(&Present) -> Result<T, Rejection> + Send + 'static,
) -> Result<T, Rejection> {
    let present = Present::of(member);
    let done = tokio::task::spawn_blocking(move || work(&present)).await;
    done.map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?
}

#[async_trait]
impl Write for v1::ExplainRequest {
    const METHOD: &'static str = "/jaco.v1.Planner/Explain";
    type Answer = v1::ExplainResponse;

    /// It changes nothing, so it needs no name.
    fn name(&mut self, _: &dyn Fn() -> String) {}

    async fn execute(self, member: &Member, _: Author) -> Result<v1::ExplainResponse, Rejection> {
        work_out(member, move |present| explained(present, &self)).await
    }
}

#[async_trait]
impl Write for v1::WhatifRequest {
    const METHOD: &'static str = "/jaco.v1.Planner/Whatif";
    type Answer = v1::WhatifResponse;

    /// It changes nothing, so it needs no name.
    fn name(&mut self, _: &dyn Fn() -> String) {}

    async fn execute(self, member: &Member, _: Author) -> Result<v1::WhatifResponse, Rejection> {
        work_out(member, move |present| answered(present, &self)).await
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
    let wanted = state.deployments.get(&key.deployment);
    let wanted = wanted.and_then(|wanted| wanted.spec().services.get(&key.service));
    let spec = wanted.ok_or_else(missing)?;
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
        wanted: if spec.placement == Placement::Global { 0 } else { spec.replicas },
        present: u32::try_from(of_service.count()).unwrap_or(u32::MAX),
        replica: request.replica.clone(),
        replica_node: slot.map(|slot| view::hostname(state, slot.current.node)).unwrap_or_default(),
        nodes: answers.iter().map(node_answer).collect(),
        waits: waits.collect(),
        smallest_change: smallest_change(&answers)
            .map(|change| change.describe().collect())
            .unwrap_or_default(),
    })
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
    }
}

/// The replica of this name, if one is asked about.
fn replica<'a>(state: &'a ClusterState, name: &str) -> Result<Option<&'a Slot>, Rejection> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = state.slots.values().find(|slot| slot.id.as_str() == name);
    found.map(Some).ok_or_else(|| not_found(ErrorCode::ReplicaNotFound, "replica", name))
}

/// The service that is meant; its deployment may be left out where only one has it.
fn service(state: &ClusterState, deployment: &str, service: &str) -> Result<ServiceKey, Rejection> {
    let name = ServiceName::new(service).map_err(invalid)?;
    let has = |wanted: &jaco_state::Deployment| wanted.spec().services.contains_key(&name);
    let key = |deployment: &DeploymentName| ServiceKey {
        deployment: deployment.clone(),
        service: name.clone(),
    };
    if !deployment.is_empty() {
        let known = DeploymentName::new(deployment).map_err(invalid)?;
        let wanted = state.deployments.get(&known);
        let missing = || not_found(ErrorCode::DeploymentNotFound, "deployment", deployment);
        let wanted = wanted.ok_or_else(missing)?;
        let missing =
            || not_found(ErrorCode::ServiceNotFound, "service", &format!("{deployment}/{service}"));
        return has(wanted).then(|| key(&known)).ok_or_else(missing);
    }
    let mut found = state.deployments.values().filter(|wanted| has(wanted));
    match (found.next(), found.next()) {
        (None, _) => Err(not_found(ErrorCode::ServiceNotFound, "service", service)),
        (Some(only), None) => Ok(key(&only.name)),
        (Some(one), Some(other)) => Err(invalid(format!(
            "{} and {} both have a service {service}: write DEPLOYMENT/SERVICE",
            one.name, other.name
        ))),
    }
}

fn not_found(code: ErrorCode, what: &str, name: &str) -> Rejection {
    Rejection::new(code, format!("there is no {what} {name}"))
}

fn answered(
    present: &Present,
    request: &v1::WhatifRequest,
) -> Result<v1::WhatifResponse, Rejection> {
    let imagined = imagined(&present.state, request)?;
    let (state, signals) = imagine(&present.input(), &imagined)?;
    let told = forecast(&PlanInput { state: &state, signals: &signals, ..present.input() });
    Ok(v1::WhatifResponse { preview: Some(preview(&present.state, &told, &present.config)) })
}

fn imagined(state: &ClusterState, request: &v1::WhatifRequest) -> Result<Imagined, Rejection> {
    let mut imagined = Imagined::default();
    let find = |name: &String| {
        let hostname = Hostname::new(name).map_err(invalid)?;
        let node = state.node_by_hostname(&hostname).map(|node| node.id);
        node.ok_or_else(|| not_found(ErrorCode::NodeNotFound, "node", name))
    };
    imagined.lost = request.lose.iter().map(find).collect::<Result<_, _>>()?;
    imagined.drained = request.drain.iter().map(find).collect::<Result<_, _>>()?;
    if request.add.len() > ADDED_MAX {
        return Err(invalid(format!("at most {ADDED_MAX} nodes can be added to a question")));
    }
    let members: BTreeSet<&Hostname> = state.nodes.values().map(|node| &node.hostname).collect();
    for node in &request.add {
        let hostname = Hostname::new(&node.hostname).map_err(invalid)?;
        if usize::try_from(node.gpus).is_ok_and(|count| count > Gpu::PER_NODE_MAX) {
            let most = Gpu::PER_NODE_MAX;
            let message = format!("{}: a node has {most} GPUs at most", node.hostname);
            return Err(invalid(message));
        }
        let known = members.contains(&hostname);
        if known || imagined.added.insert(hostname, facts(node)).is_some() {
            let message =
                format!("there is a node {} already: give it another name", node.hostname);
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
        imagined.scaled.insert(key, scale.replicas);
    }
    Ok(imagined)
}

fn gpu(node: &v1::ImaginedNode, number: u32) -> Gpu {
    let driver = match node.gpu_driver.as_str() {
        "" => "nvidia".to_owned(),
        driver => driver.to_owned(),
    };
    let id = format!("imagined-{number}").into();
    Gpu { id, driver, model: String::new(), memory: Bytes(0) }
}

fn facts(node: &v1::ImaginedNode) -> NodeFacts {
    NodeFacts {
        os: node.os.clone(),
        arch: node.arch.clone(),
        capacity: Resources { cpu: MilliCores(node.cpu_millis), memory: Bytes(node.memory_bytes) },
        labels: node.labels.clone().into_iter().collect(),
        gpus: (0..node.gpus).map(|number| gpu(node, number)).collect(),
        ..NodeFacts::default()
    }
}
