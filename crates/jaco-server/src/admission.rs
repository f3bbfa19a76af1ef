//! Whether what a client sent may become a command. Pure: what the client has resolved is checked
//! again here, without files and without an environment.

mod policy;

use std::collections::BTreeMap;
use std::sync::Arc;

use jaco_compose::facts::{self, Facts};
use jaco_compose::{
    Images, JacoYaml, Options, Problems, Project, Resolved, ResolvedService, from_model, resolve,
};
use jaco_proto::v1;
use jaco_types::spec::{
    Condition, Dependency, DeploymentSpec, Healthcheck, HostPort, Placement, Protocol, Pull,
    Required, SchedulingPolicy, ServiceSpec, Storage, UpdateOrder, UpdatePolicy,
};
use jaco_types::unit::Resources;
use jaco_types::{
    DeploymentName, ErrorCode, Hostname, InvalidName, Millis, Rejection, ServiceName,
};

use crate::status::invalid;

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

/// Checks an apply.
///
/// # Errors
/// `invalid_manifest` with every problem, or `too_large`.
pub fn admit(request: &v1::ApplyRequest) -> Result<Admitted, Rejection> {
    let size = request.compose_json.len() + request.overlay_yaml.len();
    if size > MODEL_BYTES_MAX {
        let message = format!("the manifest has {size} bytes, more than {MODEL_BYTES_MAX}");
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    let project = from_model(request.compose_json.as_bytes()).map_err(|all| refuse(&all))?;
    let overlay = match request.overlay_yaml.as_str() {
        "" => None,
        text => Some(JacoYaml::parse("jaco.yaml", text.as_bytes()).map_err(|all| refuse(&all))?),
    };
    // An image that is only built locally is the nodes' to find: the client has already asked.
    let options = Options { images: Images::AllowLocal, ..Options::default() };
    let resolved = resolve(&project, overlay.as_ref(), &options).map_err(|all| refuse(&all))?;
    let name = deployment_name(request, overlay.as_ref(), &project)?;
    refuse_files(&resolved)?;
    let warnings = resolved.warnings.list.iter().map(|problem| problem.message.clone());
    let mut warnings: Vec<String> = warnings.collect();
    let spec = deployment_spec(request, &resolved, &mut warnings)?;
    Ok(Admitted { name, spec, warnings })
}

/// Configs and secrets are files that nodes do not get yet: refused before anything starts, rather
/// than on every node.
fn refuse_files(resolved: &Resolved) -> Result<(), Rejection> {
    let users = resolved.services.iter().filter(|(_, service)| {
        let container = serde_json::from_str::<serde_json::Value>(&service.container.canonical);
        let container = container.unwrap_or_default();
        ["configs", "secrets"]
            .iter()
            .any(|key| container["service"][key].as_array().is_some_and(|list| !list.is_empty()))
    });
    let users: Vec<&str> = users.map(|(name, _)| name.as_str()).collect();
    if users.is_empty() {
        return Ok(());
    }
    let message = format!(
        "configs and secrets are not delivered to nodes yet, and {} use them: put the files into \
         the image, or mount a folder that each node has",
        users.join(", ")
    );
    Err(Rejection::new(ErrorCode::InvalidManifest, message))
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
    warnings: &mut Vec<String>,
) -> Result<DeploymentSpec, Rejection> {
    let services = resolved.services.iter().map(|(name, service)| {
        let mut spec = service_spec(name, service).map_err(invalid)?;
        spec.scheduling = policy::policy(&spec.name, &service.facts, warnings)?;
        warnings.extend(without_effect(name, &service.facts));
        Ok((spec.name.clone(), Arc::new(spec)))
    });
    let services: BTreeMap<_, _> = services.collect::<Result<_, Rejection>>()?;
    if services.is_empty() {
        let message = "the manifest has no services";
        return Err(Rejection::new(ErrorCode::InvalidManifest, message));
    }
    Ok(DeploymentSpec {
        services,
        compose: request.compose_json.as_str().into(),
        overlay: request.overlay_yaml.as_str().into(),
    })
}

/// What was understood and has no effect yet: accepted, and never silently.
fn without_effect(name: &str, facts: &Facts) -> Vec<String> {
    let told = [
        (facts.max_replicas_per_node.is_some(), "max_replicas_per_node is not enforced"),
        (facts.min_allocations > 0, "min_allocations_count is not checked"),
        (facts.scoring == facts::Scoring::Nomad, "scoring: nomad is not used, JACO's own order is"),
        (
            !facts.gpus.is_empty(),
            "nodes are not chosen by their GPUs; pin it to nodes that have them",
        ),
        (!facts.beside.is_empty(), "it is not kept on the node of the service that it shares with"),
    ];
    let told = told.into_iter().filter(|(applies, _)| *applies);
    told.map(|(_, what)| format!("service {name}: {what}")).collect()
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
        storage: match facts.storage {
            facts::Storage::Stateless => Storage::Stateless,
            facts::Storage::Stateful => Storage::Stateful,
        },
        healthcheck: match facts.healthcheck {
            facts::Healthcheck::Declared => Healthcheck::Declared,
            // Whether the image has one is known once a container of it runs.
            facts::Healthcheck::Image | facts::Healthcheck::Disabled => Healthcheck::None,
        },
        update: update_policy(&facts.update),
        scheduling: SchedulingPolicy::default(),
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

fn update_policy(policy: &facts::UpdatePolicy) -> UpdatePolicy {
    let defaults = UpdatePolicy::default();
    let millis = |nanos: u64| Millis(nanos / 1_000_000);
    UpdatePolicy {
        parallelism: policy.parallelism.max(1),
        order: match policy.order {
            facts::Order::StartFirst => UpdateOrder::StartFirst,
            facts::Order::StopFirst => UpdateOrder::StopFirst,
        },
        step_timeout: policy.step_timeout_nanos.map_or(defaults.step_timeout, millis),
        monitor: policy.monitor_nanos.map_or(defaults.monitor, millis),
        delay: millis(policy.delay_nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(compose_json: &str, overlay_yaml: &str) -> v1::ApplyRequest {
        v1::ApplyRequest {
            compose_json: compose_json.to_owned(),
            overlay_yaml: overlay_yaml.to_owned(),
            ..v1::ApplyRequest::default()
        }
    }

    const SHOP: &str = r#"{"name":"shop","services":{"web":{"image":"web:1"}}}"#;

    /// R-IN-1: a compose model alone is enough.
    #[test]
    fn a_compose_model_is_enough() {
        let admitted = admit(&request(SHOP, "")).unwrap();
        assert_eq!(admitted.name.as_str(), "shop");
        let web = admitted.spec.services.values().next().unwrap();
        assert_eq!((&*web.image, web.replicas, &web.placement), ("web:1", 1, &Placement::Spread));
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
