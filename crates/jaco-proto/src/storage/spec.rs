//! What a user wants of a deployment.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use jaco_state::policy::PolicyMode;
use jaco_types::route::DrainTime;
use jaco_types::spec::{
    Affinity, Constraint, Dependency, DependencyCondition, DependencyRequirement, FailureAction,
    Healthcheck, HostPort, OnNodeLoss, Operator, Placement, Privilege, Protocol, PullPolicy, Reach,
    ReachKind, RestartPolicy, RollbackFailureAction, RollbackPolicy, SchedulingPolicy, Scoring,
    ServiceMode, SpreadCriterion, SpreadTarget, Storage, UpdateOrder, UpdatePolicy,
};
use jaco_types::unit::Bytes;
use jaco_types::{
    DeploymentName, DeploymentSpec, GpuChoice, GpuDemand, Millis, ServiceName, ServiceSpec,
    VolumeDemand,
};

use super::convert::{
    Wire, ascending, ip_from_wire, ip_to_wire, list, optional, required, to_list, wire_enum,
};
use super::error::Problem;
use super::network;
use super::observed::port_number;
use super::port;
use super::route;
use super::slot::{shared, texts};
use super::wire::gpu_demand::Choice;
use super::wire::on_node_loss::Kind as Loss;
use super::wire::restart_policy::Kind as RestartKind;
use super::wire::{self, placement::Kind};

wire_enum!(Protocol, "protocol", [Tcp, Udp, Sctp]);
wire_enum!(
    DependencyCondition,
    "condition of a dependency",
    [Started, Healthy, CompletedSuccessfully]
);
wire_enum!(DependencyRequirement, "dependency requirement", [Required, Optional]);
wire_enum!(Storage, "kind of storage", [Stateless, Stateful]);
wire_enum!(Healthcheck, "kind of healthcheck", [None, Declared]);
wire_enum!(PullPolicy, "pull policy", [Missing, Always, Never]);
wire_enum!(
    Privilege,
    "privilege",
    [
        Privileged,
        SecurityOpt,
        EngineSocket,
        HostNetwork,
        HostPid,
        HostIpc,
        HostUsers,
        HostPath,
        Devices,
        Capabilities,
    ]
);
wire_enum!(
    ReachKind,
    "kind of reach",
    [
        Privileged,
        EngineSocket,
        ClusterSocket,
        HostPath,
        HostNamespace,
        Capability,
        Device,
        SecurityOpt,
        Sysctl,
        CgroupParent,
        Runtime,
        Oom,
        Group,
        VolumeDriver
    ]
);
wire_enum!(PolicyMode, "policy mode", [Warn, Refuse]);
wire_enum!(UpdateOrder, "update order", [StartFirst, StopFirst]);

impl Wire for DeploymentSpec {
    type Message = wire::DeploymentSpec;

    fn to_wire(&self) -> wire::DeploymentSpec {
        wire::DeploymentSpec {
            services: self.services.values().map(|service| service.to_wire()).collect(),
            compose: self.compose.to_string(),
            overlay: self.overlay.to_string(),
            environment: self.environment.to_string(),
            contents: self.contents.iter().map(Wire::to_wire).collect(),
            named: self.named.iter().map(Wire::to_wire).collect(),
            privileges: self.privileges.iter().map(privileges_to_wire).collect(),
            networks: self.networks.iter().map(network::to_deployment_network).collect(),
            routes: self.routes.iter().map(route::to_deployment_route).collect(),
        }
    }

    fn from_wire(message: wire::DeploymentSpec) -> Result<Self, Problem> {
        let service = |message| {
            let service = ServiceSpec::from_wire(message)?;
            Ok((service.name.clone(), Arc::new(service)))
        };
        let content = |id| Ok((Wire::from_wire(id)?, ()));
        let contents = ascending("contents", message.contents.into_iter().map(content))?;
        let key = |key| Ok((Wire::from_wire(key)?, ()));
        let named = ascending("named contents", message.named.into_iter().map(key))?;
        let networks = message.networks.into_iter().map(network::from_deployment_network);
        Ok(Self {
            networks: ascending("networks of a deployment", networks)?,
            routes: ascending(
                "routes",
                message.routes.into_iter().map(route::from_deployment_route),
            )?,
            services: ascending("services", message.services.into_iter().map(service))?,
            compose: message.compose.into(),
            overlay: message.overlay.into(),
            environment: message.environment.into(),
            contents: contents.into_keys().collect(),
            named: named.into_keys().collect(),
            privileges: ascending(
                "privileges of services",
                message.privileges.into_iter().map(privileges_from_wire),
            )?,
        })
    }
}

