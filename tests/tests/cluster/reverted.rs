//! R-FAULT-1: a node whose data is an older copy, or a copy that runs beside its original, is named and does not vote.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use jaco_testkit::{Cluster, Engine, Node, eventually, v1};
use serde_json::Value;

/// What a daemon has to notice by itself.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

async fn write(node: &Node, name: &str) {
    let issue = || async {
        let request = v1::IssueOperatorTokenRequest { name: name.to_owned(), ..Default::default() };
        node.client().issue_operator_token(request).await.map_err(|error| error.to_string())
    };
    eventually("a write is taken", issue).await;
}

/// Copies a folder with what is in it, over what is there.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder can be made");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let entry = entry.expect("the folder can be read");
        let target = to.join(entry.file_name());
        let kind = entry.file_type().expect("it has a type");
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), &target).expect("the file can be copied");
        }
    }
    let mode = fs::metadata(from).expect("the folder is there").permissions();
    fs::set_permissions(to, mode).expect("the mode can be set");
}

fn replace(folder: &Path, by: &Path) {
    if folder.exists() {
        fs::remove_dir_all(folder).expect("the folder can be removed");
    }
    copy(by, folder);
}

/// Waits until a daemon has ended by itself because of an older copy.
async fn refuses(node: &mut Node) {
    let deadline = Instant::now() + NOTICED_WITHIN;
    while node.ended().is_none() {
        assert!(Instant::now() < deadline, "{} runs on:\n{}", node.name, node.log_tail());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let said = node.log_tail();
    assert!(said.contains("older copy"), "{} says:\n{said}", node.name);
}

/// A follower whose folder was copied while it was stopped, and which has acknowledged writes since.
async fn with_older_copy(cluster: &mut Cluster, part: &str, older: &Path) -> usize {
    let leader = cluster.leader().await;
    // Others join through the first one.
    let follower = (1..3).find(|node| *node != leader).expect("two of three are not the leader");
    cluster.nodes[follower].stop();
    copy(&cluster.nodes[follower].folder().join(part), older);
    cluster.nodes[follower].start();
    cluster.settled().await;
    for number in 0..5 {
        write(&cluster.nodes[follower], &format!("later-{number}")).await;
    }
    // The other two are a majority without it, and what it acknowledged to nobody it cannot lose.
    eventually("it acknowledges the writes", || async {
        let voters = report(cluster, leader)["replication"].take();
        let has_all = voters.as_array().is_some_and(|voters| {
            voters
                .iter()
                .any(|voter| voter["node"] == *cluster.nodes[follower].name && voter["lag"] == 0)
        });
        if has_all { Ok(()) } else { Err(voters) }
    })
    .await;
    follower
}

/// What `jaco doctor` says.
fn report(cluster: &Cluster, node: usize) -> Value {
    let out = cluster.cli(node, &["doctor", "-o", "json"]);
    serde_json::from_slice(&out.stdout).unwrap_or_default()
}

/// The findings of `jaco doctor` as `check object`.
fn findings(cluster: &Cluster, node: usize) -> Vec<String> {
    let report = report(cluster, node);
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    findings.iter().map(|one| format!("{} {}", text(&one["check"]), text(&one["object"]))).collect()
}

/// The codes of the reasons that `jaco node ls` gives for a node.
fn reasons(cluster: &Cluster, asked: usize, name: &str) -> Vec<String> {
    let out = cluster.cli(asked, &["node", "ls", "-o", "json"]);
    let nodes: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    let nodes = nodes.as_array().cloned().unwrap_or_default();
    let node = nodes.into_iter().find(|node| node["hostname"] == name).unwrap_or_default();
    let reasons = node["reasons"].as_array().cloned().unwrap_or_default();
    reasons.iter().filter_map(|reason| Some(reason["code"].as_str()?.to_owned())).collect()
}

/// Processor time that a daemon has used.
fn used(node: &Node) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", node.pid())).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("a name in parentheses");
    let ticks = fields.split(' ').skip(11).take(2).map(|one| one.parse::<u64>().expect("a number"));
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// R-FAULT-1: an older copy of `raft/` is refused at the start, before the node votes; it returns as a new one.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_raft_folder_is_refused() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let side = tempfile::tempdir().expect("a folder");
    let follower = with_older_copy(&mut cluster, "data/raft", side.path()).await;
    let raft = cluster.nodes[follower].folder().join("data/raft");
    cluster.nodes[follower].kill();
    replace(&raft, side.path());
    cluster.nodes[follower].start();
    refuses(&mut cluster.nodes[follower]).await;
    let said = cluster.nodes[follower].log_tail();
    assert!(said.contains("jacod rejoin"), "{said}");

    let name = cluster.nodes[follower].name.clone();
    let leader = cluster.leader().await;
    let removed = cluster.cli(leader, &["node", "rm", &name, "--force"]);
    assert!(removed.status.success(), "{removed:?}");
    let data = cluster.nodes[follower].folder().join("data");
    fs::remove_dir_all(data).expect("the folder is there");
    cluster.nodes[follower].start();
    cluster.join(follower).await;
    cluster.settled().await;
    // The membership may still have the former node for a moment.
    eventually("nothing is wrong any more", || async {
        let found = findings(&cluster, leader);
        if found.is_empty() { Ok(()) } else { Err(found) }
    })
    .await;
}

