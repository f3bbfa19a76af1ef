//! Whether what a client sent may become a command. Pure: what the client has resolved is checked
//! again here, without files and without an environment.

mod company;
mod files;
mod gpu;
mod policy;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_compose::facts::{self, Facts};
use jaco_compose::{
    Environment, Images, JacoYaml, Options, Problems, Project, Resolved, ResolvedService,
    environment, from_model, resolve, restart,
};
use jaco_proto::v1;
use jaco_state::contents::NamedContent;
use jaco_state::{Content, Deployment, Table};
use jaco_types::spec::{
    BackFailureAction, BackPolicy, Condition, Dependency, DeploymentSpec, FailureAction,
    Healthcheck, HostPort, Placement, Privilege, Protocol, Pull, Required, SchedulingPolicy,
    ServiceSpec, Storage, UpdateOrder, UpdatePolicy,
};
use jaco_types::unit::Resources;
use jaco_types::{
    ContentId, DeploymentName, ErrorCode, Hostname, InvalidName, Millis, NamedKey, Node, NodeId,
    Rejection, ServiceName,
};
use serde_json::Value;

use crate::status::invalid;

pub(crate) use files::id as content_id;
use policy::Notes;

/// The largest model that is looked at; an entry of the log has to hold it.
const MODEL_BYTES_MAX: usize = 2 << 20;

/// What may be proposed.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The deployment's name.
    pub name: DeploymentName,
    /// What is wanted of it.
    pub spec: DeploymentSpec,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What the cluster keeps, for a manifest to refer to.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    /// The pieces of files.
    pub contents: Table<ContentId, Content>,
    /// The configs and secrets with a name.
    pub named: Table<NamedKey, NamedContent>,
    /// The members.
    pub nodes: Table<NodeId, Node>,
    /// What is wanted already.
    pub deployments: Table<DeploymentName, Deployment>,
}

