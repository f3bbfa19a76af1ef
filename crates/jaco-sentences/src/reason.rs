//! Reason codes and their facts as sentences. Pure. JSON has the codes and the facts themselves.

use std::collections::{BTreeMap, HashMap};

use jaco_proto::v1::{PlannedWait, ReplicaInfo, UnplacedInfo};

use crate::quantity::count;
use crate::termination;
use crate::time;

/// The maximum length of a log line inside another line, in characters.
const LAST_LINE_MAX: usize = 100;

/// What follows the name of a service that is waited for in the fact since when that runs. No name has a slash.
const SINCE: &str = "/since_ms";
/// The same in the fact that it has failed for good.
const FAILED: &str = "/failed";

/// What a replica may wait for before it has an instance, as the planner calls it.
const WAITS: [&str; 5] = [
    "data_stays_on_node",
    "no_eligible_node",
    "no_room_to_start",
    "waiting_for_neighbour",
    "waiting_for_node",
];

/// Whether this is what a replica waits for before it has an instance.
pub(crate) fn is_wait(code: &str) -> bool {
    WAITS.contains(&code)
}

/// Why a replica is in its state; empty if there is no reason to show.
#[must_use]
pub fn of_replica(replica: &ReplicaInfo) -> String {
    if replica.state == "pending" && is_wait(&replica.code) {
        return sentence(&replica.code, &replica.details);
    }
    let fact = |key: &str| replica.details.get(key).map(|value| one_line(value));
    let mut parts = Vec::new();
    parts.push(match replica.code.as_str() {
        "" if replica.state == "pending" && replica.restart_at_ms > 0 => {
            "it is restarted after a pause, because it failed".to_owned()
        }
        // The state says it.
        "" | "pulling" => String::new(),
        "image_pull_failed" => "the image cannot be pulled".to_owned(),
        "health_pending" => "its healthcheck has not passed yet".to_owned(),
        "unhealthy" => "its healthcheck fails".to_owned(),
        "container_exited" => "its container exited".to_owned(),
        "container_missing" => "its container was removed from outside".to_owned(),
        "engine_error" => "the container engine refused it".to_owned(),
        "restart_exhausted" => match fact("consecutive_failures") {
            Some(failures) => {
                let times = count(failures.parse().unwrap_or_default(), "time");
                format!("it failed {times} and is not restarted any more")
            }
            None if has_timed_out(replica) => {
                "it did not run within the time of its rollout step and is not tried any more"
                    .to_owned()
            }
            None => "it is not restarted any more".to_owned(),
        },
        "network_not_ready" => "its network does not reach it on this node yet".to_owned(),
        "network_conflict" => "its network has addresses that are in use on the node".to_owned(),
        "node_isolated" => "its node was cut off and stopped it".to_owned(),
        "node_down" => format!("node {} is down", fact("node").unwrap_or_default()),
        "disabled" => "disabled".to_owned(),
        "terminating" => "waiting for the consumers of its endpoints".to_owned(),
        unknown => unknown.to_owned(),
    });
    if replica.exited {
        parts.push(termination::exit_text(replica.exit_code));
    }
    let told = ["consecutive_failures", "exit_code", "node"];
    let is_told = |key: &str| told.contains(&key) || (key == "reason" && has_timed_out(replica));
    let mut details: Vec<_> = replica.details.iter().filter(|(key, _)| !is_told(key)).collect();
    details.sort();
    parts.extend(details.into_iter().map(|(key, value)| match key.as_str() {
        "reason" => one_line(value),
        "at_ms" => {
            format!("since {}", time::rfc3339(value.parse().unwrap_or(0)).unwrap_or_default())
        }
        "by" => format!("by {value}"),
        "disabled" => format!("with {value}"),
        "output" => format!("its last line was {:?}", last_line(value)),
        _ => format!("{} {}", words(key), one_line(value)),
    }));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Whether a replica is not tried any more because the time of its rollout step ended.
fn has_timed_out(replica: &ReplicaInfo) -> bool {
    replica.code == "restart_exhausted"
        && replica.details.get("reason").is_some_and(|reason| reason == "step_timeout")
}

/// Why replicas are not placed: `2 replicas cannot be placed: no node is eligible (1 is draining)`.
#[must_use]
pub fn of_unplaced(unplaced: &UnplacedInfo) -> String {
    let replicas = count(unplaced.count as usize, "replica");
    match unplaced.reason.as_str() {
        "waiting_for_dependency" => {
            format!("{replicas} not started: {}", sentence(&unplaced.reason, &unplaced.details))
        }
        "waiting_for_job" => sentence(&unplaced.reason, &unplaced.details),
        "no_room_to_roll" => {
            format!(
                "{replicas} cannot be replaced: {}",
                sentence(&unplaced.reason, &unplaced.details)
            )
        }
        _ => format!(
            "{replicas} cannot be placed: {}",
            sentence(&unplaced.reason, &unplaced.details)
        ),
    }
}

/// Replicas that are or would be pending, with the reason.
#[must_use]
pub fn of_wait(wait: &PlannedWait, verb: &str) -> String {
    let replicas = count(wait.count as usize, "replica");
    let PlannedWait { deployment, service, reason, details, .. } = wait;
    let why = sentence(reason, details);
    format!("{replicas} of {deployment}/{service} {verb}: {why}")
}

/// What a network lacks, and the command that helps.
fn no_address(network: &str, remedy: &str) -> (String, &'static [&'static str]) {
    let text = match remedy.contains(" resize ") {
        true => format!(
            "network {network} has no free address ({remedy} gives it more once nothing is attached)"
        ),
        false => format!("there is no network {network} ({remedy})"),
    };
    (text, &["network", "remedy", "subnet"])
}