pub(super) fn reaches_to_wire(
    (service, reaches): (&ServiceName, &BTreeSet<Reach>),
) -> wire::ServiceReaches {
    wire::ServiceReaches {
        service: service.to_wire(),
        reaches: reaches.iter().map(reach_to_wire).collect(),
    }
}

/// A service without any is not written, and so is refused where it is.
pub(super) fn reaches_from_wire(
    message: wire::ServiceReaches,
) -> Result<(ServiceName, BTreeSet<Reach>), Problem> {
    if message.reaches.is_empty() {
        return Err(Problem::Missing("reach of a service that has some"));
    }
    Ok((Wire::from_wire(message.service)?, reach_set(message.reaches)?))
}

pub(super) fn reach_to_wire(one: &Reach) -> wire::Reach {
    wire::Reach { kind: one.kind.to_wire(), value: one.value.clone() }
}

pub(super) fn reach_set(all: Vec<wire::Reach>) -> Result<BTreeSet<Reach>, Problem> {
    let reach = |one: wire::Reach| Ok((Reach::new(ReachKind::from_wire(one.kind)?, one.value), ()));
    Ok(ascending("reaches", all.into_iter().map(reach))?.into_keys().collect())
}

pub(super) fn grants_to_wire(
    deployment: &DeploymentName,
    reaches: &BTreeSet<Reach>,
) -> wire::DeploymentGrants {
    wire::DeploymentGrants {
        deployment: deployment.to_wire(),
        reaches: reaches.iter().map(reach_to_wire).collect(),
    }
}

/// A deployment without any is not written, and so is refused where it is.
pub(super) fn grants_from_wire(
    message: wire::DeploymentGrants,
) -> Result<(DeploymentName, BTreeSet<Reach>), Problem> {
    if message.reaches.is_empty() {
        return Err(Problem::Missing("grant of a deployment that has some"));
    }
    Ok((Wire::from_wire(message.deployment)?, reach_set(message.reaches)?))
}

fn privileges_to_wire(
    (service, privileges): (&ServiceName, &BTreeSet<Privilege>),
) -> wire::ServicePrivileges {
    let privileges = privileges.iter().map(Wire::to_wire).collect();
    wire::ServicePrivileges { service: service.to_wire(), privileges }
}

/// A service without any is not written, and so is refused where it is.
fn privileges_from_wire(
    message: wire::ServicePrivileges,
) -> Result<(ServiceName, BTreeSet<Privilege>), Problem> {
    if message.privileges.is_empty() {
        return Err(Problem::Missing("privilege of a service that has some"));
    }
    let privilege = |number| Ok((Privilege::from_wire(number)?, ()));
    let privileges = ascending("privileges", message.privileges.into_iter().map(privilege))?;
    Ok((Wire::from_wire(message.service)?, privileges.into_keys().collect()))
}

impl Wire for ServiceSpec {
    type Message = wire::ServiceSpec;

    fn to_wire(&self) -> wire::ServiceSpec {
        wire::ServiceSpec {
            name: self.name.to_wire(),
            image: self.image.to_string(),
            pull: self.pull.to_wire(),
            placement: Some(self.placement.to_wire()),
            replicas: self.replicas,
            host_ports: to_list(&self.host_ports),
            depends_on: to_list(&self.depends_on),
            reservation: Some(self.reservation.to_wire()),
            limit: Some(self.limit.to_wire()),
            storage: self.storage.to_wire(),
            healthcheck: self.healthcheck.to_wire(),
            update: Some(self.update.to_wire()),
            container: self.container.to_string(),
            hash: self.hash.to_wire(),
            scheduling: policy_to_wire(&self.scheduling),
            on_node_loss: (self.on_node_loss != OnNodeLoss::default())
                .then(|| self.on_node_loss.to_wire()),
            gpus: self.gpus.as_ref().map(Wire::to_wire),
            volumes: to_list(&self.volumes),
            restart: restart_to_wire(self.restart),
            job: self.mode == ServiceMode::Job,
            networks: to_list(&self.networks),
            resolvers: self.resolvers.iter().map(|address| ip_to_wire(*address)).collect(),
            drain_ms: self.drain.map(|drain| drain.length().0),
            ingress_ports: self.ingress_ports.iter().map(Wire::to_wire).collect(),
            schedule: self.schedule.as_ref().map(Wire::to_wire),
        }
    }