/// Checks an apply.
///
/// # Errors
/// `invalid_manifest` with every problem, `too_large`, `content_missing`, or `content_not_found` with
/// every config and secret that the cluster should keep and does not.
pub fn admit(request: &v1::ApplyRequest, stored: &Stored) -> Result<Admitted, Rejection> {
    let texts = [&request.compose_json, &request.overlay_yaml, &request.environment_toml];
    let size: usize = texts.iter().map(|text| text.len()).sum();
    if size > MODEL_BYTES_MAX {
        let message = format!("the manifest has {size} bytes, more than {MODEL_BYTES_MAX}");
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    let mut project = from_model(request.compose_json.as_bytes()).map_err(|all| refuse(&all))?;
    let overlay = match request.overlay_yaml.as_str() {
        "" => None,
        text => Some(JacoYaml::parse("jaco.yaml", text.as_bytes()).map_err(|all| refuse(&all))?),
    };
    let name = deployment_name(request, overlay.as_ref(), &project)?;
    let counted = with_restarts(request, stored.deployments.get(&name));
    let request = counted.as_ref().unwrap_or(request);
    if counted.is_some() {
        project = from_model(request.compose_json.as_bytes()).map_err(|all| refuse(&all))?;
    }
    let environment =
        Environment::parse(&environment::file_name(None), request.environment_toml.as_bytes());
    let environment = environment.map_err(|all| refuse(&all))?;
    environment.check(&project).map_err(|all| refuse(&all))?;
    // An image that is only built locally is the nodes' to find: the client has already asked.
    let named = files::named(&project, request, &stored.named)?;
    let request = &named.request;
    let contents = files::versions(&project, request)?;
    let options =
        Options { images: Images::AllowLocal, overrides: environment.overrides(), contents };
    let resolved = resolve(&project, overlay.as_ref(), &options).map_err(|all| refuse(&all))?;
    let warnings = resolved.warnings.list.iter().map(|problem| problem.message.clone());
    let mut warnings: Vec<String> = warnings.collect();
    let mut spec = deployment_spec(request, &resolved, &stored.nodes, &mut warnings)?;
    spec.named = named.keys;
    // A dry run changes nothing, so nothing was sent for it.
    if !request.dry_run {
        spec.contents = files::pieces(request, &stored.contents)?;
    }
    Ok(Admitted { name, spec, warnings })
}

/// The request with the restarts that people asked for before, if there were any.
fn with_restarts(
    request: &v1::ApplyRequest,
    wanted: Option<&Deployment>,
) -> Option<v1::ApplyRequest> {
    let wanted: Value = serde_json::from_str(&wanted?.spec().compose).ok()?;
    let mut model: Value = serde_json::from_str(&request.compose_json).ok()?;
    let kept = restart::keep(&mut model, &wanted);
    kept.then(|| v1::ApplyRequest { compose_json: model.to_string(), ..request.clone() })
}

/// Every problem in one refusal: the first as its sentence, all of them in its details.
fn refuse(problems: &Problems) -> Rejection {
    let count = problems.errors().count() + problems.omitted;
    let first = problems.errors().next().map(|problem| problem.message.clone());
    let message = match (first, count) {
        (Some(first), 1) => first,
        (Some(first), count) => format!("{first} (and {} more problems)", count - 1),
        (None, _) => "the manifest breaks a rule".to_owned(),
    };
    Rejection::new(ErrorCode::InvalidManifest, message)
        .with("problems", problems.to_json().to_string())
}

fn deployment_name(
    request: &v1::ApplyRequest,
    overlay: Option<&JacoYaml>,
    project: &Project,
) -> Result<DeploymentName, Rejection> {
    let name = match (overlay, request.deployment.as_str()) {
        (Some(overlay), _) => overlay.deployment.as_str(),
        (None, "") => project.name(),
        (None, given) => given,
    };
    DeploymentName::new(name).map_err(invalid)
}

fn deployment_spec(
    request: &v1::ApplyRequest,
    resolved: &Resolved,
    nodes: &Table<NodeId, Node>,
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
    notes.problems.extend(company::problems(&services));
    company::bind(&mut services);
    for (name, service) in &resolved.services {
        let spec = services.values().find(|spec| spec.name.as_str() == name);
        if let Some(spec) = spec {
            world::compare(spec, service.facts.min_allocations, nodes, &mut notes);
        }
    }
    warnings.append(&mut notes.warnings);
    if !notes.problems.is_empty() {
        return Err(Rejection::new(ErrorCode::InvalidManifest, notes.problems.join("; ")));
    }
    if services.is_empty() {
        let message = "the manifest has no services";
        return Err(Rejection::new(ErrorCode::InvalidManifest, message));
    }
    Ok(DeploymentSpec {
        services,
        compose: request.compose_json.as_str().into(),
        overlay: request.overlay_yaml.as_str().into(),
        environment: request.environment_toml.as_str().into(),
        contents: BTreeSet::new(),
        named: BTreeSet::new(),
        privileges: privileges(resolved)?,
    })
}

/// What the services reach of the nodes that they run on.
fn privileges(
    resolved: &Resolved,
) -> Result<BTreeMap<ServiceName, BTreeSet<Privilege>>, Rejection> {
    let reaching = resolved.services.iter().filter(|(_, one)| !one.facts.privileges.is_empty());
    let named = reaching.map(|(name, one)| {
        let name = ServiceName::new(name).map_err(invalid)?;
        Ok((name, one.facts.privileges.clone()))
    });
    named.collect()
}

/// One on every node that has one of the other: what else says where and how many contradicts that.
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
    let depends_on = facts.depends_on.iter().map(dependency).collect::<Result<_, _>>()?;
    Ok(ServiceSpec {
        name: ServiceName::new(name)?,
        image: facts.image.as_str().into(),
        pull: match facts.pull {
            facts::Pull::Missing => Pull::Missing,
            facts::Pull::Always => Pull::Always,
            facts::Pull::Never => Pull::Never,
        },
        placement: placement(&facts.placement)?,
        replicas: facts.replicas,
        host_ports: host_ports(facts),
        depends_on,
        reservation: facts.reservation,
        limit: Resources {
            cpu: facts.limits.cpu.unwrap_or_default(),
            memory: facts.limits.memory.unwrap_or_default(),
        },
        gpus: None,
        storage: match facts.storage {
            facts::Storage::Stateless => Storage::Stateless,
            facts::Storage::Stateful => Storage::Stateful,
        },
        healthcheck: match facts.healthcheck {
            facts::Healthcheck::Declared => Healthcheck::Declared,
            // Whether the image has one is known once a container of it runs.
            facts::Healthcheck::Image | facts::Healthcheck::Disabled => Healthcheck::None,
        },
        update: update_policy(&facts.update, &facts.rollback),
        scheduling: SchedulingPolicy::default(),
        on_node_loss: facts.on_node_loss,
        container: service.container.canonical.as_str().into(),
        hash: service.container.hash,
    })
}