/// The reason of a pending replica with its facts.
#[must_use]
pub fn sentence(reason: &str, details: &HashMap<String, String>) -> String {
    let facts: BTreeMap<&str, String> =
        details.iter().map(|(key, value)| (key.as_str(), one_line(value))).collect();
    let fact = |key: &str| facts.get(key).map_or("", String::as_str);
    let (text, told): (String, &[&str]) = match reason {
        "no_eligible_node" => match fact("replica") {
            "" => ("no node is eligible".to_owned(), &[]),
            replica => (
                format!("no node is eligible for {replica}, which is on {}", fact("node")),
                &["replica", "node"],
            ),
        },
        "no_room_to_roll" => {
            (format!("no node has room for the successor of {}", fact("replica")), &["replica"])
        }
        "no_address" => no_address(fact("network"), fact("remedy")),
        "no_room_on_node" => (format!("no room on {}", fact("nodes")), &["nodes"]),
        "no_room_to_start" => (
            format!("{} has no room for {}, whose data is there", fact("node"), fact("replica")),
            &["node", "replica"],
        ),
        "cannot_satisfy_host_placement" => {
            let missing = fact("missing");
            let hosts = if missing.is_empty() { String::new() } else { format!(": {missing}") };
            (format!("pinned hosts are missing or not eligible{hosts}"), &["missing"])
        }
        "waiting_for_node" if !fact("removed").is_empty() => (
            format!(
                "the data of {} is on {}, which was removed from the cluster",
                fact("replica"),
                fact("node")
            ),
            &["node", "removed", "replica"],
        ),
        "waiting_for_node" => (
            format!("{} waits for node {}, which is down", fact("replica"), fact("node")),
            &["node", "replica"],
        ),
        "data_stays_on_node" => (
            format!(
                "the data of {} is on node {}, which is to be left",
                fact("replica"),
                fact("node")
            ),
            &["node", "replica"],
        ),
        "waiting_for_neighbour" => (
            format!(
                "{} waits for {} on a node with room for both",
                fact("replica"),
                fact("beside")
            ),
            &["beside", "replica"],
        ),
        "waiting_for_job" => (
            format!(
                "the drain of {} waits for {} to run to its end",
                fact("node"),
                fact("replica")
            ),
            &["node", "replica"],
        ),
        "waiting_for_dependency" => {
            let waits = facts.iter().filter(|(key, _)| !key.contains('/'));
            let waits = waits.map(|(service, condition)| {
                if facts.contains_key(format!("{service}{FAILED}").as_str()) {
                    return format!(
                        "{service} has failed and is not run again before the next apply"
                    );
                }
                let since = facts.get(format!("{service}{SINCE}").as_str());
                condition_text(service, condition, since.map(String::as_str))
            });
            return waits.collect::<Vec<_>>().join(", ");
        }
        unknown => (words(unknown), &[]),
    };
    let others = facts.iter().filter(|(key, _)| !told.contains(*key));
    let others: Vec<String> = others.map(|(key, value)| rule_text(key, value)).collect();
    if others.is_empty() { text } else { format!("{text} ({})", others.join(", ")) }
}

/// Since when the job that is waited for runs.
fn condition_text(service: &str, condition: &str, since_ms: Option<&str>) -> String {
    let since = since_ms.and_then(|ms| time::rfc3339(ms.parse().ok()?));
    match condition {
        "service_completed_successfully" if let Some(since) = since => {
            format!("{service} has not completed and has been running since {since}")
        }
        "service_started" => format!("{service} has not started"),
        "service_healthy" => format!("{service} is not healthy yet"),
        "service_completed_successfully" => format!("{service} has not completed"),
        other => format!("{service}: {other}"),
    }
}

