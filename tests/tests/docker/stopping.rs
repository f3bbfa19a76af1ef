//! Stopping of containers for any cause: with their own signal and grace period, killed at its end
//! and not before.

use std::collections::BTreeMap;
use std::time::Duration;

use jaco_testkit::docker::{containers, docker};
use jaco_testkit::{Cluster, Engine, eventually_within, fresh_request_id, v1};

use crate::engine_events::{EngineEvents, StopEvents};
use crate::scenario::IMAGE;

const PATIENCE: Duration = Duration::from_secs(180);

/// Lets replicas move soon after their start.
const SETTINGS: &str = "rebalance: {replica_cooldown_millis: 1000, node_cooldown_millis: 1000}\n";

/// Exits slowly, within its grace period.
const POLITE: &str = r#""command":["grace","2"],"stop_signal":"SIGINT","stop_grace_period":"30s""#;
/// Would take much longer than its grace period.
const SLOW: &str = r#""command":["grace","600"],"stop_signal":"SIGUSR1","stop_grace_period":"3s""#;

/// Causes of a stop.
#[derive(Debug, Clone, Copy)]
enum Way {
    Roll,
    ScaleDown,
    Drain,
    Rebalance,
    NodeRemove,
    Delete,
}

/// R-HEAL-3: whatever stops a container, it gets the signal of its manifest and its grace period;
/// one that takes longer is killed at the end of it and not before.
#[tokio::test(flavor = "multi_thread")]
async fn every_stop_honours_signal_and_grace_period() {
    let cluster = Cluster::start_with(3, Engine::Docker, SETTINGS).await;
    let events = EngineEvents::follow(&cluster.id);
    let ways =
        [Way::Roll, Way::ScaleDown, Way::Drain, Way::Rebalance, Way::Delete, Way::NodeRemove];
    for way in ways {
        let before = begin(&cluster, way).await;
        take(&cluster, way).await;
        let gone = gone(&cluster, way, &before).await;
        for service in ["polite", "slow"] {
            let gone: Vec<&String> = before
                .iter()
                .filter(|(id, of)| *of == service && gone.contains(id))
                .map(|it| it.0)
                .collect();
            assert!(!gone.is_empty(), "{way:?} stopped nothing of {service}");
            for id in gone {
                check(way, service, &events.end_of(id).await);
            }
        }
        clear(&cluster, way).await;
    }
}

/// Name of the deployment of each cause.
fn name(way: Way) -> String {
    format!("{way:?}").to_lowercase()
}

/// Node from which the cause removes replicas.
fn origin(way: Way) -> Option<&'static str> {
    match way {
        Way::Roll | Way::ScaleDown | Way::Delete => None,
        Way::Drain | Way::Rebalance => Some("n2"),
        Way::NodeRemove => Some("n3"),
    }
}

/// Deploys both services; returns their containers.
async fn begin(cluster: &Cluster, way: Way) -> BTreeMap<String, String> {
    let others: Vec<&str> = match origin(way) {
        Some(origin) => ["n1", "n2", "n3"].into_iter().filter(|host| *host != origin).collect(),
        None => Vec::new(),
    };
    for host in &others {
        set_availability(cluster, host, "cordoned").await;
    }
    apply(cluster, way, 2, "1").await;
    let status = cluster.converged(0, &name(way)).await;
    for host in &others {
        set_availability(cluster, host, "active").await;
    }
    let of_it = status.replicas.into_iter().filter(|one| one.deployment == name(way));
    of_it.map(|one| (one.container_id, one.service)).collect()
}