fn placement(placement: &facts::Placement) -> Result<Placement, InvalidName> {
    Ok(match placement {
        facts::Placement::Spread => Placement::Spread,
        facts::Placement::Pack => Placement::Pack,
        facts::Placement::Global => Placement::Global,
        facts::Placement::Hosts(hosts) => {
            let hosts = hosts.iter().map(|host| Hostname::new(host));
            Placement::Hosts(hosts.collect::<Result<_, _>>()?)
        }
    })
}

/// Ports that exactly one replica of a node can have. A range is the engine's to choose from.
fn host_ports(facts: &Facts) -> Vec<HostPort> {
    let fixed = facts.ports.iter().filter_map(|port| {
        let protocol = match port.protocol {
            facts::Protocol::Tcp => Protocol::Tcp,
            facts::Protocol::Udp => Protocol::Udp,
            facts::Protocol::Sctp => Protocol::Sctp,
        };
        port.fixed().map(|port| HostPort { port, protocol })
    });
    fixed.collect()
}

fn dependency(dependency: &facts::Dependency) -> Result<Dependency, InvalidName> {
    Ok(Dependency {
        service: ServiceName::new(&dependency.service)?,
        condition: match dependency.condition {
            facts::Condition::Started => Condition::Started,
            facts::Condition::Healthy => Condition::Healthy,
            facts::Condition::CompletedSuccessfully => Condition::CompletedSuccessfully,
        },
        required: match dependency.required {
            facts::Required::Yes => Required::Yes,
            facts::Required::No => Required::No,
        },
    })
}

fn order(order: facts::Order) -> UpdateOrder {
    match order {
        facts::Order::StartFirst => UpdateOrder::StartFirst,
        facts::Order::StopFirst => UpdateOrder::StopFirst,
    }
}

fn update_policy(policy: &facts::UpdatePolicy, back: &facts::UpdatePolicy) -> UpdatePolicy {
    let defaults = UpdatePolicy::default();
    let millis = |nanos: u64| Millis(nanos / 1_000_000);
    UpdatePolicy {
        parallelism: policy.parallelism.max(1),
        order: order(policy.order),
        failure_action: match policy.failure_action {
            facts::FailureAction::Rollback => FailureAction::Rollback,
            facts::FailureAction::Pause => FailureAction::Pause,
            facts::FailureAction::Continue => FailureAction::Continue,
        },
        max_failure_permille: policy.max_failure_permille,
        back: BackPolicy {
            parallelism: back.parallelism.max(1),
            order: order(back.order),
            delay: millis(back.delay_nanos),
            monitor: back.monitor_nanos.map(millis),
            failure_action: match back.failure_action {
                facts::FailureAction::Pause => BackFailureAction::Pause,
                facts::FailureAction::Continue | facts::FailureAction::Rollback => {
                    BackFailureAction::Continue
                }
            },
            max_failure_permille: back.max_failure_permille,
        },
        step_timeout: policy.step_timeout_nanos.map_or(defaults.step_timeout, millis),
        monitor: policy.monitor_nanos.map(millis),
        delay: millis(policy.delay_nanos),
    }
}

#[cfg(test)]
mod tests {
    use jaco_state::{ClusterState, Command, Entry, Outcome, apply};
    use jaco_types::{Identity, StateIndex, Timestamp};

    use super::*;

    fn request(compose_json: &str, overlay_yaml: &str) -> v1::ApplyRequest {
        v1::ApplyRequest {
            compose_json: compose_json.to_owned(),
            overlay_yaml: overlay_yaml.to_owned(),
            ..v1::ApplyRequest::default()
        }
    }

    const SHOP: &str = r#"{"name":"shop","services":{"web":{"image":"web:1"}}}"#;

    fn admit(request: &v1::ApplyRequest) -> Result<Admitted, Rejection> {
        super::admit(request, &Stored::default())
    }

    /// What the cluster keeps once this was applied.
    fn running(admitted: &Admitted) -> Stored {
        let mut state = ClusterState::default();
        let Admitted { name, spec, .. } = admitted.clone();
        let command = Command::DeploymentApply { name, spec, based_on: None };
        let (index, at, by) = (StateIndex(1), Timestamp(0), Identity::Scheduler);
        let entry = Entry { index, at, by, origin: None, request: None, command };
        assert!(matches!(apply(&mut state, &entry), Outcome::Deployed { .. }));
        Stored { deployments: state.deployments, ..Stored::default() }
    }

