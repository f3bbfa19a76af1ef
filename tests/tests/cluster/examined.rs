//! R-FAULT-2: `jaco doctor --offline`: what stopped nodes hold, what of it is damaged, and which of them goes furthest. It
//! never writes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jaco_testkit::{Cluster, Engine, Node, binary, v1};
use serde_json::Value;

fn doctor(dirs: &[&Path]) -> Output {
    let mut command = Command::new(binary("jaco"));
    command.arg("-o").arg("json").arg("doctor").arg("--offline").args(dirs);
    command.output().expect("jaco can be started")
}

/// The exit code and the report.
fn examined(dirs: &[&Path]) -> (Option<i32>, Value) {
    let output = doctor(dirs);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|error| panic!("{error}: {said}")))
}

fn data(node: &Node) -> PathBuf {
    node.folder().join("data")
}

/// Every file with its content and its time of change.
fn content(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.extend(content(&path));
        } else if path.is_file() {
            let changed = path.metadata().and_then(|data| data.modified()).expect("a time");
            all.insert(path.clone(), (fs::read(&path).expect("a file"), changed));
        }
    }
    all
}

async fn issue(cluster: &Cluster, node: usize, name: &str) {
    let request = v1::IssueOperatorTokenRequest { name: name.to_owned(), ..Default::default() };
    cluster.nodes[node].client().issue_operator_token(request).await.expect("issued");
}

/// R-FAULT-2: of three survivors it names the one that goes furthest, and what each of the others lacks; a running daemon
/// is refused by name; nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn survivors_are_compared() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let dirs: Vec<PathBuf> = cluster.nodes.iter().map(data).collect();
    let all: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    let leader = cluster.leader().await;
    let early = (leader + 1) % 3;
    let running = doctor(&all);
    let said = String::from_utf8_lossy(&running.stderr).into_owned();
    assert_eq!(running.status.code(), Some(1), "{said}");
    assert!(said.contains(&*dirs[0].to_string_lossy()) && said.contains("in use"), "{said}");

    cluster.nodes[early].kill();
    issue(&cluster, leader, "late").await;
    for node in [leader, 3 - leader - early] {
        cluster.nodes[node].kill();
    }
    let before: Vec<_> = dirs.iter().map(|dir| content(dir)).collect();
    let (code, report) = examined(&all);
    assert_eq!(code, Some(0), "{report:#}");
    let of = |node: usize| &report["data_dirs"][node];
    let best = report["most_advanced"].as_str().expect("one of them").to_owned();
    assert_ne!(best, dirs[early].to_string_lossy(), "{report:#}");
    for node in 0..3 {
        let found = of(node);
        assert_eq!(found["node"], format!("n{}", node + 1), "{found:#}");
        assert_eq!(found["is_lost"], false, "{found:#}");
        assert_eq!(found["log"]["voters"].as_array().map(Vec::len), Some(3), "{found:#}");
        assert!(found["log"]["term"].as_u64() > Some(0), "{found:#}");
        assert!(found["next"][0].as_str().expect("advice").contains("2 of"), "{found:#}");
        assert!(found["written_at_ms"].as_u64() > Some(0), "{found:#}");
    }
    let lacks = &of(early)["lacks"];
    assert!(lacks["of_users"].as_u64() >= Some(1), "{report:#}");
    let newest = lacks["newest"].as_array().expect("a list");
    assert!(newest.iter().any(|one| one["name"] == "OperatorTokenIssue"), "{report:#}");
    let after: Vec<_> = dirs.iter().map(|dir| content(dir)).collect();
    assert!(before == after, "it never writes");
}

/// Does something to a file for a moment, and returns what is said of the data directory then.
fn with_damage(dir: &Path, file: &str, damage: impl FnOnce(&Path)) -> (Option<i32>, Value) {
    let path = dir.join(file);
    let (kept, mode) = (fs::read(&path).expect("a file"), path.metadata().expect("a file"));
    damage(&path);
    let (code, report) = examined(&[dir]);
    fs::write(&path, kept).expect("written back");
    fs::set_permissions(&path, mode.permissions()).expect("as before");
    (code, report["data_dirs"][0].clone())
}

fn flip(path: &Path, at: u64) {
    let file = fs::File::options().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is that long");
    file.write_all_at(&[byte[0] ^ 0x40], at).expect("written");
}

/// The problems of a data directory: check, file and message.
fn problems(found: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = found["problems"].as_array().expect("a list");
    all.iter().map(|one| (text(&one["check"]), text(&one["file"]), text(&one["message"]))).collect()
}

