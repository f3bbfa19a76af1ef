//! Machines get the programs of another version, one machine after the other, under load.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use jaco_testkit::engines::PATIENCE;
use jaco_testkit::{Installation, Programs, eventually_within, router, succeeded};
use tempfile::TempDir;

use crate::ends::{hang_up, stop};
use crate::history::History;
use crate::load::Load;
use crate::outside::{Outside, Replicas};
use crate::rate::USUAL;
use crate::rounds::Rounds;

/// Two versions, and where each machine has its programs.
struct Versions {
    former: Programs,
    latter: Programs,
    machines: Vec<Installation>,
    /// Removed at the end.
    _folder: TempDir,
}

impl Versions {
    /// All machines have the former.
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("jaco-versions-").tempdir();
        let folder = folder.expect("temporary files can be made");
        // An edge has no rights, and starts the program that takes its place.
        let everybody = Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), everybody).expect("it is ours");
        let place = |name: &str| folder.path().join(name);
        let former = Programs::of_the_previous_release(place("former"));
        let latter = Programs::of_this_tree(place("latter"));
        let machines = ["n1", "n2", "n3"].map(|name| Installation::of(&former, place(name)));
        Self { former, latter, machines: machines.into(), _folder: folder }
    }

    async fn start(&self) -> Outside {
        let daemons = self.machines.iter().map(|machine| machine.path("jacod"));
        Outside::start_of(daemons.collect(), Replicas::Everywhere).await
    }

    /// Replaces the programs of a machine, and what runs of them in the order of the package: router and daemon end and
    /// are started, and the edge has a successor. Containers run on.
    async fn exchange(&self, outside: &mut Outside, at: usize, programs: &Programs) {
        let (begun, containers) = (Instant::now(), outside.containers().await);
        self.machines[at].replace(programs);
        let folder = outside.machines.router(at);
        stop(router::pid(&folder).expect("there is a router"));
        outside.machines.cluster.nodes[at].stop();
        outside.machines.restart(at).await;
        outside.machines.cluster.settled().await;
        let away = begun.elapsed();
        eventually_within(PATIENCE, "the router runs the other program", || async {
            let pid = router::pid(&folder).ok_or("there is none")?;
            if programs.are_run_by(pid) { Ok(()) } else { Err("it runs the one before") }
        })
        .await;
        let edge = outside.edge(at);
        hang_up(edge);
        outside.has_another_edge(at, edge).await;
        outside.are_serving(3).await;
        assert!(programs.are_run_by(outside.machines.cluster.nodes[at].pid()));
        assert!(programs.are_run_by(outside.edge(at)));
        assert_eq!(outside.containers().await, containers, "containers run on");
        show(&format!("n{}: settled after {away:?}, all after {:?}", at + 1, begun.elapsed()));
    }
}

