//! Converts Docker's view of a container to the agent's types.

use std::collections::BTreeMap;

use bollard::models::{
    ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, ContainerStatsResponse,
    ContainerSummary, HealthStatusEnum, PortBinding, PortMap,
};
use jaco_agent::engine::{ContainerId, ContainerStatus, Counters, Health, ObservedContainer};
use jaco_types::{Exit, Timestamp};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::names;

/// `None` for a container that is not JACO's, and for one that is being removed: it counts as gone,
/// and its exit code means nothing.
pub(crate) fn seen(inspected: ContainerInspectResponse) -> Option<ObservedContainer> {
    let labels = inspected.config.and_then(|config| config.labels)?;
    let identity = names::identity(&labels)?;
    let state = inspected.state?;
    if state.status == Some(ContainerStateStatusEnum::REMOVING) {
        return None;
    }
    let ports = inspected.network_settings.and_then(|settings| settings.ports);
    Some(ObservedContainer {
        instance: identity.instance,
        service: identity.service,
        owner: identity.owner,
        container: ContainerId(inspected.id?.into()),
        status: container_status(&state),
        ports: published(&ports.unwrap_or_default()),
        spec_hash: identity.spec_hash,
    })
}

/// Resource usage; `None` for a container that is not running, whose figures are all absent.
pub(crate) fn counters(stats: &ContainerStatsResponse) -> Option<Counters> {
    let cpu_nanos = stats.cpu_stats.as_ref()?.cpu_usage.as_ref()?.total_usage?;
    let memory = stats.memory_stats.as_ref()?;
    let cached = |name: &str| memory.stats.as_ref()?.get(name).copied();
    // `total_inactive_file` on cgroup v1, where `inactive_file` excludes child groups.
    let cached = cached("total_inactive_file").or_else(|| cached("inactive_file"));
    Some(Counters {
        cpu_micros: cpu_nanos / 1000,
        memory_bytes: memory.usage?.saturating_sub(cached.unwrap_or_default()),
    })
}

fn container_status(state: &ContainerState) -> ContainerStatus {
    let started_at = state.started_at.as_deref().and_then(parse_time);
    match state.status {
        Some(ContainerStateStatusEnum::CREATED) => ContainerStatus::Created,
        Some(
            ContainerStateStatusEnum::RUNNING
            | ContainerStateStatusEnum::PAUSED
            | ContainerStateStatusEnum::RESTARTING
            | ContainerStateStatusEnum::STOPPING,
        ) => ContainerStatus::Up {
            health: health(state),
            started_at: started_at.unwrap_or_default(),
        },
        Some(
            ContainerStateStatusEnum::EXITED
            | ContainerStateStatusEnum::REMOVING
            | ContainerStateStatusEnum::DEAD
            | ContainerStateStatusEnum::EMPTY,
        )
        | None => ContainerStatus::Exited {
            exit: Exit {
                code: state.exit_code.unwrap_or_default(),
                out_of_memory: state.oom_killed.unwrap_or_default(),
            },
            error: state.error.clone().unwrap_or_default().into(),
            output: Box::default(),
            started_at,
            finished_at: state.finished_at.as_deref().and_then(parse_time).unwrap_or_default(),
        },
    }
}

fn health(state: &ContainerState) -> Health {
    let Some(health) = &state.health else { return Health::None };
    match health.status {
        Some(HealthStatusEnum::STARTING) => Health::Starting,
        Some(HealthStatusEnum::HEALTHY) => Health::Healthy,
        Some(HealthStatusEnum::UNHEALTHY) => {
            let last = health.log.as_ref().and_then(|log| log.last());
            let output = last.and_then(|result| result.output.clone()).unwrap_or_default();
            Health::Unhealthy { output }
        }
        Some(HealthStatusEnum::NONE | HealthStatusEnum::EMPTY) | None => Health::None,
    }
}

/// The first binding of each port, IPv4 before IPv6. Observations contain TCP ports only.
fn published(ports: &PortMap) -> BTreeMap<u16, String> {
    let ports: BTreeMap<&String, &Option<Vec<PortBinding>>> = ports.iter().collect();
    let bound = ports.into_iter().filter_map(|(port, bindings)| {
        let port = port.strip_suffix("/tcp")?.parse().ok()?;
        let bindings = bindings.as_ref()?;
        let four = bindings.iter().find(|binding| !is_v6(binding)).or(bindings.first())?;
        let host = four.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or("0.0.0.0");
        let published = four.host_port.as_deref().filter(|port| !port.is_empty())?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Some((port, format!("{host}:{published}")))
    });
    bound.collect()
}

fn is_v6(binding: &PortBinding) -> bool {
    binding.host_ip.as_deref().is_some_and(|ip| ip.contains(':'))
}

/// The part of a list entry that changes with the container: its state, and the health that is part
/// of the status text.
pub(crate) fn fingerprint(summary: &ContainerSummary) -> String {
    let state = summary.state.map(|state| state.to_string()).unwrap_or_default();
    let words = summary.status.as_deref().unwrap_or_default();
    let health = words.rsplit_once('(').map(|(_, health)| health).unwrap_or_default();
    let healths = ["healthy)", "unhealthy)", "health: starting)"];
    if healths.contains(&health) { format!("{state} {health}") } else { state }
}

/// A time as Docker writes it; year 1 means never.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let millis = at.unix_timestamp_nanos() / 1_000_000;
    u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Timestamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed() {
        assert_eq!(parse_time("1970-01-01T00:00:01.5Z"), Some(Timestamp(1500)));
        assert_eq!(parse_time("0001-01-01T00:00:00Z"), None);
        assert_eq!(parse_time("soon"), None);
    }

    /// R-REB-2: reclaimable memory is not in use; a stopped container has no figures, which differs
    /// from zero usage.
    #[test]
    fn usage_is_parsed() {
        let read = |text: &str| counters(&serde_json::from_str(text).unwrap());
        let v2 = r#"{"cpu_stats":{"cpu_usage":{"total_usage":5000000}},
            "memory_stats":{"usage":300,"stats":{"inactive_file":100}}}"#;
        assert_eq!(read(v2), Some(Counters { cpu_micros: 5000, memory_bytes: 200 }));
        let v1 = r#"{"cpu_stats":{"cpu_usage":{"total_usage":1000}},
            "memory_stats":{"usage":300,"stats":{"inactive_file":1,"total_inactive_file":400}}}"#;
        assert_eq!(read(v1), Some(Counters { cpu_micros: 1, memory_bytes: 0 }));
        let over = r#"{"cpu_stats":{"cpu_usage":{"total_usage":0}},"memory_stats":{}}"#;
        assert_eq!(read(over), None);
    }

    #[test]
    fn list_fingerprint_has_state_and_health() {
        let shows = |status: &str| {
            let status = Some(status.to_owned());
            fingerprint(&ContainerSummary { status, ..ContainerSummary::default() })
        };
        assert_eq!(shows("Up 3 minutes (unhealthy)"), " unhealthy)");
        assert_eq!(shows("Up 3 minutes (health: starting)"), " health: starting)");
        assert_eq!(shows("Exited (1) 2 seconds ago"), "");
    }
}