/// How many nodes a rule excludes, or another fact.
fn rule_text(key: &str, value: &str) -> String {
    let rule = match key {
        "not_ready" => "not ready",
        "engine_down" => "without an engine that answers",
        "disk_full" => "with a full disk",
        "no_network" => "without a router that works",
        "cordoned" => "cordoned",
        "draining" => "draining",
        "disabled" => "where the service is disabled",
        "not_pinned" => "not among the pinned hosts",
        "missing_label" => "without a label that it needs",
        "constraint_fails" => "excluded by a constraint",
        "below_minimum" => "with too little left",
        "not_beside" => "without the service that it is placed with",
        "partner_to_come" => "where its partner is yet to run",
        "max_per_node" => "with as many as one node may have",
        "data_elsewhere" => "without its data",
        "one_per_node" => "with a replica already",
        "too_many_instances" => "with as many instances as they take",
        "host_port_taken" => "where its port is taken",
        "insufficient_cpu" => "short of cpu",
        "insufficient_memory" => "short of memory",
        "insufficient_gpus" => "short of GPUs",
        "no_volume_class" => "without the class of a volume",
        "insufficient_volume_space" => "short of space for a volume",
        _ => return format!("{} {value}", words(key)),
    };
    format!("{value} {rule}")
}

/// A code as words.
fn words(code: &str) -> String {
    code.replace('_', " ")
}

/// The last line of a container's output, shortened; `jaco get replica` shows all of it.
fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(LAST_LINE_MAX).collect()
}

/// Messages of container engines have several lines; a line of progress has one.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unplaced(reason: &str, details: &[(&str, &str)]) -> String {
        let details =
            details.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        of_unplaced(&UnplacedInfo { count: 2, reason: reason.to_owned(), details })
    }

    /// R-CLI-10: reasons are sentences, with their facts.
    #[test]
    fn reasons_are_sentences() {
        let check = |reason, details: &[(&str, &str)], expected: &str| {
            assert_eq!(unplaced(reason, details), expected);
        };
        check("no_eligible_node", &[], "2 replicas cannot be placed: no node is eligible");
        check(
            "no_eligible_node",
            &[("draining", "1"), ("insufficient_memory", "2")],
            "2 replicas cannot be placed: no node is eligible (1 draining, 2 short of memory)",
        );
        check(
            "waiting_for_node",
            &[("replica", "shop-db-0"), ("node", "n2"), ("on_node_loss", "wait")],
            "2 replicas cannot be placed: shop-db-0 waits for node n2, which is down (on node loss wait)",
        );
        check(
            "waiting_for_node",
            &[("replica", "shop-db-0"), ("node", "node 3"), ("removed", "yes")],
            "2 replicas cannot be placed: the data of shop-db-0 is on node 3, which was removed from the cluster",
        );
        check(
            "waiting_for_job",
            &[("node", "n2"), ("replica", "shop-job-0")],
            "the drain of n2 waits for shop-job-0 to run to its end",
        );
        check(
            "waiting_for_dependency",
            &[("db", "service_healthy"), ("migrate", "service_completed_successfully")],
            "2 replicas not started: db is not healthy yet, migrate has not completed",
        );
        check(
            "waiting_for_dependency",
            &[("migrate", "service_completed_successfully"), ("migrate/since_ms", "1767225600000")],
            "2 replicas not started: migrate has not completed and has been running since \
             2026-01-01T00:00:00Z",
        );
        check(
            "waiting_for_dependency",
            &[("migrate", "service_completed_successfully"), ("migrate/failed", "yes")],
            "2 replicas not started: migrate has failed and is not run again before the next apply",
        );
        check(
            "no_room_to_roll",
            &[("replica", "shop-web-1")],
            "2 replicas cannot be replaced: no node has room for the successor of shop-web-1",
        );
        check(
            "no_address",
            &[("network", "shop/default"), ("remedy", "jaco network resize shop/default")],
            "2 replicas cannot be placed: network shop/default has no free address (jaco network \
             resize shop/default gives it more once nothing is attached)",
        );
        check(
            "no_address",
            &[("network", "backbone"), ("remedy", "jaco network create backbone")],
            "2 replicas cannot be placed: there is no network backbone (jaco network create \
             backbone)",
        );
        check(
            "cannot_satisfy_host_placement",
            &[("missing", "n9")],
            "2 replicas cannot be placed: pinned hosts are missing or not eligible: n9",
        );
    }

    /// R-CLI-10: every code of a replica is a sentence.
    #[test]
    fn no_code_is_shown_to_users() {
        for code in jaco_types::ReasonCode::ALL {
            let replica = ReplicaInfo { code: code.as_str().to_owned(), ..ReplicaInfo::default() };
            assert!(!of_replica(&replica).contains('_'), "{}", code.as_str());
        }
        for code in WAITS {
            let details = [("replica".to_owned(), "shop-db-0".to_owned())].into();
            let (state, code) = ("pending".to_owned(), code.to_owned());
            let replica = ReplicaInfo { state, code, details, ..ReplicaInfo::default() };
            let sentence = of_replica(&replica);
            assert!(sentence.contains("shop-db-0") && !sentence.contains('_'), "{sentence}");
        }
    }
}
