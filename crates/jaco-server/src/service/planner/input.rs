//! The input of a planner pass now, and the names in a question to the planner.

use jaco_controller::leader_loop::Options;
use jaco_scheduler::{PlanInput, PlannerConfig, Signals};
use jaco_state::ClusterState;
use jaco_types::{DeploymentName, ErrorCode, Rejection, ServiceKey, ServiceName, Timestamp};

use crate::member::Member;
use crate::status::invalid;

/// The input that a planner pass would have now.
pub(super) struct Present {
    pub(super) state: ClusterState,
    pub(super) signals: Signals,
    pub(super) now: Timestamp,
    pub(super) config: PlannerConfig,
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

    pub(super) fn input(&self) -> PlanInput<'_> {
        let Self { state, signals, now, config } = self;
        PlanInput { state, signals, now: *now, config }
    }
}

/// Computes an answer on a blocking thread: it may take a second.
///
/// # Errors
/// Those of the work, and `overloaded` if too many are computed.
pub(super) async fn compute<T: Send + 'static>(
    member: &Member,
    work: impl FnOnce(&Present) -> Result<T, Rejection> + Send + 'static,
) -> Result<T, Rejection> {
    let turn = member.gate.turn().await?;
    let present = Present::of(member);
    turn.run(move || work(&present)).await?
}

/// Finds a service. The deployment may be empty if only one deployment has the service.
pub(super) fn service(
    state: &ClusterState,
    deployment: &str,
    service: &str,
) -> Result<ServiceKey, Rejection> {
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

pub(super) fn not_found(code: ErrorCode, what: &str, name: &str) -> Rejection {
    Rejection::new(code, format!("there is no {what} {name}"))
}
