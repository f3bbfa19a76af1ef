//! Reads the facts of one service out of its final tree and its overrides.
//!
//! Precedence everywhere: jaco.yaml, then the compose file, then the default.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use jaco_types::spec::{
    Dependency, DependencyCondition, DependencyRequirement, Healthcheck, MAX_REPLICAS, OnNodeLoss,
    Placement, PullPolicy, Scoring, SpreadCriterion, Storage, UpdateOrder,
};
use jaco_types::{Millis, ServiceName, is_image_name};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::facts::Facts;
use crate::notation::units;
use crate::overlay::types::{JacoYaml, Selectors, ServiceOverlay};
use crate::resolve::amounts::{effective_bounds, limit, reservation};
use crate::resolve::audit::is_engine_socket;
use crate::resolve::hooks;
use crate::resolve::host::gpus;
use crate::resolve::lifecycle;
use crate::resolve::networks::{attachments, dns, names};
use crate::resolve::options::Contents;
use crate::resolve::ports::ports;
use crate::resolve::ranges;
use crate::resolve::rollout::update_policy;
use crate::resolve::scene::{Scene, below, text};
use crate::resolve::swarm;
use crate::yaml::access::items;
use crate::yaml::node::{Map, Node};

/// The placement that the overlay or the compose file asks for.
pub(crate) fn placement(service: &Map, own: Option<&ServiceOverlay>) -> Placement {
    match own.and_then(|own| own.placement.clone()) {
        Some(placement) => placement,
        None => match service.get("deploy").and_then(|deploy| deploy.get_str("mode")) {
            Some("global" | "global-job") => Placement::Global,
            Some(_) | None => Placement::Spread,
        },
    }
}

/// The scoring that the service, or else the deployment, asks for.
pub(crate) fn scoring(overlay: &JacoYaml, own: Option<&ServiceOverlay>) -> Scoring {
    own.and_then(|own| own.scoring).or(overlay.scoring).unwrap_or_default()
}

/// Docker's own default.
const DEFAULT_GRACE_NANOS: u64 = 10_000_000_000;

/// Reads everything; `compose` and `manifest` take problems of either file.
pub(crate) fn facts(scene: &Scene<'_>, compose: &mut Report, manifest: &mut Report) -> Facts {
    let (service, own) = (scene.service, scene.own);
    let deploy = service.get("deploy");
    let placement = placement(service, own);
    let bounds = own.map(|own| own.bounds).unwrap_or_default();
    let mut constraints = own.map(|own| own.constraints.clone()).unwrap_or_default();
    let mut spread = own.map(|own| own.spread.clone()).unwrap_or_default();
    swarm::placement(deploy, &mut constraints, &mut spread, compose);
    warn_of_repeated_spread(scene, &spread, manifest);
    constraints.rules.extend(text(service, "platform").into_iter().flat_map(swarm::platform));
    spread.extend(scene.overlay.spread.iter().cloned());
    check_image(service, compose);
    ranges::check(service, compose);
    hooks::check(service, compose);
    let stop_grace_period_nanos = text(service, "stop_grace_period")
        .and_then(units::parse_duration_nanos)
        .unwrap_or(DEFAULT_GRACE_NANOS);
    Facts {
        image: text(service, "image").unwrap_or_default().to_owned(),
        pull: pull(service),
        replicas: replicas(scene, &placement, compose, manifest),
        min_allocations: own.and_then(|own| own.min_allocations).unwrap_or(0),
        max_replicas_per_node: deploy
            .and_then(|deploy| deploy.get("placement")?.get("max_replicas_per_node")?.as_int())
            .and_then(|number| u32::try_from(number).ok())
            .and_then(NonZeroU32::new),
        ports: ports(service, scene.publishing, compose),
        restart: lifecycle::restart_policy(service, compose),
        mode: lifecycle::mode(service),
        schedule: own.and_then(|own| own.schedule.clone()),
        depends_on: depends_on(service),
        shares_namespaces_with: shares_namespaces_with(service),
        volumes_from: volumes_from(service),
        reservation: reservation(scene, bounds, compose, manifest),
        bounds: effective_bounds(scene, bounds),
        limit: limit(service),
        storage: storage(service, scene.contents),
        healthcheck: healthcheck(service),
        on_node_loss: on_node_loss(own, stop_grace_period_nanos),
        drain: own.and_then(|own| own.drain),
        update: update_policy(deploy, own, default_order(service, scene.contents), compose),
        spread,
        constraints,
        deployment_constraints: scene.constraints.clone(),
        affinities: own.map(|own| own.affinities.clone()).unwrap_or_default(),
        selectors: selectors(scene.name, own),
        scoring: scoring(scene.overlay, own),
        gpus: gpus(service),
        volumes: Vec::new(),
        reaches: BTreeSet::new(),
        names: names(scene, compose),
        networks: attachments(scene, compose),
        dns: dns(service, compose),
        placement,
    }
}