    fn from_wire(message: wire::ServiceSpec) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            image: message.image.into(),
            pull: Wire::from_wire(message.pull)?,
            placement: required("placement", message.placement)?,
            replicas: message.replicas,
            host_ports: list(message.host_ports)?,
            ingress_ports: port::ingress_ports(message.ingress_ports)?,
            depends_on: list(message.depends_on)?,
            reservation: required("reservation", message.reservation)?,
            limit: required("limit", message.limit)?,
            storage: Wire::from_wire(message.storage)?,
            healthcheck: Wire::from_wire(message.healthcheck)?,
            update: required("update policy", message.update)?,
            container: message.container.into(),
            hash: Wire::from_wire(message.hash)?,
            scheduling: policy_from_wire(message.scheduling)?,
            on_node_loss: loss_from_wire(message.on_node_loss)?,
            gpus: optional(message.gpus)?,
            volumes: list(message.volumes)?,
            restart: restart_from_wire(message.restart)?,
            mode: match message.job {
                true => ServiceMode::Job,
                false => ServiceMode::Service,
            },
            schedule: optional(message.schedule)?,
            networks: list(message.networks)?,
            resolvers: message
                .resolvers
                .iter()
                .map(|bytes| ip_from_wire(bytes))
                .collect::<Result<_, _>>()?,
            drain: message.drain_ms.map(|ms| DrainTime::new(Millis(ms))).transpose()?,
        })
    }
}

impl Wire for VolumeDemand {
    type Message = wire::VolumeDemand;

    fn to_wire(&self) -> wire::VolumeDemand {
        wire::VolumeDemand {
            volume: self.volume.to_string(),
            class: self.class.to_wire(),
            size_bytes: self.size.0,
        }
    }

    fn from_wire(message: wire::VolumeDemand) -> Result<Self, Problem> {
        Ok(Self {
            volume: message.volume.into(),
            class: Wire::from_wire(message.class)?,
            size: Bytes(message.size_bytes),
        })
    }
}

/// The default is not written.
fn restart_to_wire(policy: RestartPolicy) -> Option<wire::RestartPolicy> {
    let kind = match policy {
        RestartPolicy::Always => return None,
        RestartPolicy::OnFailure { retries } => {
            RestartKind::OnFailure(wire::restart_policy::OnFailure { retries })
        }
        RestartPolicy::Never => RestartKind::Never(wire::Nothing {}),
    };
    Some(wire::RestartPolicy { kind: Some(kind) })
}

fn restart_from_wire(message: Option<wire::RestartPolicy>) -> Result<RestartPolicy, Problem> {
    let Some(message) = message else { return Ok(RestartPolicy::Always) };
    Ok(match message.kind.ok_or(Problem::Missing("kind of restart policy"))? {
        RestartKind::OnFailure(on_failure) => {
            RestartPolicy::OnFailure { retries: on_failure.retries }
        }
        RestartKind::Never(wire::Nothing {}) => RestartPolicy::Never,
    })
}

/// A policy that asks for nothing is not written, so that what was written before there were any
/// reads and writes as it did.
fn policy_to_wire(policy: &SchedulingPolicy) -> Option<wire::SchedulingPolicy> {
    (*policy != SchedulingPolicy::default()).then(|| policy.to_wire())
}

fn policy_from_wire(message: Option<wire::SchedulingPolicy>) -> Result<SchedulingPolicy, Problem> {
    let policy = optional(message)?;
    match policy {
        Some(policy) if policy == SchedulingPolicy::default() => {
            Err(Problem::Missing("scheduling policy that asks for something"))
        }
        Some(policy) => Ok(policy),
        None => Ok(SchedulingPolicy::default()),
    }
}

/// The default is not written, and so is refused where it is.
fn loss_from_wire(message: Option<wire::OnNodeLoss>) -> Result<OnNodeLoss, Problem> {
    let policy = optional(message)?;
    match policy {
        Some(policy) if policy == OnNodeLoss::default() => {
            Err(Problem::Missing("loss policy other than the usual"))
        }
        Some(policy) => Ok(policy),
        None => Ok(OnNodeLoss::default()),
    }
}

impl Wire for OnNodeLoss {
    type Message = wire::OnNodeLoss;

