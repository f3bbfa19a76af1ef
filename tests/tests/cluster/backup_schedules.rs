//! R-CLI-6: the cluster takes its backups by itself, to a folder or an object store, once for each time that is due, whoever
//! leads, and says so when it cannot.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use jaco_testkit::{
    Cluster, Engine, ObjectStore, StoreAnswer, binary, eventually_within, said, succeeded, v1,
};

use crate::notifications::events;
use crate::scenario::deploy;

/// What is secret: of the cluster, and the key at the object store.
const SECRET: &str = "correct-horse-battery-staple";

/// A pair of keys for tests, as `age-keygen` makes them.
const IDENTITY: &str = "AGE-SECRET-KEY-14S2D2H0HX707VYCMSJNKED4VTW5R0S8RHW7ALGHPUMSNE7888UUQ5YA2XR";
const RECIPIENT: &str = "age14lcnwtzjevayg2uetq9gujhshhnmj8a98tq5ukkuqjxqzhh2h9jqqq7fhn";

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("temporary files can be made");
    writeln!(file, "{text}").expect("written");
    file
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a text")
}

/// A schedule, as a node knows it.
async fn schedule(
    cluster: &Cluster,
    node: usize,
    name: &str,
) -> Result<v1::BackupScheduleInfo, String> {
    let client = cluster.nodes[node].client();
    let listed = client.list_backup_schedules(v1::ListBackupSchedulesRequest::default()).await;
    let listed = listed.map_err(|error| error.to_string())?;
    listed.schedules.into_iter().find(|one| one.name == name).ok_or_else(|| "not there".to_owned())
}

/// Waits until a schedule is as it should be.
async fn becomes(
    cluster: &Cluster,
    node: usize,
    name: &str,
    limit: u64,
    is_it: impl Fn(&v1::BackupScheduleInfo) -> bool,
) -> v1::BackupScheduleInfo {
    eventually_within(Duration::from_secs(limit), &format!("{name} is as it should be"), || async {
        let now = schedule(cluster, node, name).await?;
        if is_it(&now) { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await
}

/// The backups in a folder.
fn backups(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| text(path).contains(".jacobak") && !text(path).contains("/.jaco"))
        .collect();
    paths.sort();
    paths
}

async fn deployments(cluster: &Cluster) -> BTreeSet<(String, String)> {
    let status = cluster.overview(0).await.expect("it answers");
    let of = |replica: v1::ReplicaInfo| (replica.deployment, replica.service);
    status.replicas.into_iter().map(of).collect()
}

/// R-CLI-6: what is due is taken once, in a file that a restore of another cluster has the same deployments from; the
/// retention removes older ones, and who asked for what is in the audit log.
#[tokio::test(flavor = "multi_thread")]
async fn backups_are_taken_as_scheduled_and_restored() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    deploy(&cluster, "blog", "web:1", 1).await;
    let secret = file(SECRET);
    succeeded(&cluster.cli(0, &["secret", "create", "db", text(secret.path())]));
    let folder = tempfile::tempdir().expect("a folder");
    let dest = text(folder.path());
    let line = ["backup", "schedule", "add", "nightly", dest, "--every", "1m", "--keep", "2"];
    let added = succeeded(&cluster.cli(1, &line));
    assert!(added.contains("backup schedule nightly added: every 1m to "), "{added}");
    let refused =
        said(&cluster.cli(0, &["backup", "schedule", "add", "other", dest, "--cron", "@daily"]));
    assert!(refused.contains("the schedule nightly writes to"), "{refused}");

    // The first one is due after a minute, and taken once.
    let first = becomes(&cluster, 0, "nightly", 90, |now| now.last_at_ms > 0 && now.run == 0).await;
    assert_eq!(backups(folder.path()).len(), 1, "{first:?}");
    let taken = events(&cluster, &["backup_taken", "backup_stored"]).await;
    let kinds: Vec<&str> = taken.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["backup_taken", "backup_stored"]);
    assert_eq!(taken[1].payload["name"], first.last_name);
    let path = folder.path().join(&first.last_name);
    assert_eq!(fs::metadata(&path).expect("it is there").len(), first.last_bytes);

    let checked = succeeded(&cluster.cli(0, &["restore", "--check", "--offline", text(&path)]));
    assert!(checked.contains("shop") && checked.contains("blog"), "{checked}");
    let other = Cluster::start(1, Engine::Fake).await;
    succeeded(&other.cli(0, &["restore", text(&path)]));
    other.converged(0, "shop").await;
    other.converged(0, "blog").await;
    assert_eq!(deployments(&other).await, deployments(&cluster).await);

    // A user does not wait, and the retention holds.
    let run = succeeded(&cluster.cli(2, &["backup", "schedule", "run", "nightly"]));
    assert!(run.contains("backup of nightly stored by n"), "{run}");
    succeeded(&cluster.cli(0, &["backup", "schedule", "run", "nightly"]));
    assert_eq!(backups(folder.path()).len(), 2);
    assert!(!path.exists(), "the oldest is not kept");
    let shown = succeeded(&cluster.cli(0, &["backup", "schedule", "ls", "-o", "json"]));
    assert!(shown.contains("\"last\""), "{shown}");
    let removed = succeeded(&cluster.cli(0, &["backup", "schedule", "rm", "nightly"]));
    assert!(removed.contains("its backups stay in"), "{removed}");
    assert_eq!(backups(folder.path()).len(), 2);
    let changes = events(&cluster, &["backup_schedule_stored", "backup_schedule_removed"]).await;
    assert_eq!(changes.len(), 2);
}