async fn apply(cluster: &Cluster, way: Way, replicas: u32, round: &str) {
    let service = |keys: &str| {
        format!(
            r#"{{"image":"{IMAGE}",{keys},"environment":{{"ROUND":"{round}"}},"deploy":{{"replicas":{replicas}}}}}"#
        )
    };
    let services = format!(r#"{{"polite":{},"slow":{}}}"#, service(POLITE), service(SLOW));
    let request = v1::ApplyRequest {
        compose_json: format!(r#"{{"name":"{}","services":{services}}}"#, name(way)),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
}

async fn set_availability(cluster: &Cluster, hostname: &str, availability: &str) {
    let request = v1::SetAvailabilityRequest {
        hostname: hostname.to_owned(),
        availability: availability.to_owned(),
        ..v1::SetAvailabilityRequest::default()
    };
    cluster.client().set_availability(request).await.expect("set");
}

/// Applies the cause to both services.
async fn take(cluster: &Cluster, way: Way) {
    match way {
        Way::Roll => apply(cluster, way, 2, "2").await,
        Way::ScaleDown => apply(cluster, way, 1, "1").await,
        Way::Drain => command(cluster, &["node", "drain", "n2"]),
        Way::NodeRemove => command(cluster, &["node", "remove", "n3"]),
        Way::Delete => command(cluster, &["delete", &name(way), "--yes"]),
        // A new replica stays for its cooldown.
        Way::Rebalance => {
            eventually_within(PATIENCE, "both services move", || async {
                command(cluster, &["rebalance", "--goal", "spread", "--apply"]);
                let status = cluster.overview(0).await?;
                let moved = |service: &str| {
                    let mut of_it = status.replicas.iter().filter(|one| one.service == service);
                    of_it.any(|one| one.node != "n2")
                };
                if moved("polite") && moved("slow") { Ok(()) } else { Err(String::new()) }
            })
            .await;
        }
    }
}

fn command(cluster: &Cluster, args: &[&str]) {
    let out = cluster.cli(0, args);
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Waits until the cause is through; returns the containers that are gone.
async fn gone(cluster: &Cluster, way: Way, before: &BTreeMap<String, String>) -> Vec<String> {
    let remaining = match way {
        Way::Roll | Way::Drain | Way::NodeRemove | Way::Delete => 0,
        Way::ScaleDown | Way::Rebalance => 2,
    };
    let label = format!("label=jaco.cluster_id={}", cluster.id);
    let left = || {
        let there = docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &label]);
        let is_there = |id: &&String| there.lines().any(|line| line == id.as_str());
        before.keys().filter(is_there).cloned().collect::<Vec<String>>()
    };
    eventually_within(PATIENCE, "what was to stop is gone", || async {
        let left = left();
        if left.len() == remaining { Ok(()) } else { Err(format!("{way:?}: {left:?}")) }
    })
    .await;
    let left = left();
    before.keys().filter(|id| !left.contains(id)).cloned().collect()
}

async fn clear(cluster: &Cluster, way: Way) {
    let delete = v1::DeleteRequest { deployment: name(way), ..Default::default() };
    // Some causes remove it.
    let _gone = cluster.client().delete(delete).await.is_err();
    eventually_within(PATIENCE, "nothing is left", || async {
        let left = containers(&cluster.id);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    if matches!(way, Way::Drain) {
        set_availability(cluster, "n2", "active").await;
    }
}

/// Tolerance for the engine's clock and a busy machine.
fn check(way: Way, service: &str, told: &StopEvents) {
    let signals: Vec<u32> = told.signals.iter().map(|(signal, _)| *signal).collect();
    let (code, ended) = told.end.expect("it has ended");
    let took = ended.saturating_sub(told.signals.first().map_or(ended, |(_, at)| *at));
    match service {
        "polite" => {
            assert_eq!(
                (&signals[..], code),
                (&[2][..], 0),
                "{way:?}: its signal, its end: {told:?}"
            );
            assert!((1_900..20_000).contains(&took), "{way:?}: it took {took} ms: {told:?}");
        }
        _ => {
            assert_eq!((&signals[..], code), (&[10, 9][..], 137), "{way:?}: killed: {told:?}");
            assert!((2_900..15_000).contains(&took), "{way:?}: killed after {took} ms: {told:?}");
        }
    }
}