    fn to_wire(&self) -> wire::OnNodeLoss {
        let kind = match self {
            Self::Replace { after } => Loss::ReplaceAfterMs(after.0),
            Self::Wait => Loss::Wait(wire::Nothing {}),
            Self::StopSelf { after, grace } => Loss::StopSelf(wire::on_node_loss::StopSelf {
                after_ms: after.0,
                grace_ms: grace.0,
            }),
        };
        wire::OnNodeLoss { kind: Some(kind) }
    }

    fn from_wire(message: wire::OnNodeLoss) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of loss policy"))? {
            Loss::ReplaceAfterMs(after) => Self::Replace { after: Millis(after) },
            Loss::Wait(wire::Nothing {}) => Self::Wait,
            Loss::StopSelf(stop) => {
                Self::StopSelf { after: Millis(stop.after_ms), grace: Millis(stop.grace_ms) }
            }
        })
    }
}

impl Wire for GpuDemand {
    type Message = wire::GpuDemand;

    fn to_wire(&self) -> wire::GpuDemand {
        let choice = match &self.choice {
            GpuChoice::All => Choice::All(wire::Nothing {}),
            GpuChoice::Count(count) => Choice::Count(count.get()),
            GpuChoice::These(ids) => Choice::These(wire::GpuIds { ids: texts(ids) }),
        };
        wire::GpuDemand { driver: self.driver.clone(), choice: Some(choice) }
    }

    fn from_wire(message: wire::GpuDemand) -> Result<Self, Problem> {
        let choice = match message.choice.ok_or(Problem::Missing("choice of GPUs"))? {
            Choice::All(wire::Nothing {}) => GpuChoice::All,
            Choice::Count(count) => {
                GpuChoice::Count(NonZeroU32::new(count).ok_or(Problem::Missing("count of GPUs"))?)
            }
            Choice::These(ids) => GpuChoice::These(shared(ids.ids)),
        };
        Ok(Self { driver: message.driver, choice })
    }
}

impl Wire for Placement {
    type Message = wire::Placement;

    fn to_wire(&self) -> wire::Placement {
        let kind = match self {
            Self::Spread => Kind::Spread(wire::Nothing {}),
            Self::Pack => Kind::Pack(wire::Nothing {}),
            Self::Hosts(hosts) => {
                let names = hosts.iter().map(Wire::to_wire).collect();
                Kind::Hosts(wire::placement::Hosts { names })
            }
            Self::Global => Kind::Global(wire::Nothing {}),
        };
        wire::Placement { kind: Some(kind) }
    }

    fn from_wire(message: wire::Placement) -> Result<Self, Problem> {
        Ok(match message.kind.ok_or(Problem::Missing("kind of placement"))? {
            Kind::Spread(wire::Nothing {}) => Self::Spread,
            Kind::Pack(wire::Nothing {}) => Self::Pack,
            Kind::Hosts(hosts) => {
                let host = |name| Ok((Wire::from_wire(name)?, ()));
                let hosts = ascending("hosts", hosts.names.into_iter().map(host))?;
                Self::Hosts(hosts.into_keys().collect())
            }
            Kind::Global(wire::Nothing {}) => Self::Global,
        })
    }
}

impl Wire for HostPort {
    type Message = wire::HostPort;

    fn to_wire(&self) -> wire::HostPort {
        wire::HostPort { port: self.port.into(), protocol: self.protocol.to_wire() }
    }

    fn from_wire(message: wire::HostPort) -> Result<Self, Problem> {
        Ok(Self {
            port: port_number("host port", message.port)?,
            protocol: Wire::from_wire(message.protocol)?,
        })
    }
}

impl Wire for Dependency {
    type Message = wire::Dependency;

    fn to_wire(&self) -> wire::Dependency {
        wire::Dependency {
            service: self.service.to_wire(),
            condition: self.condition.to_wire(),
            required: self.required.to_wire(),
        }
    }

    fn from_wire(message: wire::Dependency) -> Result<Self, Problem> {
        Ok(Self {
            service: Wire::from_wire(message.service)?,
            condition: Wire::from_wire(message.condition)?,
            required: Wire::from_wire(message.required)?,
        })
    }
}

impl Wire for UpdatePolicy {
    type Message = wire::UpdatePolicy;

    fn to_wire(&self) -> wire::UpdatePolicy {
        wire::UpdatePolicy {
            parallelism: self.parallelism,
            order: self.order.to_wire(),
            step_timeout_ms: self.step_timeout.0,
            monitor_ms: self.monitor.map_or(0, |monitor| monitor.0),
            monitor_is_zero: self.monitor == Some(Millis(0)),
            delay_ms: self.delay.0,
            failure_action: self.failure_action.to_wire(),
            max_failure_permille: self.max_failure_permille,
            rollback: (self.rollback != RollbackPolicy::default()).then(|| self.rollback.to_wire()),
        }
    }