/// R-FAULT-1: a node whose whole data folder is an older copy is found out by the leader that has its acknowledgements:
/// it stops before it votes again, stays out, and is named; nobody is busy with it.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_data_folder_is_found_out_by_the_leader() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let side = tempfile::tempdir().expect("a folder");
    let follower = with_older_copy(&mut cluster, "data", side.path()).await;
    let leader = cluster.leader().await;
    assert_ne!(leader, follower);
    let data = cluster.nodes[follower].folder().join("data");
    cluster.nodes[follower].kill();
    replace(&data, side.path());
    cluster.nodes[follower].start();
    refuses(&mut cluster.nodes[follower]).await;
    assert_eq!(cluster.leader().await, leader, "it disturbs no leader");

    let named = format!("log {}", cluster.nodes[follower].name);
    eventually("the node is named", || async {
        let found = findings(&cluster, leader);
        if found.contains(&named) { Ok(()) } else { Err(found) }
    })
    .await;
    // Every node knows why, not only the leader.
    let (name, third) = (&cluster.nodes[follower].name, 3 - leader - follower);
    for asked in [leader, third] {
        eventually("the reasons are listed", || async {
            let found = reasons(&cluster, asked, name);
            if found == ["not_ready", "log_reverted"] { Ok(()) } else { Err(found) }
        })
        .await;
        assert!(reasons(&cluster, asked, &cluster.nodes[leader].name).is_empty());
    }
    let table = cluster.cli(third, &["node", "ls"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("the leader refuses its log"), "{table}");
    // Also after another start.
    cluster.nodes[follower].start();
    refuses(&mut cluster.nodes[follower]).await;
    let before = used(&cluster.nodes[leader]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let busy = used(&cluster.nodes[leader]) - before;
    assert!(busy < Duration::from_secs(1), "the leader used {busy:?} of 5 s");
    write(&cluster.nodes[leader], "goes-on").await;
}

/// R-FAULT-1: a node whose whole data folder is an older copy elects nobody, also if the leader that has its
/// acknowledgements is gone: all members know what it has for good. The next leader finds every write.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_data_folder_elects_nobody() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let side = tempfile::tempdir().expect("a folder");
    let follower = with_older_copy(&mut cluster, "data", side.path()).await;
    let leader = cluster.leader().await;
    let third = 3 - leader - follower;
    // The leader tells once a second what its followers have.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let data = cluster.nodes[follower].folder().join("data");
    cluster.nodes[follower].kill();
    cluster.nodes[leader].kill();
    replace(&data, side.path());
    cluster.nodes[follower].start();
    refuses(&mut cluster.nodes[follower]).await;
    let alone = cluster.nodes[third].client().status(v1::ClusterStatusRequest {}).await;
    let alone = alone.expect("a node without a quorum says so");
    assert_ne!(alone.leader, cluster.nodes[third].name, "it was elected by an older copy");

    cluster.nodes[leader].start();
    cluster.leader().await;
    write(&cluster.nodes[third], "goes-on").await;
    let listed = cluster.cli(third, &["token", "ls"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for number in 0..5 {
        assert!(listed.contains(&format!("later-{number}")), "{number} is gone: {listed}");
    }
    // Also after another start.
    cluster.nodes[follower].start();
    refuses(&mut cluster.nodes[follower]).await;
}

/// R-FAULT-1: a copy of a data folder that runs beside its original, at an address of its own, is refused; the original
/// stays the member.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_beside_its_original_is_refused() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let side = tempfile::tempdir().expect("a folder");
    let original = with_older_copy(&mut cluster, "data", side.path()).await;
    let copied = 3;
    cluster.add_daemon();
    cluster.nodes[copied].kill();
    let data = cluster.nodes[copied].folder().join("data");
    replace(&data, side.path());
    cluster.nodes[copied].start();
    refuses(&mut cluster.nodes[copied]).await;

    write(&cluster.nodes[original], "goes-on").await;
    let leader = cluster.leader().await;
    let address = cluster.nodes[original].address.clone();
    eventually("the original is the member again", || async {
        let status = cluster.nodes[leader].client().status(v1::ClusterStatusRequest {}).await;
        let nodes = status.map_err(|error| error.to_string())?.nodes;
        let is_back = nodes.iter().any(|node| {
            node.address == address && node.suffrage == "voter" && node.status == "ready"
        });
        let found = findings(&cluster, leader);
        if is_back && found.is_empty() { Ok(()) } else { Err(format!("{nodes:?} {found:?}")) }
    })
    .await;
    assert!(cluster.nodes[original].is_running());
}
