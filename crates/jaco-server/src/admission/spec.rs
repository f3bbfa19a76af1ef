//! From a resolved manifest to the spec of a deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_compose::facts::{Facts, PortMode, PublishedPort};
use jaco_compose::reach::reaches as reaches_of;
use jaco_compose::{Networks, Resolved, ResolvedService};
use jaco_proto::v1;
use jaco_state::{Deployment, Table};
use jaco_types::spec::{
    DeploymentSpec, HostPort, Placement, Privilege, Reach, SchedulingPolicy, ServiceSpec,
};
use jaco_types::{ErrorCode, InvalidName, Node, NodeId, Rejection, ServiceName};

use super::notes::Notes;
use super::{colocation, gpu, members, networks, policy};
use crate::status::invalid;

/// What the spec of a deployment depends on besides its manifest.
#[derive(Clone, Copy)]
pub(super) struct Cluster<'a> {
    /// The members.
    pub(super) nodes: &'a Table<NodeId, Node>,
    /// Whose the networks are.
    pub(super) networks: &'a Networks,
}

/// The spec of a deployment. Warnings are added to `warnings`.
///
/// # Errors
/// `invalid_manifest` with every problem of every service, `network_not_found`.
pub(super) fn deployment_spec(
    request: &v1::ApplyRequest,
    resolved: &Resolved,
    cluster: Cluster<'_>,
    warnings: &mut Vec<String>,
) -> Result<DeploymentSpec, Rejection> {
    let mut notes = Notes::default();
    let services = resolved.services.iter().map(|(name, service)| {
        let mut spec = service_spec(name, service).map_err(invalid)?;
        spec.scheduling = policy::policy(&spec.name, &service.facts, &spec.placement, &mut notes);
        spec.gpus = gpu::demand(&spec.name, &service.facts.gpus, &mut notes);
        if let Some(other) = policy::scaled_with(&spec.name, &service.facts) {
            scale_with(&mut spec, &other, &mut notes);
        }
        Ok((spec.name.clone(), Arc::new(spec)))
    });
    let mut services: BTreeMap<_, _> = services.collect::<Result<_, Rejection>>()?;
    notes.problems.extend(colocation::problems(&services));
    colocation::bind(&mut services);
    for (name, service) in &resolved.services {
        let spec = services.values().find(|spec| spec.name.as_str() == name);
        if let Some(spec) = spec {
            members::compare(spec, service.facts.min_allocations, cluster.nodes, &mut notes);
        }
    }
    let nodes = cluster.nodes.len();
    let networks =
        networks::attach(resolved, cluster.networks, nodes, services.values_mut(), &mut notes)?;
    warnings.append(&mut notes.warnings);
    if !notes.problems.is_empty() {
        return Err(Rejection::new(ErrorCode::InvalidManifest, notes.problems.join("; ")));
    }
    if services.is_empty() {
        let message = "the manifest has no services: add at least one";
        return Err(Rejection::new(ErrorCode::InvalidManifest, message));
    }
    Ok(DeploymentSpec {
        services,
        networks,
        routes: BTreeMap::new(),
        compose: request.compose_json.as_str().into(),
        overlay: request.overlay_yaml.as_str().into(),
        environment: request.environment_toml.as_str().into(),
        contents: BTreeSet::new(),
        named: BTreeSet::new(),
        privileges: privileges(resolved)?,
    })
}

/// The privileges of the services on their nodes, for the audit log.
fn privileges(
    resolved: &Resolved,
) -> Result<BTreeMap<ServiceName, BTreeSet<Privilege>>, Rejection> {
    let all = resolved.services.iter().map(|(name, one)| (name, one.facts.privileges()));
    let privileged = all.filter(|(_, privileges)| !privileges.is_empty());
    let by_name = privileged
        .map(|(name, privileges)| Ok((ServiceName::new(name).map_err(invalid)?, privileges)));
    by_name.collect()
}

/// What the services reach of their nodes, of those that reach anything.
///
/// # Errors
/// `invalid_request` for a name that is none; the resolve has refused it before.
pub(super) fn reaches(
    resolved: &Resolved,
) -> Result<BTreeMap<ServiceName, BTreeSet<Reach>>, Rejection> {
    let reaching = resolved.services.iter().filter(|(_, one)| !one.facts.reaches.is_empty());
    let by_name = reaching.map(|(name, one)| {
        Ok((ServiceName::new(name).map_err(invalid)?, one.facts.reaches.clone()))
    });
    by_name.collect()
}

/// A warning for each service that reaches its node otherwise than at the desired revision.
pub(super) fn reach_warnings(
    wanted: &BTreeMap<ServiceName, BTreeSet<Reach>>,
    desired: Option<&Deployment>,
) -> Vec<String> {
    let known = |service: &ServiceName| {
        let before = desired.and_then(|desired| desired.spec().services.get(service))?;
        reaches_of(&before.container).ok()
    };
    let new = wanted.iter().filter(|(service, reaches)| known(service).as_ref() != Some(*reaches));
    let warnings = new.map(|(service, reaches)| {
        let reaches: Vec<String> = reaches.iter().map(ToString::to_string).collect();
        format!("service {service} reaches the node it runs on: {}", reaches.join(", "))
    });
    warnings.collect()
}

/// A service with `scale-with` has one replica on every node that has one of the other service: its own placement and
/// number of replicas would contradict that.
fn scale_with(spec: &mut ServiceSpec, other: &ServiceName, notes: &mut Notes) {
    let name = &spec.name;
    match spec.placement {
        Placement::Spread | Placement::Global => spec.placement = Placement::Global,
        Placement::Pack | Placement::Hosts(_) => {
            let placement = spec.placement.as_str();
            notes.problems.push(format!(
                "service {name} uses scale-with={other}; remove placement={placement} (it runs \
                 wherever {other} runs)"
            ));
        }
    }
    if spec.replicas != 1 {
        notes.problems.push(format!(
            "service {name} uses scale-with={other}; remove replicas (it runs once on every node \
             that runs {other})"
        ));
    }
}

fn service_spec(name: &str, service: &ResolvedService) -> Result<ServiceSpec, InvalidName> {
    let facts = &service.facts;
    Ok(ServiceSpec {
        name: ServiceName::new(name)?,
        image: facts.image.as_str().into(),
        pull: facts.pull,
        placement: facts.placement.clone(),
        replicas: facts.replicas,
        host_ports: host_ports(facts),
        ingress_ports: facts.ports.iter().filter_map(PublishedPort::ingress).collect(),
        restart: facts.restart,
        mode: facts.mode,
        schedule: facts.schedule.clone(),
        depends_on: facts.depends_on.clone(),
        reservation: facts.reservation,
        limit: facts.limit,
        gpus: None,
        volumes: facts.volumes.clone(),
        storage: facts.storage,
        healthcheck: facts.healthcheck,
        update: facts.update,
        scheduling: SchedulingPolicy::default(),
        on_node_loss: facts.on_node_loss,
        networks: Vec::new(),
        resolvers: Vec::new(),
        drain: facts.drain,
        container: service.container.canonical.as_str().into(),
        hash: service.container.hash,
    })
}

/// Fixed host ports, which only one replica per node can publish. Ports of a range are chosen by the engine.
fn host_ports(facts: &Facts) -> Vec<HostPort> {
    let on_nodes = facts.ports.iter().filter(|port| port.mode == PortMode::Host);
    let fixed = on_nodes.filter_map(|published| {
        published.fixed().map(|port| HostPort { port, protocol: published.protocol })
    });
    fixed.collect()
}
