//! R-OPS-1: an apply is one trace, from the command to the first healthy check, whichever nodes carry it out.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use jaco_testkit::{
    Cluster, CollectedSpan, Collector, CollectorAnswer, Engine, binary, eventually,
    eventually_within, succeeded, v1,
};

use crate::scenario::apply_request;

const APPLY: &str = "jaco.v1.Deploy/Apply";

/// The trace of another program.
const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const GIVEN_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Applies by the command line, against one node.
fn apply(cluster: &Cluster, node: usize, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let file = cluster.nodes[node].folder().join("compose.yaml");
    let text = "services:\n  web:\n    image: web:1\n    deploy: {replicas: 3}\n    labels:\n      \
                jaco.fake.healthy_after_ms: \"300\"\n    healthcheck: {test: [CMD, \"true\"], interval: 1s}\n";
    std::fs::write(&file, text).expect("it can be written");
    let mut command = Command::new(binary("jaco"));
    command.arg("apply").args(arguments).arg("--name").arg("shop").arg("-f").arg(&file);
    command.env("JACO_SOCKET", cluster.nodes[node].socket()).envs(variables.iter().copied());
    command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT");
    command.output().expect("jaco can be started")
}

/// Waits until the collector has so many spans of these names, and gives all that there are.
async fn spans(collector: &Collector, wanted: &[(&str, usize)]) -> Vec<CollectedSpan> {
    eventually(&format!("spans {wanted:?}"), || async {
        let spans = collector.spans();
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for span in &spans {
            *counts.entry(&span.name).or_default() += 1;
        }
        let has = |(name, count): &(&str, usize)| counts.get(name).is_some_and(|had| had >= count);
        if wanted.iter().all(has) { Ok(spans.clone()) } else { Err(format!("{counts:?}")) }
    })
    .await
}

fn named<'s>(spans: &'s [CollectedSpan], name: &str) -> Vec<&'s CollectedSpan> {
    spans.iter().filter(|span| span.name == name).collect()
}

fn one<'s>(spans: &'s [CollectedSpan], name: &str) -> &'s CollectedSpan {
    let found = named(spans, name);
    assert_eq!(found.len(), 1, "{name}: {spans:#?}");
    found[0]
}

/// R-OPS-1: `jaco apply` at a follower is one trace: the command, the member that received it, the leader that admits,
/// commits and plans it, and on each node the start of its replica until it is healthy, each below what caused it.
#[tokio::test(flavor = "multi_thread")]
async fn an_apply_is_one_trace_from_the_command_to_the_first_healthy_check() {
    let collector = Collector::start(CollectorAnswer::Takes);
    let cluster = Cluster::start_with(3, Engine::Fake, &collector.settings()).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let out = apply(&cluster, follower, &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.base())]);
    succeeded(&out);
    let starts = ["start replica", "start container", "pull image", "first healthy"];
    let wanted = starts.map(|name| (name, 3));
    let once =
        ["jaco apply", APPLY, "admission", "commit", "plan", "rollout"].map(|name| (name, 1));
    let spans = spans(&collector, &[&wanted[..], &once[..]].concat()).await;

    let root = one(&spans, "jaco apply");
    assert_eq!((root.parent.as_str(), root.service.as_str()), ("", "jaco"));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains(&format!("trace {}", root.trace)), "{said}");
    assert!(spans.iter().all(|span| span.trace == root.trace), "{spans:#?}");
    assert!(spans.iter().all(|span| span.failed.is_none()), "{spans:#?}");

    let received = one(&spans, APPLY);
    assert_eq!((&received.parent, &received.host), (&root.id, &cluster.nodes[follower].name));
    for name in ["admission", "commit", "plan", "rollout"] {
        let span = one(&spans, name);
        assert_eq!(
            (&span.parent, &span.host),
            (&received.id, &cluster.nodes[leader].name),
            "{name}"
        );
    }
    let replicas = named(&spans, "start replica");
    let hosts: BTreeSet<&str> = replicas.iter().map(|span| span.host.as_str()).collect();
    assert_eq!(hosts, BTreeSet::from(["n1", "n2", "n3"]), "each node starts one");
    for replica in replicas {
        assert_eq!(replica.parent, one(&spans, "plan").id);
        for name in ["pull image", "start container", "first healthy"] {
            let below = spans.iter().filter(|span| span.name == name && span.parent == replica.id);
            let below: Vec<_> = below.collect();
            assert_eq!(below.len(), 1, "{name}: {spans:#?}");
            assert_eq!(below[0].host, replica.host);
        }
    }
    for healthy in named(&spans, "first healthy") {
        let (began, ended) = healthy.times;
        assert!(ended - began >= 300_000_000, "the check fails for 300 ms: {healthy:?}");
    }
    let ids: BTreeSet<&str> = spans.iter().map(|span| span.id.as_str()).collect();
    assert_eq!(ids.len(), spans.len(), "no span is sent twice");
}