/// R-FAULT-2: whatever is damaged is named with its file, and the journal with the place; what can be done is said.
#[tokio::test(flavor = "multi_thread")]
async fn damage_is_named() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    for name in ["a", "b", "c"] {
        issue(&cluster, 0, name).await;
    }
    cluster.nodes[0].kill();
    let dir = data(&cluster.nodes[0]);
    let check = |file: &str, check: &str, contains: &str, damage: &dyn Fn(&Path)| {
        let (code, found) = with_damage(&dir, file, damage);
        assert_eq!(code, Some(1), "{file}: {found:#}");
        assert_eq!(found["is_lost"], true, "{file}: {found:#}");
        let all = problems(&found);
        let named = all.iter().any(|(of, at, what)| {
            let place = format!("{at} {what}");
            of == check
                && place.contains(&*dir.join(file).to_string_lossy())
                && place.contains(contains)
        });
        assert!(named, "{file} {contains}: {found:#}");
        assert!(!found["next"][0].as_str().unwrap_or_default().is_empty(), "{found:#}");
    };
    let without_time = |mut report: Value| {
        report["data_dirs"][0]["written_at_ms"].take();
        report
    };
    let (code, whole) = examined(&[&dir]);
    assert_eq!(code, Some(0), "{whole:#}");
    assert_eq!(whole["data_dirs"][0]["node"], "n1", "{whole:#}");
    assert_eq!(whole["data_dirs"][0]["problems"], serde_json::json!([]));

    let remove = |path: &Path| fs::remove_file(path).expect("removed");
    let empty = |path: &Path| fs::write(path, "").expect("written");
    check("raft/log/journal", "log", "at byte 0", &|path| flip(path, 20));
    check("raft/log/journal", "log", "at byte 0", &empty);
    check("raft/log/journal", "log", "at byte 0", &remove);
    check("raft/identity", "log", "", &|path| flip(path, 12));
    check("raft/identity", "log", "missing", &remove);
    check("node/node.crt", "identity", "", &|path| flip(path, 200));
    check("node/node.crt", "identity", "missing", &remove);
    check("node/node.key", "identity", "", &empty);
    check("node/node.key", "identity", "missing", &remove);
    check("node/ca.crt", "identity", "", &empty);
    check("node/kek", "kek", "missing", &remove);
    check("node/kek", "kek", "", &empty);
    check("node/kek", "kek", "kek_mismatch", &|path| {
        let key = fs::read_to_string(path).expect("a key");
        let digit = if key.starts_with('0') { "1" } else { "0" };
        fs::write(path, format!("{digit}{}", &key[1..])).expect("written");
    });
    check("node/kek", "kek", "chmod", &|path| {
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("changed");
    });
    // What helps is another thing for each file.
    let advised = |file: &str, words: &str, damage: &dyn Fn(&Path)| {
        let (_, found) = with_damage(&dir, file, damage);
        assert!(found.to_string().contains(words), "{file}: {found:#}");
    };
    advised("node/node.key", "jaco cluster join", &remove);
    advised("node/ca.crt", "copy node/ca.crt from another member", &empty);
    advised("node/raft-log.starts", "jacod rejoin", &|path| {
        fs::write(path, "many").expect("written");
    });
    advised("node/kek", "copy node/kek from another member", &remove);
    let (code, again) = examined(&[&dir]);
    assert_eq!(
        (code, without_time(again)),
        (Some(0), without_time(whole)),
        "put back, it is whole"
    );

    // A digest of a damaged log would be of another state: none is printed.
    let (_, found) = with_damage(&dir, "raft/log/journal", |path| {
        flip(path, 20);
        let config = cluster.nodes[0].folder().join("jacod.yaml");
        let mut digest = Command::new(binary("jacod"));
        digest.arg("--digest").arg("--config").arg(config);
        let digest = digest.output().expect("jacod can be started");
        let said = String::from_utf8_lossy(&digest.stderr).into_owned();
        assert_eq!(digest.status.code(), Some(1), "{said}");
        assert!(digest.stdout.is_empty() && said.contains("journal"), "{said}");
    });
    assert_eq!(found["is_lost"], true, "{found:#}");

    let raft = dir.join("raft");
    fs::rename(&raft, dir.join("aside")).expect("moved");
    let (code, lost) = examined(&[&dir]);
    assert_eq!(code, Some(1), "{lost:#}");
    assert!(problems(&lost["data_dirs"][0])[0].2.contains("lost its log"), "{lost:#}");
    let none = doctor(&[Path::new("/proc")]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("no data of a cluster in /proc"), "{said}");
}
