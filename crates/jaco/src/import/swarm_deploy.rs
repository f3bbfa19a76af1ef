//! What Swarm says of how a service runs: how many, where, how it is updated, its ports.

use serde_json::{Value, json};

use super::amount::{bytes_if_set, cores_if_set, duration_if_set, ratio};
use super::found::Findings;
use super::inspected::{EndpointSpec, Spec, TaskTemplate, UpdateConfig};
use super::label;
use super::section::{Section, pairs};

/// How long Swarm watches a task that it has updated, unless it is told otherwise.
const SWARM_MONITOR_NANOS: u64 = 5_000_000_000;

/// The section `deploy`. Swarm's defaults are left out where they are JACO's as well.
pub(super) fn deploy(service: &str, spec: &Spec, findings: &mut Findings) -> Value {
    let task = &spec.task_template;
    let mut deploy = Section::default();
    put_mode(&mut deploy, spec);
    deploy.put("placement", placement(task));
    deploy.put("resources", resources(service, task, findings));
    deploy.put("update_config", spec.update_config.as_ref().map_or(Value::Null, update));
    deploy.put("rollback_config", spec.rollback_config.as_ref().map_or(Value::Null, update));
    deploy.put("restart_policy", restart_policy(task));
    if spec.endpoint_spec.mode == "dnsrr" {
        deploy.set("endpoint_mode", "dnsrr");
    }
    deploy.put("labels", pairs(&label::own(&spec.labels, &std::collections::BTreeMap::new())));
    deploy.into()
}

fn put_mode(deploy: &mut Section, spec: &Spec) {
    let mode = &spec.mode;
    if let Some(job) = &mode.replicated_job {
        deploy.set("mode", "replicated-job");
        deploy.put("replicas", job.total_completions);
    } else if mode.global_job.is_some() {
        deploy.set("mode", "global-job");
    } else if mode.global.is_some() {
        deploy.set("mode", "global");
    } else {
        let replicas = mode.replicated.as_ref().and_then(|replicated| replicated.replicas);
        deploy.put("replicas", replicas.filter(|replicas| *replicas != 1));
    }
}

fn placement(task: &TaskTemplate) -> Value {
    let placement = &task.placement;
    let mut section = Section::default();
    section.put("constraints", json!(placement.constraints));
    let spread = placement
        .preferences
        .iter()
        .map(|preference| json!({ "spread": preference.spread.spread_descriptor }));
    section.put("preferences", spread.collect::<Vec<_>>());
    let max = (placement.max_replicas != 0).then_some(placement.max_replicas);
    section.put("max_replicas_per_node", max);
    section.into()
}

fn resources(service: &str, task: &TaskTemplate, findings: &mut Findings) -> Value {
    let (limits, reservations) = (&task.resources.limits, &task.resources.reservations);
    let mut limited = Section::default();
    limited.put("cpus", cores_if_set(limits.nano_cpus));
    limited.put("memory", bytes_if_set(limits.memory_bytes));
    limited.put("pids", (limits.pids > 0).then_some(limits.pids));
    let mut reserved = Section::default();
    reserved.put("cpus", cores_if_set(reservations.nano_cpus));
    reserved.put("memory", bytes_if_set(reservations.memory_bytes));
    if !reservations.generic_resources.is_empty() {
        findings.differs(
            service,
            "its generic resources are left out: label the nodes that have them, and use `selectors` in jaco.yaml",
        );
    }
    let mut resources = Section::default();
    resources.put("limits", limited);
    resources.put("reservations", reserved);
    resources.into()
}

/// How a service is updated; nothing if it is what Swarm does by itself, because then it was hardly asked for.
fn update(config: &UpdateConfig) -> Value {
    let is_usual = |text: &str, usual: &str| text.is_empty() || text == usual;
    if config.parallelism == 1
        && config.delay == 0
        && config.monitor == SWARM_MONITOR_NANOS
        && ratio(config.max_failure_ratio).is_none()
        && is_usual(&config.failure_action, "pause")
        && is_usual(&config.order, "stop-first")
    {
        return Value::Null;
    }
    let mut section = Section::default();
    section.set("parallelism", config.parallelism);
    section.put("delay", duration_if_set(config.delay));
    section.put("failure_action", config.failure_action.as_str());
    section.put("monitor", duration_if_set(config.monitor));
    section.put("max_failure_ratio", ratio(config.max_failure_ratio));
    section.put("order", config.order.as_str());
    section.into()
}

/// Restarts are JACO's own, unless a service is to end.
fn restart_policy(task: &TaskTemplate) -> Value {
    let Some(policy) = &task.restart_policy else { return Value::Null };
    if matches!(policy.condition.as_str(), "" | "any") {
        return Value::Null;
    }
    let mut section = Section::default();
    section.set("condition", policy.condition.as_str());
    section.put("max_attempts", policy.max_attempts.filter(|attempts| *attempts != 0));
    section.into()
}

/// Published ports.
pub(super) fn ports(endpoint: &EndpointSpec) -> Vec<Value> {
    let mut ports: Vec<Value> = Vec::new();
    for port in &endpoint.ports {
        let mut section = Section::default();
        section.set("target", port.target_port);
        if port.published_port != 0 {
            section.set("published", port.published_port.to_string());
        }
        section.put("protocol", if port.protocol == "tcp" { "" } else { &port.protocol });
        section.put("mode", if port.publish_mode == "host" { "host" } else { "" });
        ports.push(section.into());
    }
    ports.sort_by_key(|port| port["target"].as_u64());
    ports
}