    /// R-CLI-6, R-ROLL-1: a restart changes what containers are made from, and files that do not speak of
    /// it change nothing afterwards; a service that they bring anew was never restarted.
    #[test]
    fn a_restart_outlives_the_next_apply() {
        let mut model: Value = serde_json::from_str(SHOP).unwrap();
        assert!(restart::count(&mut model, Some("web")));
        let first = admit(&request(SHOP, "")).unwrap();
        let restarted = admit(&request(&model.to_string(), "")).unwrap();
        let hash = |admitted: &Admitted, name: &str| {
            let found = admitted.spec.services.iter().find(|(known, _)| known.as_str() == name);
            found.map(|(_, spec)| spec.hash)
        };
        assert_ne!(hash(&first, "web"), hash(&restarted, "web"));
        let stored = running(&restarted);
        let again = super::admit(&request(SHOP, ""), &stored).unwrap();
        assert_eq!(again.spec, restarted.spec);
        let wider = r#"{"name":"shop","services":{"db":{"image":"d"},"web":{"image":"web:1"}}}"#;
        let wider_again = super::admit(&request(wider, ""), &stored).unwrap();
        assert_eq!(hash(&wider_again, "web"), hash(&restarted, "web"));
        let apart = admit(&request(wider, "")).unwrap();
        assert_eq!(hash(&wider_again, "db"), hash(&apart, "db"));
    }

    /// R-IN-1: a compose model alone is enough.
    #[test]
    fn a_compose_model_is_enough() {
        let admitted = admit(&request(SHOP, "")).unwrap();
        assert_eq!(admitted.name.as_str(), "shop");
        let web = admitted.spec.services.values().next().unwrap();
        assert_eq!((&*web.image, web.replicas, &web.placement), ("web:1", 1, &Placement::Spread));
    }

