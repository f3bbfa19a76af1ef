//! Whether the containers of a service serve or run to their end, and what follows when one ends (R-JOB-1).

use std::collections::BTreeMap;

use jaco_types::spec::{Placement, RestartPolicy, ServiceMode};

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::types::JacoYaml;
use crate::resolve::resolved::ResolvedService;
use crate::resolve::scene::below;
use crate::yaml::node::{Map, Node};

/// The mode that `deploy.mode` says.
pub(crate) fn mode(service: &Map) -> ServiceMode {
    match below(service.get("deploy"), &["mode"]).and_then(Node::as_str) {
        Some("replicated-job" | "global-job") => ServiceMode::Job,
        Some(_) | None => ServiceMode::Service,
    }
}

/// Only a job with a number of replicas has a schedule (R-JOB-2), and nothing can wait for it: until its time it runs
/// nothing.
pub(crate) fn check_schedules(
    overlay: &JacoYaml,
    services: &BTreeMap<String, ResolvedService>,
    report: &mut Report,
) {
    for own in &overlay.services {
        let Some(service) = services.get(&own.name) else { continue };
        let (facts, name, pos) = (&service.facts, &own.name, own.place("schedule"));
        if facts.schedule.is_none() {
            continue;
        }
        if facts.mode != ServiceMode::Job || matches!(facts.placement, Placement::Global) {
            let message = format!("service `{name}` has a schedule and is not a replicated job");
            report
                .error(pos, Code::ValidationFailed, message)
                .suggest("set `deploy: {mode: replicated-job}` in the compose file");
        }
        let waits = |other: &&ResolvedService| {
            other.facts.depends_on.iter().any(|dependency| dependency.service.as_str() == name)
        };
        if services.values().any(|other| waits(&other)) {
            let waiting = services.iter().filter(|(_, other)| waits(other)).map(|(name, _)| name);
            let waiting: Vec<String> = waiting.map(|name| format!("`{name}`")).collect();
            let message = format!(
                "service `{name}` has a schedule, and {} would wait for its next run",
                waiting.join(", ")
            );
            report.error(pos, Code::ValidationFailed, message).suggest(
                "remove the dependency, or move what is waited for into a job without a schedule",
            );
        }
    }
}

/// The policy of `deploy.restart_policy`, or else of `restart`; always where neither says anything, because a
/// cluster keeps up what it is given. A value that is none is reported.
pub(crate) fn restart_policy(service: &Map, report: &mut Report) -> RestartPolicy {
    let policy = below(service.get("deploy"), &["restart_policy"]);
    if let Some(condition) = below(policy, &["condition"]) {
        let retries = below(policy, &["max_attempts"]).and_then(Node::as_int);
        let retries = retries.and_then(|number| u32::try_from(number).ok());
        return of_condition(condition, retries, report);
    }
    let Some(node) = service.get("restart") else { return RestartPolicy::Always };
    let text = node.as_str().unwrap_or_default();
    let (name, number) = match text.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (text, None),
    };
    match (name, number.map(str::parse)) {
        ("no", None) => RestartPolicy::Never,
        ("always" | "unless-stopped", None) => RestartPolicy::Always,
        ("on-failure", None) => RestartPolicy::OnFailure { retries: None },
        // The engine takes no number and 0 for the same: without a limit of its own.
        ("on-failure", Some(Ok(0))) => RestartPolicy::OnFailure { retries: None },
        ("on-failure", Some(Ok(retries))) => RestartPolicy::OnFailure { retries: Some(retries) },
        _ => {
            report
                .error(node.pos, Code::InvalidValue, format!("`{text}` is not a restart policy"))
                .expected("`no`, `always`, `unless-stopped`, `on-failure` or `on-failure:N`");
            RestartPolicy::Always
        }
    }
}

/// Compose takes the values of `restart` here, too.
fn of_condition(condition: &Node, retries: Option<u32>, report: &mut Report) -> RestartPolicy {
    match condition.as_str().unwrap_or_default() {
        "none" => RestartPolicy::Never,
        "on-failure" => RestartPolicy::OnFailure { retries },
        "any" | "always" | "unless-stopped" => RestartPolicy::Always,
        other => {
            let message = format!("`{other}` is not a restart condition");
            report
                .error(condition.pos, Code::InvalidValue, message)
                .expected("`none`, `on-failure` or `any`");
            RestartPolicy::Always
        }
    }
}