/// R-CLI-6, R-EDGE-1, R-FAULT-1: machines whose clients go on get this version after the release before it, the leader's
/// last; then one goes back to that release, and comes again. Meanwhile users replace replicas in every way: while
/// a member of the former version leads one of the latter, and the reverse. No request fails, no POST arrives twice, no
/// container is replaced by an upgrade, the cluster's state stays linearizable, and the command line of either version
/// does with either daemon what it is asked to.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_of_one_machine_after_the_other_fails_no_request() {
    let versions = Versions::new();
    let mut outside = versions.start().await;
    let history = History::start(&outside.machines);
    let load = outside.load(&[0, 1, 2], USUAL);
    let mut rounds = Rounds::of(&outside).await;
    let leader = outside.machines.cluster.leader().await;
    let [first, second] = [(leader + 1) % 3, (leader + 2) % 3];
    all_run(&outside, &[previous_version(); 3]);

    versions.exchange(&mut outside, first, &versions.latter).await;
    goes_on(&load, &history).await;
    assert_eq!(outside.machines.cluster.leader().await, leader, "the former version leads");
    // One that leads in 0.1.0 makes no moves while others run another version.
    rounds.one_without_moves(&outside).await;
    commands_of_both(&versions, &outside, [first, second]);
    goes_on(&load, &history).await;

    for at in [second, leader] {
        versions.exchange(&mut outside, at, &versions.latter).await;
        goes_on(&load, &history).await;
    }
    let own = env!("CARGO_PKG_VERSION");
    all_run(&outside, &[own; 3]);
    commands_of_both(&versions, &outside, [first, second]);

    let leader = outside.machines.cluster.leader().await;
    let follower = (leader + 1) % 3;
    versions.exchange(&mut outside, follower, &versions.former).await;
    goes_on(&load, &history).await;
    assert_eq!(outside.machines.cluster.leader().await, leader, "the latter version leads");
    rounds.one(&outside).await;
    goes_on(&load, &history).await;
    versions.exchange(&mut outside, follower, &versions.latter).await;
    goes_on(&load, &history).await;
    all_run(&outside, &[own; 3]);
    outside.requests_are_explained().await;

    let (added, read) = history.end().await;
    let outcome = load.end();
    println!(
        "{} replacements, {} requests, {} a second; {added} writes, {read} reads",
        rounds.replaced(),
        outcome.requests,
        outcome.per_second
    );
    outcome.nothing_failed();
}

/// The edges answer and the cluster takes writes.
async fn goes_on(load: &Load, history: &History) {
    load.goes_on().await;
    history.goes_on().await;
}

/// The version of the release before.
fn previous_version() -> &'static str {
    let record = include_str!("../../previous-release").lines().find(|line| !line.starts_with('#'));
    record.and_then(|line| line.split_whitespace().next()).expect("it has a version")
}

/// What the nodes say that they run, by their names.
fn all_run(outside: &Outside, expected: &[&str]) {
    let status = outside.cli(&["cluster", "status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("it is JSON");
    let nodes = status["nodes"].as_array().expect("a list");
    let versions: Vec<_> = nodes.iter().map(|node| node["version"].as_str()).collect();
    assert_eq!(versions, expected.iter().map(|one| Some(*one)).collect::<Vec<_>>(), "{status}");
}

/// The command lines of both versions read the same things at each node, and change them at a node of the other version,
/// if there is one: `ends` are nodes of the latter version and of the former.
fn commands_of_both(versions: &Versions, outside: &Outside, ends: [usize; 2]) {
    for (programs, end) in [&versions.former, &versions.latter].into_iter().zip(ends) {
        let cluster = &outside.machines.cluster;
        let run =
            |at: usize, args: &[&str]| succeeded(&cluster.cli_of(&programs.path("jaco"), at, args));
        run(end, &["scale", "shop/web=5", "--timeout", "60s"]);
        run(end, &["scale", "shop/web=6", "--timeout", "60s"]);
        for at in 0..3 {
            // The node may be behind the one that was told.
            let listed = run(at, &["get", "replicas", "-o", "json"]);
            let listed: serde_json::Value = serde_json::from_str(&listed).expect("it is JSON");
            let listed = listed.as_array().expect("a list");
            let ours = listed.iter().filter(|one| one["deployment"] == "shop").count();
            assert_eq!(ours, 6, "{listed:?}");
            let status = run(at, &["status", "shop"]);
            assert!(status.contains("web") && status.contains("6/6"), "{status}");
            for (args, expected) in [
                (["node", "ls"].as_slice(), "n3"),
                (&["audit", "--last", "5"], "token_issue"),
                (&["logs", "shop/web", "--tail", "1"], "shop-web-"),
                (&["explain", "shop/web"], "n3"),
            ] {
                let said = run(at, args);
                assert!(said.contains(expected), "{args:?}: {said}");
            }
        }
    }
}

/// Shown with the test's failure.
#[expect(clippy::print_stdout, reason = "how far a failed run came must be known")]
fn show(text: &str) {
    println!("{text}");
}