    fn from_wire(message: wire::UpdatePolicy) -> Result<Self, Problem> {
        Ok(Self {
            parallelism: message.parallelism,
            order: Wire::from_wire(message.order)?,
            step_timeout: Millis(message.step_timeout_ms),
            monitor: monitor(message.monitor_ms, message.monitor_is_zero),
            delay: Millis(message.delay_ms),
            failure_action: Wire::from_wire(message.failure_action)?,
            max_failure_permille: message.max_failure_permille,
            rollback: optional(message.rollback)?.unwrap_or_default(),
        })
    }
}

/// Zero was what is written where nothing was said before the two were told apart.
fn monitor(millis: u64, is_zero: bool) -> Option<Millis> {
    (millis > 0 || is_zero).then_some(Millis(millis))
}

/// Not by `wire_enum`: the value that is not written is what was done before there was a choice.
impl Wire for FailureAction {
    type Message = i32;

    fn to_wire(&self) -> i32 {
        match self {
            Self::Rollback => wire::FailureAction::RollbackUnspecified.into(),
            Self::Pause => wire::FailureAction::Pause.into(),
            Self::Continue => wire::FailureAction::Continue.into(),
        }
    }

    fn from_wire(number: i32) -> Result<Self, Problem> {
        match wire::FailureAction::try_from(number) {
            Ok(wire::FailureAction::RollbackUnspecified) => Ok(Self::Rollback),
            Ok(wire::FailureAction::Pause) => Ok(Self::Pause),
            Ok(wire::FailureAction::Continue) => Ok(Self::Continue),
            Err(_) => Err(Problem::UnknownValue { what: "failure action", number: number.into() }),
        }
    }
}

/// Not by `wire_enum`, for the same reason.
impl Wire for Scoring {
    type Message = i32;

    fn to_wire(&self) -> i32 {
        match self {
            Self::Jaco => wire::Scoring::JacoUnspecified.into(),
            Self::Nomad => wire::Scoring::Nomad.into(),
        }
    }

    fn from_wire(number: i32) -> Result<Self, Problem> {
        match wire::Scoring::try_from(number) {
            Ok(wire::Scoring::JacoUnspecified) => Ok(Self::Jaco),
            Ok(wire::Scoring::Nomad) => Ok(Self::Nomad),
            Err(_) => Err(Problem::UnknownValue { what: "scoring", number: number.into() }),
        }
    }
}

impl Wire for RollbackFailureAction {
    type Message = i32;

    fn to_wire(&self) -> i32 {
        match self {
            Self::Continue => wire::RollbackFailureAction::ContinueUnspecified.into(),
            Self::Pause => wire::RollbackFailureAction::Pause.into(),
        }
    }

    fn from_wire(number: i32) -> Result<Self, Problem> {
        match wire::RollbackFailureAction::try_from(number) {
            Ok(wire::RollbackFailureAction::ContinueUnspecified) => Ok(Self::Continue),
            Ok(wire::RollbackFailureAction::Pause) => Ok(Self::Pause),
            Err(_) => {
                let what = "failure action of a rollback";
                Err(Problem::UnknownValue { what, number: number.into() })
            }
        }
    }
}

impl Wire for RollbackPolicy {
    type Message = wire::RollbackPolicy;

    fn to_wire(&self) -> wire::RollbackPolicy {
        wire::RollbackPolicy {
            parallelism: self.parallelism,
            order: self.order.to_wire(),
            delay_ms: self.delay.0,
            monitor_ms: self.monitor.map_or(0, |monitor| monitor.0),
            monitor_is_zero: self.monitor == Some(Millis(0)),
            failure_action: self.failure_action.to_wire(),
            max_failure_permille: self.max_failure_permille,
        }
    }

    fn from_wire(message: wire::RollbackPolicy) -> Result<Self, Problem> {
        Ok(Self {
            parallelism: message.parallelism,
            order: Wire::from_wire(message.order)?,
            delay: Millis(message.delay_ms),
            monitor: monitor(message.monitor_ms, message.monitor_is_zero),
            failure_action: Wire::from_wire(message.failure_action)?,
            max_failure_permille: message.max_failure_permille,
        })
    }
}

