//! Writes the metrics of a node in the text format of OpenMetrics.
//!
//! They are read where the values are when they are asked for; only what is gone afterwards is counted as it happens. Each
//! node speaks of itself, and the leader of the cluster as well. No label has a value that callers make up, none names a
//! replica, and those of services and routes are bounded.

mod api;
mod cluster;
mod edge;
mod exposition;
mod family;
mod node;
mod planner;
mod raft;
mod router;
mod traces;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use jaco_store::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use self::exposition::Exposition;
use self::family::Family;
use crate::member::Member;
use crate::metrics::{Readings, Tallies};

/// The type of the document.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The families, by what they are about.
const GROUPS: [(&str, &[&Family]); 9] = [
    ("Consensus", raft::FAMILIES),
    ("The planner", planner::FAMILIES),
    ("Deployments, replicas and nodes", cluster::FAMILIES),
    ("Engine, agent and machine", node::FAMILIES),
    ("The API", api::FAMILIES),
    ("The edge", edge::FAMILIES),
    ("The router", router::FAMILIES),
    ("Traces", traces::FAMILIES),
    ("The process", node::PROCESS_FAMILIES),
];

/// The metrics of a node now.
pub(crate) async fn document(member: &Member) -> Bytes {
    let write = async {
        let seen = seen(member).await;
        // Away from the threads of consensus, as all that is computed for requests.
        let written = tokio::task::spawn_blocking(move || written(seen)).await;
        Bytes::from(written.expect("writing does not panic"))
    };
    member.metrics.kept(write).await
}

/// Every family, as a document: `docs/metrics.md`.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from(
        "# Metrics\n\nEvery node serves these at `/metrics`; how to scrape them is in [monitoring.md](monitoring.md). What \
         the leader exposes is about the whole cluster: ask for `max by (…)`, because for one scrape after a change of \
         leader there may be the series of both. A histogram has the series `…_bucket`, `…_sum` and `…_count`.\n\n\
         At most 128 services and 64 routes have series of their own, in the order of their names; the others are \
         counted together, with the label `other`.\n",
    );
    for (title, families) in GROUPS {
        out.push_str(&format!(
            "\n## {title}\n\n| Name | Type | Labels | Exposed by | What it is |\n| --- | --- | --- | --- | --- |\n"
        ));
        out.extend(families.iter().map(|family| family.row()));
    }
    out
}

/// Everything that the metrics of one moment are written from.
#[derive(Debug)]
struct Seen {
    tallies: Arc<Tallies>,
    readings: Readings,
    raft: raft::Seen,
    node: node::Seen,
    overloaded: u64,
    /// What only the leader exposes.
    cluster: Option<cluster::Seen>,
}

async fn seen(member: &Member) -> Seen {
    let readings = member.metrics.node.read().await;
    let state = member.store.snapshot();
    let raft = raft::Seen::of(member, &state);
    let audit_events = member.store.read(|state| state.audit.events.len());
    let node = node::Seen::of(member, &state, audit_events);
    let cluster = member.store.has_quorum().then_some(cluster::Seen { state });
    let tallies = Arc::clone(&member.metrics.tallies);
    Seen { tallies, readings, raft, node, overloaded: member.gate.overloaded(), cluster }
}

fn written(seen: Seen) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(seen));
    let mut out = String::new();
    text::encode(&mut out, &registry).expect("a string takes what is written to it");
    out
}

impl Collector for Seen {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut Exposition::new(encoder);
        raft::write(out, &self.raft)?;
        planner::write(out, &self.tallies.planner)?;
        if let Some(seen) = &self.cluster {
            cluster::write(out, seen)?;
        }
        node::write(out, &self.node, &self.readings, &self.tallies.engine)?;
        api::write(out, &self.tallies, self.overloaded)?;
        if let Some(edge) = &self.readings.edge {
            edge::write(out, edge)?;
        }
        if let Some(router) = &self.readings.router {
            router::write(out, router)?;
        }
        traces::write(out, &self.tallies.traces)?;
        node::write_process(out, &self.readings.process)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jaco_proto::v1;

    use super::*;
    use crate::metrics::{EdgeReading, PeerReading, RouteReading, RouterReading};