/// A replica that stops itself is replaced after its grace period, rounded up.
fn on_node_loss(own: Option<&ServiceOverlay>, grace_nanos: u64) -> OnNodeLoss {
    match own.and_then(|own| own.on_node_loss).unwrap_or_default() {
        OnNodeLoss::StopSelf { after, .. } => {
            OnNodeLoss::StopSelf { after, grace: Millis(grace_nanos.div_ceil(1_000_000)) }
        }
        other @ (OnNodeLoss::Replace { .. } | OnNodeLoss::Wait) => other,
    }
}

/// Criteria of both levels count; the same attribute on both counts twice.
fn warn_of_repeated_spread(scene: &Scene<'_>, own: &[SpreadCriterion], manifest: &mut Report) {
    let repeated = scene.overlay.spread.iter().map(|criterion| &criterion.attribute);
    for attribute in repeated.filter(|name| own.iter().any(|own| own.attribute == **name)) {
        let message = format!(
            "service `{}` is spread over `{attribute}` by its own criterion and by the \
             deployment's; both weights count",
            scene.name
        );
        let pos = scene.own.filter(|own| !own.spread.is_empty()).map(|own| own.place("spread"));
        let pos = pos.unwrap_or(scene.overlay.spread_pos);
        manifest.warning(pos, Code::HonouredDifferently, message).suggest("remove one of them");
    }
}

fn pull(service: &Map) -> PullPolicy {
    let Some(node) = service.get("pull_policy") else {
        return PullPolicy::Missing;
    };
    match node.as_str().unwrap_or_default() {
        "never" => PullPolicy::Never,
        "missing" | "if_not_present" | "build" => PullPolicy::Missing,
        // The rest begin with `every_`; anything else was refused when the file was loaded.
        _ => PullPolicy::Always,
    }
}

fn replicas(
    scene: &Scene<'_>,
    placement: &Placement,
    compose: &mut Report,
    manifest: &mut Report,
) -> u32 {
    if matches!(placement, Placement::Global) {
        let written = below(scene.service.get("deploy"), &["replicas"]);
        if let Some(written) = written.or_else(|| scene.service.get("scale")) {
            let message =
                format!("the number of replicas of service `{}` has no effect", scene.name);
            compose
                .warning(written.pos, Code::NoEffect, message)
                .suggest("remove it: a global service runs one replica on each ready node");
        }
        return 1;
    }
    if let Some(replicas) = scene.own.and_then(|own| own.replicas) {
        return replicas;
    }
    let deploy = scene.service.get("deploy");
    let Some(node) = below(deploy, &["replicas"]).or_else(|| scene.service.get("scale")) else {
        return 1;
    };
    let replicas = node.as_int().and_then(|number| u32::try_from(number).ok());
    let Some(replicas) = replicas.filter(|number| *number <= MAX_REPLICAS) else {
        compose
            .error(node.pos, Code::InvalidValue, "the number of replicas is not valid")
            .expected(format!("a whole number from 0 to {MAX_REPLICAS}"));
        return 1;
    };
    if let (Placement::Hosts(hosts), Some(own)) = (placement, scene.own)
        && replicas as usize > hosts.len()
    {
        let name = scene.name;
        let message = format!(
            "service `{name}` has {replicas} replicas but only {} pinned hosts",
            hosts.len()
        );
        manifest
            .error(own.place("hosts"), Code::ReplicasExceedPinnedHosts, message)
            .suggest("add hosts, or lower `replicas`");
    }
    replicas
}