wire_enum!(
    Operator,
    "operator",
    [
        Equal,
        NotEqual,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
        IsSet,
        IsNotSet,
        Version,
        Semver,
        Regexp,
        SetContains,
        SetContainsAny,
    ]
);

impl Wire for SchedulingPolicy {
    type Message = wire::SchedulingPolicy;

    fn to_wire(&self) -> wire::SchedulingPolicy {
        wire::SchedulingPolicy {
            selectors: self.selectors.iter().cloned().collect(),
            constraints: to_list(&self.constraints),
            affinities: to_list(&self.affinities),
            spread: to_list(&self.spread),
            minimum: Some(self.minimum.to_wire()),
            own_keys: self.own_keys.iter().cloned().collect(),
            max_per_node: self.max_per_node.map_or(0, NonZeroU32::get),
            place_with: self.place_with.iter().map(Wire::to_wire).collect(),
            shares_namespaces_with: self.shares_namespaces_with.iter().map(Wire::to_wire).collect(),
            scoring: self.scoring.to_wire(),
        }
    }

    fn from_wire(message: wire::SchedulingPolicy) -> Result<Self, Problem> {
        let selectors = message.selectors.into_iter().map(|selector| Ok((selector, ())));
        let own_keys = message.own_keys.into_iter().map(|key| Ok((key, ())));
        let names = |what, names: Vec<String>| -> Result<BTreeSet<ServiceName>, Problem> {
            let name = |name| Ok((Wire::from_wire(name)?, ()));
            Ok(ascending(what, names.into_iter().map(name))?.into_keys().collect())
        };
        Ok(Self {
            selectors: ascending("selectors", selectors)?.into_keys().collect(),
            constraints: list(message.constraints)?,
            affinities: list(message.affinities)?,
            spread: list(message.spread)?,
            minimum: required("minimum", message.minimum)?,
            own_keys: ascending("own keys", own_keys)?.into_keys().collect(),
            max_per_node: NonZeroU32::new(message.max_per_node),
            place_with: names("services to be placed with", message.place_with)?,
            shares_namespaces_with: names(
                "services to be shares_namespaces_with",
                message.shares_namespaces_with,
            )?,
            scoring: Wire::from_wire(message.scoring)?,
        })
    }
}

impl Wire for Constraint {
    type Message = wire::Constraint;

    fn to_wire(&self) -> wire::Constraint {
        wire::Constraint {
            attribute: self.attribute.clone(),
            operator: self.operator.to_wire(),
            value: self.value.clone(),
        }
    }

    fn from_wire(message: wire::Constraint) -> Result<Self, Problem> {
        Ok(Self {
            attribute: message.attribute,
            operator: Wire::from_wire(message.operator)?,
            value: message.value,
        })
    }
}

impl Wire for Affinity {
    type Message = wire::Affinity;

    fn to_wire(&self) -> wire::Affinity {
        let constraint = Some(self.constraint.to_wire());
        wire::Affinity { constraint, weight: self.weight.into() }
    }

    fn from_wire(message: wire::Affinity) -> Result<Self, Problem> {
        Ok(Self {
            constraint: required("constraint", message.constraint)?,
            weight: small("weight of an affinity", message.weight)?,
        })
    }
}

impl Wire for SpreadCriterion {
    type Message = wire::SpreadCriterion;

    fn to_wire(&self) -> wire::SpreadCriterion {
        wire::SpreadCriterion {
            attribute: self.attribute.clone(),
            weight: self.weight.into(),
            targets: to_list(&self.targets),
        }
    }

    fn from_wire(message: wire::SpreadCriterion) -> Result<Self, Problem> {
        Ok(Self {
            attribute: message.attribute,
            weight: small("weight of a spread", message.weight)?,
            targets: list(message.targets)?,
        })
    }
}

impl Wire for SpreadTarget {
    type Message = wire::SpreadTarget;

    fn to_wire(&self) -> wire::SpreadTarget {
        wire::SpreadTarget { value: self.value.clone(), percent: self.percent.into() }
    }

    fn from_wire(message: wire::SpreadTarget) -> Result<Self, Problem> {
        Ok(Self { value: message.value, percent: small("percent", message.percent)? })
    }
}

/// A number of eight bits, which protobuf has no type for.
fn small<N: Into<i64> + Copy, T: TryFrom<N>>(what: &'static str, number: N) -> Result<T, Problem> {
    T::try_from(number).map_err(|_| Problem::UnknownValue { what, number: number.into() })
}