/// R-OPS-1: what a later leader plans is of the trace of the apply that a dead one committed.
#[tokio::test(flavor = "multi_thread")]
async fn a_trace_survives_the_leader_that_committed_it() {
    let collector = Collector::start(CollectorAnswer::Takes);
    let mut cluster = Cluster::start_with(3, Engine::Fake, &collector.settings()).await;
    let leader = cluster.leader().await;
    let request = v1::ApplyRequest {
        overlay_yaml: "deployment: shop\nservices: [{name: web, selectors: [fast]}]\n".to_owned(),
        traceparent: GIVEN.to_owned(),
        ..apply_request("shop", "web:1", 1)
    };
    let applied = cluster.nodes[leader].client().apply(request).await;
    applied.expect("it is admitted, though no node fits");
    let received = one(&spans(&collector, &[(APPLY, 1)]).await, APPLY).clone();
    assert_eq!((received.trace.as_str(), received.parent.as_str()), (GIVEN_TRACE, &GIVEN[36..52]));
    assert!(named(&collector.spans(), "plan").is_empty(), "nothing can be placed");
    cluster.nodes[leader].kill();
    let next = cluster.leader().await;
    let fits = (0..3).find(|node| ![leader, next].contains(node)).expect("a third node");
    let label = v1::SetLabelsRequest {
        hostname: cluster.nodes[fits].name.clone(),
        set: [("fast".to_owned(), String::new())].into(),
        request_id: jaco_testkit::fresh_request_id(),
        ..v1::SetLabelsRequest::default()
    };
    cluster.nodes[next].client().set_labels(label).await.expect("labelled");
    let spans = spans(&collector, &[("plan", 1), ("start replica", 1), ("rollout", 1)]).await;
    assert!(spans.iter().all(|span| span.trace == GIVEN_TRACE), "{spans:#?}");
    let plan = one(&spans, "plan");
    assert_eq!((&plan.parent, &plan.host), (&received.id, &cluster.nodes[next].name));
    let start = one(&spans, "start replica");
    assert_eq!((&start.parent, &start.host), (&plan.id, &cluster.nodes[fits].name));
    let rollout = one(&spans, "rollout");
    assert_eq!((&rollout.parent, &rollout.host), (&received.id, &cluster.nodes[next].name));
}

/// R-OPS-1: a collector that hangs delays no apply; what it does not take is counted.
#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_hangs_delays_no_apply() {
    let collector = Collector::start(CollectorAnswer::Never);
    let cluster = Cluster::start_with(1, Engine::Fake, &collector.settings()).await;
    for number in 0..3 {
        let begun = Instant::now();
        let name = format!("shop{number}");
        let request = apply_request(&name, "web:1", 1);
        cluster.client().apply(request).await.expect("it is admitted");
        // A batch is given up after 5 s: whoever waited for one would take longer.
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(4), "it took {took:?}");
        cluster.converged(0, &name).await;
    }
    let dropped = "jaco_trace_spans_dropped_total{reason=\"export_failed\"}";
    eventually_within(Duration::from_secs(60), "drops are counted", || async {
        let metrics = metrics(&cluster);
        let line = metrics.lines().find_map(|line| line.strip_prefix(dropped));
        let count: u64 = line.and_then(|count| count.trim().parse().ok()).unwrap_or_default();
        if count > 0 { Ok(()) } else { Err(line.map(str::to_owned)) }
    })
    .await;
    assert!(collector.spans().is_empty());
}

/// R-OPS-1: without a collector in the settings a daemon connects to none, starts nothing, and traces nothing, whatever its
/// environment and its callers say.
#[tokio::test(flavor = "multi_thread")]
async fn traces_are_off_by_default() {
    let collector = Collector::start(CollectorAnswer::Takes);
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    cluster.nodes[0].stop();
    let mut daemon = Command::new(binary("jacod"));
    daemon.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.base());
    cluster.nodes[0].start_under(&mut daemon);
    cluster.settled().await;
    let before = threads(&cluster);
    let request =
        v1::ApplyRequest { traceparent: GIVEN.to_owned(), ..apply_request("shop", "web:1", 2) };
    cluster.client().apply(request).await.expect("it is admitted");
    cluster.converged(0, "shop").await;
    let out = apply(&cluster, 0, &["--trace", "--detach"], &[]);
    succeeded(&out);
    assert!(String::from_utf8_lossy(&out.stderr).contains("trace "), "{out:?}");
    assert_eq!(collector.connections(), 0);
    let after = threads(&cluster);
    assert!(after.is_subset(&before), "{after:?} after {before:?}");
    for line in [
        "jaco_trace_spans_exported_total 0",
        "jaco_trace_spans_dropped_total{reason=\"queue_full\"} 0",
    ] {
        let metrics = metrics(&cluster);
        assert!(metrics.lines().any(|written| written == line), "{metrics}");
    }
}

/// The names of the threads of the first daemon.
fn threads(cluster: &Cluster) -> BTreeSet<String> {
    let tasks = format!("/proc/{}/task", cluster.nodes[0].pid());
    let tasks = std::fs::read_dir(tasks).expect("the daemon runs");
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        // A thread may have ended meanwhile.
        std::fs::read_to_string(task.ok()?.path().join("comm")).ok()
    };
    tasks.filter_map(name).collect()
}

fn metrics(cluster: &Cluster) -> String {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--unix-socket"]);
    curl.arg(cluster.nodes[0].socket()).arg("http://localhost/metrics");
    succeeded(&curl.output().expect("curl is there"))
}