/// Adds a schedule to an object store, with recipients.
fn add(cluster: &Cluster, node: usize, name: &str, store: &ObjectStore, more: &[&str]) -> String {
    let secret = file(ObjectStore::SECRET);
    let dest = format!("s3://{}/prod", ObjectStore::BUCKET);
    let endpoint = store.endpoint();
    let line = [
        "backup",
        "schedule",
        "add",
        name,
        &dest,
        "--endpoint",
        &endpoint,
        "--access-key",
        ObjectStore::KEY,
        "--secret-key-file",
        text(secret.path()),
    ];
    said(&cluster.cli(node, &[&line[..], more].concat()))
}

/// R-CLI-6, R-FAULT-1: a leader that is killed while a store takes its backup leaves a run that the next one ends: one backup
/// for one due time, encrypted, and nothing secret anywhere else.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_goes_on_and_takes_one_backup() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 3).await;
    let secret = file(SECRET);
    succeeded(&cluster.cli(0, &["secret", "create", "db", text(secret.path())]));
    let store = ObjectStore::start();
    let refused = add(&cluster, 0, "hourly", &store, &["--every", "1m"]);
    assert!(refused.contains("give recipients with --recipient"), "{refused}");
    let more = ["--every", "1m", "--keep", "1", "--recipient", RECIPIENT];
    let added = add(&cluster, 0, "hourly", &store, &more);
    assert!(added.contains("backup schedule hourly added"), "{added}");
    store.answers(StoreAnswer::Never("PUT"));
    let begun = becomes(&cluster, 0, "hourly", 90, |now| now.run > 0).await;
    eventually_within(Duration::from_secs(30), "it is sent", || async {
        let requests = store.requests();
        let is_sent = requests.iter().any(|request| request.starts_with("PUT "));
        if is_sent { Ok(()) } else { Err(format!("{requests:?}")) }
    })
    .await;
    let leader = cluster.leader().await;
    cluster.nodes[leader].kill();
    store.answers(StoreAnswer::Obeys);
    let next = (leader + 1) % 3;
    let done = becomes(&cluster, next, "hourly", 60, |now| now.last_at_ms > 0).await;
    assert!(done.last_index >= begun.run && done.last_node != cluster.nodes[leader].name);
    let keys = store.keys();
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(keys[0].starts_with("sun-backups/prod/") || keys[0].starts_with("prod/"), "{keys:?}");
    let mut dues = events_at(&cluster, next, &["backup_taken"]).await;
    dues.retain(|event| event.payload["raft_index"] == begun.run.to_string());
    assert_eq!(dues.len(), 1, "{dues:?}");
    let stored = events_at(&cluster, next, &["backup_stored"]).await;
    let of_run: Vec<_> =
        stored.iter().filter(|event| event.payload["name"] == done.last_name).collect();
    assert_eq!(of_run.len(), 1, "{stored:?}");

    // What is stored is for its recipients alone, and restores.
    let content = store.content(&keys[0]).expect("it is there");
    assert!(content.starts_with(b"age-encryption.org/v1"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sun.jacobak.age");
    fs::write(&path, &content).expect("written");
    let identity = file(IDENTITY);
    let line =
        ["restore", "--check", "--offline", "--identity", text(identity.path()), text(&path)];
    let checked = succeeded(&cluster.cli(next, &line));
    assert!(checked.contains("shop"), "{checked}");
    nothing_is_told(&cluster, next).await;

    // The retention of a store goes by names, and a new key of the cluster opens the schedule.
    store.plant("prod/of-others.txt", b"x");
    cluster.nodes[leader].start();
    cluster.settled().await;
    succeeded(&cluster.cli(next, &["cluster", "rotate-kek"]));
    eventually_within(Duration::from_secs(60), "the rotation is settled", || async {
        let answer = cluster.client().get_kek_rotation(v1::GetKekRotationRequest {}).await;
        let now = answer.map_err(|error| error.to_string())?.rotation.ok_or("none")?;
        if now.phase == "settled" { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    succeeded(&cluster.cli(next, &["backup", "schedule", "run", "hourly"]));
    let after = store.keys();
    assert_eq!(after.len(), 2, "{after:?}");
    assert!(!after.contains(&keys[0]) && after.iter().any(|key| key.ends_with("of-others.txt")));
}

async fn events_at(cluster: &Cluster, node: usize, kinds: &[&str]) -> Vec<v1::AuditEvent> {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let client = cluster.nodes[node].client();
    let mut events = client.events(v1::AuditRequest { kinds, ..Default::default() });
    let mut found = Vec::new();
    while let Some(event) = events.next().await.expect("events") {
        found.push(event);
    }
    found
}

/// Fails where what is secret is in a file of a node, its log among them, in an event, or in what a command prints.
async fn nothing_is_told(cluster: &Cluster, node: usize) {
    let secrets = [SECRET, ObjectStore::SECRET];
    for node in &cluster.nodes {
        for file in files(node.folder()) {
            let bytes = fs::read(&file).unwrap_or_default();
            for secret in secrets {
                let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{secret} is in {}", file.display());
            }
        }
    }
    let mut told = format!("{:?}", events_at(cluster, node, &[]).await);
    for line in [&["backup", "schedule", "ls"][..], &["backup", "schedule", "ls", "-o", "json"]] {
        told += &said(&cluster.cli(node, line));
    }
    for secret in secrets {
        assert!(!told.contains(secret), "{secret}");
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return all };
    for entry in entries {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all
}

/// R-CLI-6: a store that refuses, sends on, or returns something else than was written has no backup, and what was there
/// before stays; the reason is shown, and once it works the run ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_loses_nothing() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 1).await;
    let store = ObjectStore::start();
    let more = ["--cron", "@yearly", "--keep", "1", "--plain"];
    add(&cluster, 0, "yearly", &store, &more);
    succeeded(&cluster.cli(0, &["backup", "schedule", "run", "yearly"]));
    let before = store.keys();
    assert_eq!(before.len(), 1);
    for (answer, reason) in [
        (StoreAnswer::Refuses("PUT", 403, "AccessDenied"), "answered 403 (AccessDenied)"),
        (StoreAnswer::SendsOn, "answered 307"),
        (StoreAnswer::Truncates, "came back as something else"),
        (StoreAnswer::BreaksOff, "broke off"),
        (StoreAnswer::Refuses("DELETE", 403, "AccessDenied"), "older backups cannot be removed"),
    ] {
        store.answers(answer);
        let failed = said(&cluster.cli(0, &["backup", "schedule", "run", "yearly"]));
        assert!(failed.contains(reason), "{answer:?}: {failed}");
        let now = schedule(&cluster, 0, "yearly").await.expect("it is there");
        assert!(now.failing_reason.contains(reason), "{now:?}");
        assert!(store.keys().contains(&before[0]), "{answer:?}: {:?}", store.keys());
    }
    let doctor = said(&cluster.cli(0, &["doctor"]));
    assert!(doctor.contains("backups to s3://sun-backups/prod have failed for"), "{doctor}");
    store.answers(StoreAnswer::Obeys);
    succeeded(&cluster.cli(0, &["backup", "schedule", "run", "yearly"]));
    assert_eq!(store.keys().len(), 1);
    assert!(!store.keys().contains(&before[0]));
    let failed = events(&cluster, &["backup_failed"]).await;
    let attempts: Vec<&str> =
        failed.iter().map(|event| event.payload["attempts"].as_str()).collect();
    assert_eq!(attempts, ["1", "5"]);
}

/// R-CLI-6, R-NODE-1: a folder on a full disk, or one that is missing, is an event with the reason and a warning; nothing
/// half is left, and once there is room the backup that was due is taken.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_told_and_tried_again() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 1).await;
    let folder = tempfile::tempdir().expect("a folder");
    let dest = text(folder.path()).to_owned();
    // A disk of the daemon's own.
    let mount = format!("mount -t tmpfs -o size=64k tmpfs {dest} && exec \"$0\" \"$@\"");
    let own = ["--user", "--map-root-user", "--mount", "sh", "-c", &mount];
    cluster.nodes[0].stop();
    cluster.nodes[0].start_under(Command::new("unshare").args(own).arg(binary("jacod")));
    cluster.settled().await;
    let inside = format!("/proc/{}/root{dest}", cluster.nodes[0].pid());
    let ballast = Path::new(&inside).join("ballast");
    fs::write(&ballast, vec![0; 60 << 10]).expect("there is room for it");
    let line = ["backup", "schedule", "add", "yearly", &dest, "--cron", "@yearly", "--keep", "3"];
    succeeded(&cluster.cli(0, &line));
    let big = file(&"x".repeat(40 << 10));
    succeeded(&cluster.cli(0, &["secret", "create", "big", text(big.path())]));
    let failed = said(&cluster.cli(0, &["backup", "schedule", "run", "yearly"]));
    assert!(failed.contains("No space left on device"), "{failed}");
    assert_eq!(backups(Path::new(&inside)), Vec::<PathBuf>::new());
    let left = fs::read_dir(&inside).expect("it is there").count();
    assert_eq!(left, 2, "the ballast and the lock");
    let told = events(&cluster, &["backup_failed"]).await;
    assert_eq!(told.len(), 1);
    assert!(told[0].payload["reason"].contains("No space left on device"), "{told:?}");
    let doctor = said(&cluster.cli(0, &["doctor"]));
    assert!(doctor.contains("No space left on device"), "{doctor}");
    fs::remove_file(&ballast).expect("it is there");
    let done = becomes(&cluster, 0, "yearly", 90, |now| now.last_at_ms > 0).await;
    assert_eq!((done.failing_since_ms, backups(Path::new(&inside)).len()), (0, 1));
}