/// A name that is not valid is reported where the service itself is read.
fn depends_on(service: &Map) -> Vec<Dependency> {
    let map = service.get("depends_on").and_then(Node::as_map);
    let entries = map.into_iter().flat_map(Map::iter).filter_map(|entry| {
        Some(Dependency {
            service: ServiceName::new(&entry.key).ok()?,
            condition: match entry.node.get_str("condition") {
                Some("service_healthy") => DependencyCondition::Healthy,
                Some("service_completed_successfully") => {
                    DependencyCondition::CompletedSuccessfully
                }
                Some(_) | None => DependencyCondition::Started,
            },
            required: match entry.node.get("required").and_then(Node::as_bool) {
                Some(false) => DependencyRequirement::Optional,
                Some(true) | None => DependencyRequirement::Required,
            },
        })
    });
    entries.collect()
}

fn shares_namespaces_with(service: &Map) -> BTreeSet<ServiceName> {
    let namespaces = ["network_mode", "ipc", "pid", "uts"]
        .into_iter()
        .filter_map(|key| text(service, key)?.strip_prefix("service:"));
    namespaces.filter_map(|name| ServiceName::new(name).ok()).collect()
}

fn volumes_from(service: &Map) -> BTreeSet<ServiceName> {
    let mounts = items(service, "volumes_from").iter().filter_map(Node::as_str);
    let mounts = mounts
        .filter(|from| !from.starts_with("container:"))
        .map(|from| from.split(':').next().unwrap_or(from));
    mounts.filter_map(|name| ServiceName::new(name).ok()).collect()
}

fn selectors(service: &str, own: Option<&ServiceOverlay>) -> BTreeSet<String> {
    match own.map(|own| &own.selectors) {
        None | Some(Selectors::Any) => BTreeSet::new(),
        Some(Selectors::All(labels)) => labels.clone(),
        Some(Selectors::Auto) => BTreeSet::from([service.to_owned()]),
    }
}

/// Uploaded files are on every node that runs a replica, so they do not bind it to a node.
fn storage(service: &Map, contents: &Contents) -> Storage {
    match data_mounts(service, contents).next() {
        Some(_) => Storage::Stateful,
        None => Storage::Stateless,
    }
}

/// The mounts whose contents stay on the node: named volumes, and files of the host.
fn data_mounts<'s>(
    service: &'s Map,
    contents: &'s Contents,
) -> impl Iterator<Item = &'s Node> + use<'s> {
    items(service, "volumes").iter().filter(|mount| {
        let stays = mount.get_str("source").is_some_and(|source| {
            !is_engine_socket(source) && !contents.binds.contains_key(source)
        });
        stays && matches!(mount.get_str("type"), Some("bind" | "volume"))
    })
}

/// Which instance goes first where the files do not say: two never write to the same data (R-ROLL-8).
fn default_order(service: &Map, contents: &Contents) -> UpdateOrder {
    let is_written = |mount: &Node| mount.get("read_only").and_then(Node::as_bool) != Some(true);
    let inherits = items(service, "volumes_from").iter().filter_map(Node::as_str);
    let mut inherits = inherits.filter(|from| !from.ends_with(":ro"));
    match data_mounts(service, contents).any(is_written) || inherits.next().is_some() {
        true => UpdateOrder::StopFirst,
        false => UpdateOrder::StartFirst,
    }
}

fn healthcheck(service: &Map) -> Healthcheck {
    let node = service.get("healthcheck");
    let test = node.and_then(|node| node.get("test")?.as_seq()).unwrap_or_default();
    let disabled = node.and_then(|node| node.get("disable")?.as_bool()) == Some(true);
    match test.first().and_then(Node::as_str) {
        Some("NONE") | None => Healthcheck::None,
        Some(_) if disabled => Healthcheck::None,
        Some(_) => Healthcheck::Declared,
    }
}

fn check_image(service: &Map, report: &mut Report) {
    let Some(node) = service.get("image") else { return };
    let name = node.as_str().unwrap_or_default();
    if !is_image_name(name) {
        let shown: String = name.chars().take(64).collect();
        report
            .error(node.pos, Code::InvalidValue, format!("`{shown}` is not the name of an image"))
            .expected("`[HOST[:PORT]/]PATH[:TAG][@DIGEST]`, the path in small letters");
    }
}