    /// R-OPS-1: `docs/metrics.md` has every family. It is a snapshot: changed names are reviewed.
    #[test]
    fn documentation_is_current() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        expect_test::expect_file![file].assert_eq(&reference());
    }

    /// The services of deployments alone.
    #[derive(Debug)]
    struct Services(Vec<v1::DeploymentInfo>);

    impl Collector for Services {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            cluster::services(&mut Exposition::new(encoder), &self.0)
        }
    }

    /// R-OPS-1, R-JOB-1: what has completed, or is disabled, is not to run: no alert is for it.
    #[test]
    fn completed_jobs_and_disabled_replicas_are_not_to_run() {
        let service = |name: &str, [desired, running, completed, disabled]: [u32; 4]| {
            let name = name.to_owned();
            v1::ServiceInfo { name, desired, running, completed, disabled, ..Default::default() }
        };
        let services = vec![
            service("job", [2, 1, 1, 0]),
            service("off", [3, 0, 0, 3]),
            service("web", [3, 2, 0, 0]),
        ];
        let shop = v1::DeploymentInfo { name: "shop".to_owned(), services, ..Default::default() };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Services(vec![shop])));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        for (name, desired, running) in [("job", 1, 1), ("off", 0, 0), ("web", 3, 2)] {
            for (family, value) in [("desired", desired), ("running", running)] {
                let line = format!(
                    "jaco_service_{family}_replicas{{deployment=\"shop\",service=\"{name}\"}} {value}\n"
                );
                assert!(text.contains(&line), "{line} in {text}");
            }
        }
    }

    /// One of whatever the fake engine of the other tests has not.
    #[derive(Debug)]
    struct Outside(EdgeReading, RouterReading);

    impl Collector for Outside {
        fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let out = &mut Exposition::new(encoder);
            edge::write(out, &self.0)?;
            router::write(out, &self.1)
        }
    }

    /// R-OPS-1: the families of edge and router are written with their labels, all that are documented and no others.
    #[test]
    fn families_of_edge_and_router_are_written() {
        let route = RouteReading {
            domain: "shop.example".to_owned(),
            path: "/a\"b".to_owned(),
            by_class: [0, 7, 0, 0, 2],
            refused_5xx: 2,
            buckets: vec![(Some(250), 7), (None, 2)],
            ..RouteReading::default()
        };
        let edge = EdgeReading { connections: 3, is_stale: false, routes: vec![route] };
        let peer = PeerReading {
            handshake_age: Some(Duration::from_secs(5)),
            received_bytes: 10,
            sent_bytes: 20,
        };
        let router = RouterReading {
            works: true,
            peers: vec![peer, PeerReading::default()],
            questions: vec![("answered", 4)],
            ..RouterReading::default()
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Outside(edge, router)));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"jaco_edge_requests_total{domain="shop.example",path="/a\"b",class="2xx"} 7"#,
            r#"jaco_edge_failures_total{domain="shop.example",path="/a\"b",from="edge"} 2"#,
            r#"jaco_edge_failures_total{domain="shop.example",path="/a\"b",from="instance"} 0"#,
            r#"jaco_router_tunnels{state="recent"} 1"#,
            r#"jaco_router_tunnels{state="idle"} 1"#,
            "jaco_router_received_bytes_total 10",
            r#"jaco_dns_questions_total{result="answered"} 4"#,
        ] {
            assert!(text.lines().any(|written| written == line), "{line}\n{text}");
        }
        assert!(
            text.contains(r#"jaco_edge_request_duration_seconds_bucket{le="+Inf",domain="#),
            "{text}"
        );
        let written = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let written: Vec<_> = written.filter_map(|line| line.split(' ').next()).collect();
        let families = edge::FAMILIES.iter().chain(router::FAMILIES);
        let expected: Vec<_> =
            families.map(|family| family.exposed().trim_end_matches("_total").to_owned()).collect();
        assert_eq!(written, expected);
    }

    /// R-OPS-1: names are those that the conventions of Prometheus ask for.
    #[test]
    fn names_follow_the_conventions() {
        let mut names = std::collections::BTreeSet::new();
        for family in GROUPS.iter().flat_map(|(_, families)| families.iter()) {
            let name = family.exposed();
            let is_ours = name.starts_with("jaco_") || name.starts_with("process_");
            let is_plain = name.chars().all(|one| one == '_' || one.is_ascii_lowercase());
            assert!(is_ours && is_plain, "{name}");
            assert!(
                !family.help.ends_with('.') && !family.help.is_empty(),
                "{name}: the library adds the dot"
            );
            assert!(names.insert(name.clone()), "{name} is there twice");
            let is_of_replica =
                family.labels.iter().any(|label| ["replica", "instance"].contains(label));
            assert!(!is_of_replica, "{name} has as many series as there are replicas");
        }
    }
}