    /// R-CLI-5: what a service reaches of its nodes comes with what is wanted, for the audit to tell; a
    /// service that reaches nothing is not in it.
    #[test]
    fn what_reaches_the_nodes_is_named() {
        let model = r#"{"name":"shop","services":{"web":{"image":"web:1"},
            "agent":{"image":"agent:1","network_mode":"host","pid":"host","cap_add":["NET_ADMIN"],
                "volumes":[{"type":"bind","source":"/srv","target":"/srv"},
                    {"type":"bind","source":"/var/run/docker.sock","target":"/docker.sock"}]},
            "db":{"image":"db:1","volumes":[{"type":"volume","source":"data","target":"/data"}]}},
            "volumes":{"data":{}}}"#;
        let told = admit(&request(model, "")).unwrap().spec.privileges;
        let agent = ServiceName::new("agent").unwrap();
        let expected = [
            Privilege::EngineSocket,
            Privilege::HostNetwork,
            Privilege::HostPid,
            Privilege::HostPath,
            Privilege::Capabilities,
        ];
        assert_eq!(told, [(agent, expected.into())].into());
    }

    /// R-ROLL-4: what `update_config` and `rollback_config` say is what the planner goes by.
    #[test]
    fn rollouts_go_as_the_manifest_says() {
        let deploy = r#"{"update_config":{"parallelism":2,"delay":"3s","monitor":"4s",
            "failure_action":"pause","max_failure_ratio":0.25,"order":"stop-first"},
            "rollback_config":{"parallelism":5,"delay":"6s","order":"stop-first","monitor":"0s",
            "failure_action":"pause","max_failure_ratio":0.5}}"#;
        let model = format!(
            r#"{{"name":"shop","services":{{"web":{{"image":"web:1","deploy":{deploy}}}}}}}"#
        );
        let admitted = admit(&request(&model, "")).unwrap();
        let update = admitted.spec.services.values().next().unwrap().update;
        let order = UpdateOrder::StopFirst;
        let expected = UpdatePolicy {
            parallelism: 2,
            delay: Millis::from_secs(3),
            monitor: Some(Millis::from_secs(4)),
            failure_action: FailureAction::Pause,
            max_failure_permille: 250,
            order,
            back: BackPolicy {
                parallelism: 5,
                delay: Millis::from_secs(6),
                order,
                monitor: Some(Millis(0)),
                failure_action: BackFailureAction::Pause,
                max_failure_permille: 500,
            },
            ..UpdatePolicy::default()
        };
        assert_eq!(update, expected);
    }

    /// R-PLACE-4: a count beside `global` is refused in the documented words.
    #[test]
    fn global_with_replicas_is_refused() {
        let overlay =
            "deployment: shop\nservices:\n  - {name: web, placement: global, replicas: 2}\n";
        let refused = admit(&request(SHOP, overlay)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidManifest);
        let words = "service \"web\" uses placement=global; remove replicas (global runs one \
                     replica per ready node)";
        assert!(refused.message.contains(words), "{}", refused.message);
    }

    /// R-RES-2: the environment's reservation wins, inside the manifest's bounds.
    #[test]
    fn an_environment_sets_reservations() {
        let overlay =
            "deployment: shop\nservices: [{name: web, resources: {memory: {min: 64, max: 512}}}]";
        let reserved = |environment: &str| {
            let request = v1::ApplyRequest {
                environment_toml: environment.to_owned(),
                ..request(SHOP, overlay)
            };
            let admitted = admit(&request).map_err(|rejection| rejection.details)?;
            let web = admitted.spec.services.values().next().unwrap();
            Ok::<_, std::collections::BTreeMap<String, String>>(web.reservation.memory.0 >> 20)
        };
        assert_eq!(reserved("").ok(), Some(512));
        assert_eq!(reserved("[web]\nmemory = 128").ok(), Some(128));
        let outside = reserved("[web]\nmemory = 1024").unwrap_err();
        assert!(outside["problems"].contains("unsupported_resource_configuration"), "{outside:?}");
        let nobody = reserved("[wbe]\nmemory = 128").unwrap_err();
        assert!(nobody["problems"].contains("unknown_service"), "{nobody:?}");
    }

    /// R-CONS-5: constraints of another provider are ignored with a warning; those that cannot hold
    /// together are refused, both named, and every problem of every service at once.
    #[test]
    fn constraints_that_cannot_be_met_are_refused() {
        let admit = |constraints: &str| {
            let overlay = format!(
                "deployment: shop\nconstraints: zone=a instance-type=m5\n\
                 services: [{{name: web, constraints: [{constraints}]}}]"
            );
            admit(&request(SHOP, &overlay))
        };
        let warnings = admit("zone=b").unwrap().warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("constraint instance-type=m5 is ignored"), "{warnings:?}");
        let refused = admit(
            "{attribute: meta.zone, value: b}, {attribute: node.os, operator: regexp, value: \"(\"}, \
             hostname=n1 place-in=n2",
        );
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidManifest);
        for told in [
            "service web: no node can satisfy both node.zone = a and meta.zone = b",
            "no node can satisfy both node.hostname = n1 and node.hostname = n2",
            "node.os regexp: \"(\" is no regular expression",
        ] {
            assert!(refused.message.contains(told), "{}", refused.message);
        }
    }

    /// R-CONS-6: what goes with another service, and how many a node may have, reaches the planner.
    #[test]
    fn wishes_for_company_are_understood() {
        let model = r#"{"name":"shop","services":{"web":{"image":"i","volumes":["data:/d"],"network_mode":"service:vpn"},
            "vpn":{"image":"i"},"log":{"image":"i","volumes_from":["web"],"deploy":{"placement":{"max_replicas_per_node":3}}},
            "agent":{"image":"i"}},"volumes":{"data":{}}}"#;
        let overlay = "deployment: shop\nconstraints: max=5\nservices:\n\
                       - {name: agent, constraints: scale-with=web max=}\n\
                       - {name: vpn, constraints: place-with=vpn}\n";
        let spec = admit(&request(model, overlay)).unwrap().spec;
        let told = ["agent", "log", "vpn", "web"].map(|name| {
            let spec = &spec.services[&name.parse::<ServiceName>().unwrap()];
            let policy = &spec.scheduling;
            let names = |names: &BTreeSet<ServiceName>| {
                names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
            };
            let max = policy.max_per_node.map_or(0, std::num::NonZeroU32::get);
            let (with, beside) = (names(&policy.place_with), names(&policy.beside));
            format!(
                "{name} {} {max} [{with}] [{beside}] {:?}",
                spec.placement.as_str(),
                spec.storage
            )
        });
        let expected = [
            "agent global 0 [] [web] Stateless",
            "log spread 3 [web] [] Stateful",
            "vpn spread 5 [] [] Stateful",
            "web spread 5 [] [vpn] Stateful",
        ];
        assert_eq!(told, expected);
    }

    /// R-CONS-6, R-RES-4: names of nobody, circles, and what contradicts `scale-with`, all at once.
    #[test]
    fn wishes_for_company_that_cannot_be_met_are_refused() {
        let model = r#"{"name":"shop","services":{"web":{"image":"i"},"api":{"image":"i"},"job":{"image":"i"}}}"#;
        let overlay = "deployment: shop\nservices:\n\
                       - {name: web, constraints: place-with=api}\n\
                       - {name: api, constraints: place-with=web}\n\
                       - {name: job, replicas: 2, placement: pack, constraints: scale-with=wep}\n";
        let refused = admit(&request(model, overlay)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidManifest);
        for told in [
            "services api, web go with each other in a circle",
            "service job uses scale-with=wep; remove placement=pack (it runs wherever wep runs)",
            "service job uses scale-with=wep; remove replicas",
            "job goes with wep, which is no service of the deployment, perhaps web is meant",
        ] {
            assert!(refused.message.contains(told), "{told}: {}", refused.message);
        }
    }

    /// R-RES-4: fewer replicas, or fewer nodes that match, than a service is any good with; all at once.
    #[test]
    fn too_few_allocations_are_refused() {
        let model = r#"{"name":"shop","services":{"web":{"image":"i"},"agent":{"image":"i"}}}"#;
        let overlay = "deployment: shop\nservices:\n\
                       - {name: web, replicas: 2, min_allocations_count: 3}\n\
                       - {name: agent, placement: global, selectors: [ssd], min_allocations_count: 2}\n";
        let stored = Stored { nodes: nodes(&[("n1", "ssd"), ("n2", "hdd")]), ..Stored::default() };
        let refused = super::admit(&request(model, overlay), &stored).unwrap_err();
        assert_eq!(refused.code, ErrorCode::InvalidManifest);
        for told in [
            "service web: min_allocations_count is 3, and only 2 are wanted",
            "service agent: min_allocations_count is 2, and only 1 match its selectors",
        ] {
            assert!(refused.message.contains(told), "{}", refused.message);
        }
        let stored = Stored { nodes: nodes(&[("n1", "ssd"), ("n2", "ssd")]), ..Stored::default() };
        let overlay = overlay.replace("replicas: 2", "replicas: 3");
        let admitted = super::admit(&request(model, &overlay), &stored).unwrap();
        assert_eq!(admitted.warnings, [""; 0]);
    }

    /// R-RES-4: a label that nobody carries is told, with the one that is nearest.
    #[test]
    fn labels_of_nobody_are_told() {
        let overlay = "deployment: shop\nservices:\n\
                       - {name: web, selectors: [worker, sdd], constraints: zone=a, spread: [{attribute: node.arhc}]}\n";
        let stored = Stored { nodes: nodes(&[("n1", "ssd")]), ..Stored::default() };
        let warnings = super::admit(&request(SHOP, overlay), &stored).unwrap().warnings;
        assert_eq!(
            warnings,
            [
                "service web: no node carries the label \"arhc\", perhaps node.arch is meant",
                "service web: no node carries the label \"sdd\", perhaps ssd is meant",
                "service web: no node carries the label \"zone\"",
            ]
        );
    }

    fn nodes(labels: &[(&str, &str)]) -> Table<NodeId, Node> {
        let node = |(number, (host, label)): (u64, &(&str, &str))| Node {
            id: NodeId(number),
            hostname: Hostname::new(host).unwrap(),
            address: String::new(),
            key_fingerprint: [0; 32],
            status: jaco_types::NodeStatus::Ready,
            status_reason: String::new(),
            availability: jaco_types::Availability::Active,
            availability_reason: String::new(),
            drain: None,
            facts: jaco_types::NodeFacts::default(),
            labels: BTreeMap::from([((*label).to_owned(), String::new())]),
            joined_at: jaco_types::Timestamp(0),
            modified: jaco_types::StateIndex(number),
        };
        (1..).zip(labels).map(node).map(|node| (node.id, node)).collect()
    }

    /// R-IN-3: what a client could not have resolved is refused, not run.
    #[test]
    fn an_unresolved_model_is_refused() {
        for model in ["", "[]", "{", r#"{"services":{"web":{"imagee":"web:1"}}}"#] {
            let refused = admit(&request(model, "")).unwrap_err();
            assert_eq!(refused.code, ErrorCode::InvalidManifest, "{model}");
        }
        let large = " ".repeat(MODEL_BYTES_MAX + 1);
        assert_eq!(admit(&request(&large, "")).unwrap_err().code, ErrorCode::TooLarge);
    }
}
