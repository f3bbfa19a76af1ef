//! A backup of one cluster, restored in another: the desired state, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use jaco_testkit::v1::backup_part::Kind;
use jaco_testkit::{Cluster, Engine, eventually, eventually_within, fresh_request_id, said, v1};
use serde_json::Value;

const COMPOSE: &str = "
name: shop
services:
  web:
    image: web:1
    volumes: ['./conf:/etc/web:ro']
    configs: [rates, motd]
  api:
    image: api:1
    secrets: [key, db]
configs:
  rates: {external: true}
  motd: {file: ./motd.txt}
secrets:
  key: {file: ./key.txt}
  db: {external: true}
";

const OVERLAY: &str = "deployment: shop\nservices:\n  - name: web\n    replicas: 2\n";

/// Constraint for n3 only.
const PINNED: &str =
    "deployment: blog\nservices:\n  - name: web\n    placement: hosts\n    hosts: [n3]\n";

const SECRETS: [&str; 3] =
    ["correct-horse-battery", "staple-of-the-database", "token-of-the-registry"];

fn run(cluster: &Cluster, node: usize, args: &[&str]) -> Output {
    let output = cluster.cli(node, args);
    assert!(output.status.success(), "jaco {}: {}", args.join(" "), said(&output));
    output
}

/// A project directory with these files.
fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("likewise");
        fs::write(path, text).expect("temporary files can be written");
    }
    folder
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().expect("a text").to_owned()
}

fn apply(cluster: &Cluster, folder: &Path) {
    run(cluster, 0, &["apply", "--detach", folder.to_str().expect("a text")]);
}

/// All kinds of desired state.
async fn speak(cluster: &Cluster) {
    let folder = project(&[
        ("compose.yaml", COMPOSE),
        ("jaco.yaml", OVERLAY),
        ("conf/a.conf", "listen 80"),
        ("conf/sub/b.conf", "listen 81"),
        ("motd.txt", "welcome"),
        ("rates.txt", "7 %"),
        ("key.txt", SECRETS[0]),
        ("db.txt", SECRETS[1]),
    ]);
    let shop = folder.path();
    run(cluster, 0, &["secret", "create", "db", &path(shop, "db.txt")]);
    run(cluster, 0, &["configs", "create", "rates", &path(shop, "rates.txt")]);
    apply(cluster, shop);
    let compose = jaco_tests::compose("blog", "web", "web:1", 1);
    let blog = project(&[("compose.yaml", compose.as_str()), ("jaco.yaml", PINNED)]);
    apply(cluster, blog.path());
    run(cluster, 0, &["disable", "shop/api"]);
    eventually("the replica has its name", || async {
        let out = cluster.cli(0, &["disable", "shop/web", "--replica", "1"]);
        if out.status.success() { Ok(()) } else { Err(said(&out)) }
    })
    .await;
    eventually("a retention can be set", || async {
        let out = cluster.cli(0, &["audit", "retention", "30d"]);
        if out.status.success() { Ok(()) } else { Err(said(&out)) }
    })
    .await;
    run(cluster, 0, &["node", "cordon", "n2"]);
    let client = cluster.client();
    let labels = v1::SetLabelsRequest {
        hostname: "n1".to_owned(),
        set: [("zone".to_owned(), "a".to_owned())].into(),
        request_id: fresh_request_id(),
        ..Default::default()
    };
    client.set_labels(labels).await.expect("the cluster agrees");
    let constraints = v1::SetConstraintsRequest {
        pairs: [("max".to_owned(), "5".to_owned())].into(),
        request_id: fresh_request_id(),
    };
    client.set_constraints(constraints).await.expect("the cluster agrees");
    let registry = v1::StoreRegistryRequest {
        registry: "ghcr.io".to_owned(),
        username: "robot".to_owned(),
        password: SECRETS[2].to_owned(),
        request_id: fresh_request_id(),
        dry_run: false,
    };
    client.store_registry(registry).await.expect("the cluster agrees");
}

/// The desired state of a cluster, without its name and content ids.
async fn spoken(cluster: &Cluster) -> BTreeSet<String> {
    let mut parts = cluster.client().backup(v1::BackupRequest {}).await.expect("a backup begins");
    let (mut pieces, mut secrets) = (BTreeMap::new(), BTreeMap::new());
    let (mut said, mut deployments) = (BTreeSet::new(), Vec::new());
    while let Some(part) = parts.next().await.expect("it goes on") {
        match part.kind.expect("every part is of a kind") {
            Kind::Header(_) => {}
            Kind::Piece(piece) => {
                let text = String::from_utf8(piece.content.to_vec()).expect("all files are texts");
                pieces.insert(text, ());
            }
            Kind::Secret(secret) => {
                let id: String = secret.id.iter().map(|byte| format!("{byte:02x}")).collect();
                let text = String::from_utf8(secret.content.to_vec()).expect("likewise");
                secrets.insert(id, text);
            }
            Kind::Named(named) => {
                said.insert(format!("{} {} {:?}", named.kind, named.name, named.content));
            }
            Kind::Registry(one) => {
                said.insert(format!("registry {} {} {}", one.registry, one.username, one.password));
            }
            Kind::Deployment(deployment) => deployments.push(deployment),
            other @ (Kind::Retention(_)
            | Kind::Constraints(_)
            | Kind::Node(_)
            | Kind::Network(_)
            | Kind::Policy(_)
            | Kind::Grants(_)
            | Kind::NotifyTarget(_)
            | Kind::Disabled(_)
            | Kind::End(_)) => {
                said.insert(format!("{other:?}"));
            }
        }
    }
    for text in pieces.into_keys() {
        let named = secrets.iter().fold(text, |text, (id, secret)| text.replace(id, secret));
        said.insert(named);
    }
    for one in deployments {
        let secrets: Vec<&str> = one.secrets.iter().map(|files| files.name.as_str()).collect();
        let texts = (&one.compose_json, &one.overlay_yaml, &one.environment_toml);
        said.insert(format!("{} {texts:?} {:?} {:?}", one.name, one.binds, one.configs));
        said.insert(format!("{} {secrets:?}", one.name));
    }
    said
}

/// Runs `jaco restore FILE …`; returns exit code and outcome of each item.
fn restore(
    cluster: &Cluster,
    file: &str,
    more: &[&str],
) -> (Option<i32>, BTreeMap<String, String>) {
    let output = cluster.cli(0, &[&["restore", file, "-o", "json"], more].concat());
    // Errors are printed after the result.
    let mut json = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let told = json.next().unwrap_or_else(|| panic!("{}", said(&output))).expect("json");
    let text = |item: &Value, key: &str| item[key].as_str().unwrap_or_default().to_owned();
    let items = told["items"].as_array().unwrap_or_else(|| panic!("{}", said(&output))).iter();
    let outcome = |item: &Value| match text(item, "code").as_str() {
        "" => text(item, "outcome"),
        code => format!("{} {code}", text(item, "outcome")),
    };
    let name = |item: &Value| format!("{} {}", text(item, "kind"), text(item, "name"));
    (output.status.code(), items.map(|item| (name(item), outcome(item))).collect())
}

/// Items with another outcome than `outcome`.
fn except(items: &BTreeMap<String, String>, outcome: &str) -> Vec<String> {
    let others = items.iter().filter(|(_, became)| became.as_str() != outcome);
    others.map(|(name, became)| format!("{name} {became}")).collect()
}

/// The exit code of a drill, and what it says of the file.
fn drill(cluster: &Cluster, file: &str, more: &[&str]) -> (Option<i32>, Value) {
    let args = [&["restore", "--check", file, "-o", "json"], more].concat();
    let output = cluster.cli(0, &args);
    // An error follows as a document of its own.
    let mut documents = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    let report: Value = documents.next().expect("a report").expect("json");
    (output.status.code(), report["files"][0].clone())
}

fn hash(status: &v1::StatusResponse, service: &str) -> String {
    let services = status.deployments.iter().flat_map(|one| &one.services);
    let found = services.into_iter().find(|one| one.name == service && one.image == "web:1");
    found.expect("the service is wanted").spec_hash.clone()
}

/// R-CLI-6, R-IN-5, R-CLI-5: after a total loss a new cluster gets the whole desired state from a
/// backup of any node; refused items are named and can be restored later; no secret is exposed.
#[tokio::test(flavor = "multi_thread")]
async fn backup_restores_a_lost_cluster() {
    let lost = Cluster::start(3, Engine::Fake).await;
    speak(&lost).await;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let file = path(folder.path(), "sun.jacobak");
    let follower = (lost.leader().await + 1) % 3;
    let taken = run(&lost, follower, &["backup", &file, "-o", "json"]);
    let told: Value = serde_json::from_slice(&taken.stdout).expect("json");
    assert_eq!((&told["deployments"], &told["named"]), (&2.into(), &2.into()), "{told}");
    let mode = fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(
        (mode & 0o777, told["bytes"].as_u64()),
        (0o600, fs::metadata(&file).ok().map(|f| f.len()))
    );
    let again = lost.cli(0, &["backup", &file]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    run(&lost, 0, &["backup", &file, "--force"]);

    let audit = run(&lost, 0, &["audit", "--type", "backup_taken", "-o", "json"]);
    let events: Vec<Value> = serde_json::from_slice(&audit.stdout).expect("a list");
    assert_eq!(events.len(), 2, "each backup is told once: {events:?}");
    let by_people = |event: &Value| {
        // Also from a follower.
        event["by"].as_str().is_some_and(|by| by.starts_with("local:"))
            && event["payload"]["raft_index"].is_u64()
    };
    assert!(events.iter().all(by_people), "{events:?}");
    let had = spoken(&lost).await;
    let hashes = hash(&lost.overview(0).await.expect("it answers"), "web");
    for node in &lost.nodes {
        let log = fs::read_to_string(node.log_path()).expect("it has a log");
        assert!(SECRETS.iter().all(|secret| !log.contains(secret)), "{}", node.name);
    }
    assert!(SECRETS.iter().all(|secret| !said(&taken).contains(secret)));
    drop(lost);

    let mut fresh = Cluster::start(2, Engine::Fake).await;
    let nothing = spoken(&fresh).await;
    let (code, items) = restore(&fresh, &file, &["--dry-run"]);
    assert_eq!(code, Some(3), "{items:?}");
    assert_eq!(except(&items, "restored"), ["deployment blog refused unknown_host"]);
    let (code, drilled) = drill(&fresh, &file, &[]);
    assert_eq!((code, &drilled["restorable"]), (Some(3), &false.into()), "{drilled}");
    assert_eq!(drilled["here"]["counts"]["refused"], 1, "{drilled}");
    let (code, drilled) = drill(&fresh, &file, &["--offline"]);
    assert_eq!((code, &drilled["restorable"]), (Some(0), &true.into()), "{drilled}");
    assert!(drilled["raft_index"].as_u64() > told["raft_index"].as_u64(), "{drilled}");
    assert!(SECRETS.iter().all(|secret| !drilled.to_string().contains(secret)), "{drilled}");
    assert_eq!(spoken(&fresh).await, nothing, "dry runs and drills change nothing");
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!(code, Some(3), "{items:?}");
    assert_eq!(except(&items, "restored"), ["deployment blog refused unknown_host"]);
    fresh.add_daemon();
    fresh.join(2).await;
    fresh.settled().await;
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!(
        (code, except(&items, "unchanged")),
        (Some(0), vec!["deployment blog restored".to_owned()])
    );
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!((code, except(&items, "unchanged")), (Some(0), Vec::new()));
    assert_eq!(spoken(&fresh).await, had);
    let (code, drilled) = drill(&fresh, &file, &[]);
    assert_eq!((code, &drilled["here"]["counts"]["restored"]), (Some(0), &0.into()), "{drilled}");
    assert_eq!(hash(&fresh.overview(0).await.expect("it answers"), "web"), hashes);

    // Newer items are kept and named.
    let compose = jaco_tests::compose("blog", "web", "web:2", 1);
    let blog = project(&[("compose.yaml", compose.as_str()), ("jaco.yaml", PINNED)]);
    apply(&fresh, blog.path());
    let other = project(&[("rates.txt", "8 %")]);
    run(&fresh, 0, &["configs", "create", "rates", &path(other.path(), "rates.txt")]);
    let (code, items) = restore(&fresh, &file, &[]);
    let differ = ["config rates skipped", "deployment blog skipped"];
    assert_eq!((code, except(&items, "unchanged")), (Some(0), differ.map(str::to_owned).to_vec()));
    let (code, items) = restore(&fresh, &file, &["--only", "blog", "--replace"]);
    let only = [("deployment blog".to_owned(), "restored".to_owned())];
    assert_eq!((code, items), (Some(0), only.into()));
    let (code, _) = restore(&fresh, &file, &["--replace"]);
    assert_eq!((code, spoken(&fresh).await), (Some(0), had));
    for node in &fresh.nodes {
        let log = fs::read_to_string(node.log_path()).expect("it has a log");
        assert!(SECRETS.iter().all(|secret| !log.contains(secret)), "{}", node.name);
    }
}

/// R-FAULT-2: what a survivor of a lost quorum holds is saved with its daemon stopped, without a quorum, and restored in
/// another cluster. The data is as before: its daemon starts again, with files that belong to its user.
#[tokio::test(flavor = "multi_thread")]
async fn t106_a_survivor_is_backed_up_offline() {
    let mut lost = Cluster::start(3, Engine::Fake).await;
    speak(&lost).await;
    let had = spoken(&lost).await;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let file = path(folder.path(), "sun.jacobak");
    let data = path(lost.nodes[2].folder(), "data");
    let offline = ["backup", "--offline", &data, &file, "-o", "json"];
    let refused = lost.cli(2, &offline);
    assert!(!refused.status.success() && said(&refused).contains("in use"), "{}", said(&refused));
    for node in &mut lost.nodes {
        node.stop();
    }
    for node in &lost.nodes[..2] {
        fs::remove_dir_all(node.folder().join("data")).expect("its disk is lost");
    }
    let stranger = 54_321;
    give_to(Path::new(&data), stranger);

    let key = Path::new(&data).join("node/kek");
    let kept = fs::read(&key).expect("it has a key");
    let mut altered = kept.clone();
    altered[0] = if altered[0] == b'0' { b'1' } else { b'0' };
    fs::write(&key, &altered).expect("it can be written");
    let refused = lost.cli(2, &offline);
    assert!(!refused.status.success() && said(&refused).contains("key"), "{}", said(&refused));
    assert!(!Path::new(&file).exists(), "no file looks like a backup");
    fs::write(&key, &kept).expect("it can be written");

    let taken = run(&lost, 2, &offline);
    let told: Value = serde_json::from_slice(&taken.stdout).expect("json");
    assert_eq!((&told["deployments"], &told["named"]), (&2.into(), &2.into()), "{told}");
    let mode = fs::metadata(&file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(SECRETS.iter().all(|secret| !said(&taken).contains(secret)));
    assert_eq!(others_in(Path::new(&data), stranger), Vec::<String>::new(), "of another user");
    give_to(Path::new(&data), 0);
    lost.nodes[2].start();
    eventually("its daemon runs as before", || async {
        match lost.overview(2).await {
            Err(said) if said.contains("no contact with a quorum") => Ok(()),
            other => Err(format!("{:?}", other.map(drop))),
        }
    })
    .await;

    let fresh = Cluster::start(3, Engine::Fake).await;
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!((code, except(&items, "restored")), (Some(0), Vec::new()));
    assert_eq!(spoken(&fresh).await, had);
}

/// Makes this user the owner of all in a folder.
fn give_to(folder: &Path, user: u32) {
    std::os::unix::fs::chown(folder, Some(user), Some(user)).expect("tests run as root");
    for entry in fs::read_dir(folder).expect("it can be listed") {
        let path = entry.expect("likewise").path();
        match path.is_dir() {
            true => give_to(&path, user),
            false => std::os::unix::fs::chown(&path, Some(user), Some(user)).expect("as above"),
        }
    }
}

/// What in a folder does not belong to this user.
fn others_in(folder: &Path, user: u32) -> Vec<String> {
    let mut others = Vec::new();
    for entry in fs::read_dir(folder).expect("it can be listed") {
        let path = entry.expect("likewise").path();
        if fs::symlink_metadata(&path).expect("it is there").uid() != user {
            others.push(path.display().to_string());
        }
        if path.is_dir() {
            others.extend(others_in(&path, user));
        }
    }
    others
}

/// R-CLI-6, NET-2: shared networks come back before the deployments that are attached to them. A cluster without networks of
/// its own refuses them and says what to do; a network that differs is kept, and replaced on request.
#[tokio::test(flavor = "multi_thread")]
async fn shared_networks_are_restored() {
    let compose = "name: shop\nservices: {web: {image: web:1, networks: [back]}}\n\
                   networks: {back: {external: true, name: backbone}}\n";
    let shop = project(&[("compose.yaml", compose)]);
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let file = path(folder.path(), "a.jacobak");
    let lost = Cluster::start(1, Engine::Fake).await;
    enable_networks(&lost).await;
    for network in ["backbone", "spare"] {
        run(&lost, 0, &["network", "create", network, "--internal", "--prefix-length", "25"]);
    }
    apply(&lost, shop.path());
    run(&lost, 0, &["backup", &file]);
    let (code, drilled) = drill(&lost, &file, &[]);
    assert_eq!((code, &drilled["here"]["counts"]["restored"]), (Some(0), &0.into()), "{drilled}");
    drop(lost);

    let fresh = Cluster::start(1, Engine::Fake).await;
    let (code, items) = restore(&fresh, &file, &["--dry-run"]);
    assert_eq!((code, &*items["network backbone"]), (Some(3), "refused networks_not_enabled"));
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!((code, &*items["network backbone"]), (Some(3), "refused networks_not_enabled"));
    // Without them it is attached to a network of that name which its engine has.
    assert_eq!(items["deployment shop"], "restored");
    run(&fresh, 0, &["delete", "shop", "--yes"]);
    enable_networks(&fresh).await;
    run(&fresh, 0, &["network", "create", "backbone"]);
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!((code, &*items["network spare"]), (Some(0), "restored"), "{items:?}");
    assert_eq!((&*items["network backbone"], &*items["deployment shop"]), ("skipped", "restored"));
    let shown = |name| {
        let shown = run(&fresh, 0, &["network", "inspect", name, "-o", "json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("json");
        shown[0].clone()
    };
    let kind = |name| {
        let shown = shown(name);
        let subnet = shown["subnet"].as_str().expect("a subnet").to_owned();
        (subnet.ends_with("/25"), shown["internal"].as_bool())
    };
    assert_eq!((kind("spare"), kind("backbone")), ((true, Some(true)), (false, Some(false))));

    // What is attached to it keeps a network from being replaced, and so do addresses in quarantine.
    eventually("the replica has its address", || async {
        let shown = shown("backbone");
        if shown["used"] == 1 { Ok(()) } else { Err(shown) }
    })
    .await;
    let (code, drilled) = drill(&fresh, &file, &["--replace"]);
    assert_eq!((code, &drilled["here"]["counts"]["refused"]), (Some(3), &1.into()), "{drilled}");
    let (code, items) = restore(&fresh, &file, &["--replace"]);
    assert_eq!((code, &*items["network backbone"]), (Some(3), "refused network_in_use"));
    run(&fresh, 0, &["delete", "shop", "--yes"]);
    let quarantine = Duration::from_secs(60);
    eventually_within(quarantine * 2, "no address is in use or in quarantine", || async {
        let shown = shown("backbone");
        if shown["used"] == 0 && shown["quarantined"] == 0 { Ok(()) } else { Err(shown) }
    })
    .await;
    let (code, items) = restore(&fresh, &file, &["--replace"]);
    assert_eq!((code, &*items["network backbone"]), (Some(0), "restored"), "{items:?}");
    assert_eq!(kind("backbone"), (true, Some(true)));
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!((code, except(&items, "unchanged")), (Some(0), Vec::new()));
}

async fn enable_networks(cluster: &Cluster) {
    eventually("all nodes have reported their versions", || async {
        let out = cluster.cli(0, &["network", "enable"]);
        if out.status.success() { Ok(()) } else { Err(said(&out)) }
    })
    .await;
}

/// R-OPS-1, R-CLI-6: targets of notifications come back with their addresses and secrets, and paused: a restore that is a
/// trial wakes nobody. One that differs is kept, and replaced on request.
#[tokio::test(flavor = "multi_thread")]
async fn notification_targets_are_restored_paused() {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let files = project(&[("url.txt", "http://127.0.0.1:1/hunter2"), ("key.txt", SECRETS[0])]);
    let (url, key) = (path(files.path(), "url.txt"), path(files.path(), "key.txt"));
    let file = path(folder.path(), "a.jacobak");
    let lost = Cluster::start(1, Engine::Fake).await;
    let line = ["notify", "add", "ops", "webhook", "--url-file", &url, "--secret-file", &key];
    run(&lost, 0, &[&line[..], &["--group", "jobs", "--severity", "warning"]].concat());
    let password = ["smtps://jaco@mail.example.com", "--password-file", &key];
    let people = ["--from", "jaco@example.com", "--to", "ann@example.com"];
    run(&lost, 0, &[&["notify", "add", "mail", "email"], &password[..], &people].concat());
    run(&lost, 0, &["backup", &file]);
    let (code, items) = restore(&lost, &file, &[]);
    assert_eq!((code, except(&items, "unchanged")), (Some(0), Vec::new()));
    let listed = |cluster: &Cluster| {
        let shown = run(cluster, 0, &["notify", "ls", "-o", "json"]);
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("json");
        shown.as_array().expect("a list").clone()
    };
    let before = listed(&lost);
    assert!(before.iter().all(|target| target.get("paused_since").is_none()), "{before:?}");
    drop(lost);

    let fresh = Cluster::start(1, Engine::Fake).await;
    let (code, items) = restore(&fresh, &file, &["--dry-run"]);
    assert_eq!(
        (code, &*items["notify ops"], &*items["notify mail"]),
        (Some(0), "restored", "restored")
    );
    assert!(listed(&fresh).is_empty(), "a trial run stores nothing");
    let told = said(&run(&fresh, 0, &["restore", &file]));
    assert!(told.contains("paused: 2 notification targets"), "{told}");
    let after = listed(&fresh);
    for (was, is) in before.iter().zip(&after) {
        for part in ["name", "form", "address", "filter"] {
            assert_eq!(was[part], is[part]);
        }
        assert!(is["paused_since"].is_string(), "{is}");
    }
    assert_eq!((before.len(), after.len()), (2, 2));
    // What is secret of them is the same: the cluster compares it.
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!((code, except(&items, "unchanged")), (Some(0), Vec::new()));
    run(&fresh, 0, &["notify", "resume", "ops"]);
    let (_, items) = restore(&fresh, &file, &[]);
    assert_eq!(items["notify ops"], "unchanged");
    assert!(listed(&fresh)[1].get("paused_since").is_none(), "what is equal goes on");
    run(&fresh, 0, &["notify", "add", "ops", "webhook", "http://127.0.0.1:1/", "--replace"]);
    let (code, items) = restore(&fresh, &file, &[]);
    assert_eq!((code, &*items["notify ops"]), (Some(0), "skipped"));
    let (code, items) = restore(&fresh, &file, &["--replace"]);
    assert_eq!((code, &*items["notify ops"]), (Some(0), "restored"));
    assert!(listed(&fresh)[1]["paused_since"].is_string());
    let log = fs::read_to_string(fresh.nodes[0].log_path()).expect("it has a log");
    let drilled = said(&run(&fresh, 0, &["restore", "--check", &file]));
    for secret in ["hunter2", SECRETS[0]] {
        assert!(!log.contains(secret) && !drilled.contains(secret), "{secret}");
    }
}

/// R-CLI-6: a folder of backups keeps as many as it should, each of which would come back; each is audited.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_keeps_the_newest_backups() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let blog = project(&[("compose.yaml", &jaco_tests::compose("blog", "web", "web:1", 1))]);
    apply(&cluster, blog.path());
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let to = folder.path().to_str().expect("a text");
    let mut written = Vec::new();
    for _ in 0..3 {
        let taken = run(&cluster, 0, &["backup", "--to", to, "--keep", "2", "-o", "json"]);
        let told: Value = serde_json::from_slice(&taken.stdout).expect("json");
        written.push(told["path"].as_str().expect("a path").to_owned());
    }
    let stay: Vec<bool> = written.iter().map(|path| Path::new(path).exists()).collect();
    assert_eq!(stay, [false, true, true], "{written:?}");
    for file in &written[1..] {
        let (code, drilled) = drill(&cluster, file, &[]);
        assert_eq!((code, &drilled["restorable"]), (Some(0), &true.into()), "{drilled}");
        let mode = fs::metadata(file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let audit = run(&cluster, 0, &["audit", "--type", "backup_taken", "-o", "json"]);
    let events: Vec<Value> = serde_json::from_slice(&audit.stdout).expect("a list");
    assert_eq!(events.len(), 3, "{events:?}");
}

/// R-CLI-6: a backup is a consistent snapshot: it has the files of every deployment, however fast
/// they change.
#[tokio::test(flavor = "multi_thread")]
async fn backup_is_a_consistent_snapshot() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let file = path(folder.path(), "a.jacobak");
    let compose = "name: shop\nservices: {web: {image: web:1, volumes: ['./conf:/c:ro']}}\n";
    let shop = project(&[("compose.yaml", compose), ("conf/a", "0"), ("conf/b", "0")]);
    apply(&cluster, shop.path());
    let revision = |status: &v1::StatusResponse| status.deployments[0].revision;
    let before = revision(&cluster.overview(0).await.expect("it answers"));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..=15 {
                for name in ["conf/a", "conf/b"] {
                    fs::write(shop.path().join(name), format!("{name} {round}")).expect("written");
                }
                apply(&cluster, shop.path());
            }
        });
        let mut taken = 0;
        while !writer.is_finished() || taken == 0 {
            run(&cluster, 0, &["backup", &file, "--force"]);
            // Looks for every tree and chunk that the deployment names.
            run(&cluster, 0, &["restore", &file, "--dry-run", "--replace"]);
            taken += 1;
        }
        writer.join().expect("all were applied");
    });
    let after = revision(&cluster.overview(0).await.expect("it answers"));
    assert_eq!(after, before + 15, "all were different");
}

/// R-CLI-6, R-IN-3: a damaged file, or one that is no backup, is refused before anything is sent.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_backup_restores_nothing() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let blog = project(&[("compose.yaml", &jaco_tests::compose("blog", "web", "web:1", 1))]);
    apply(&cluster, blog.path());
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let file = path(folder.path(), "a.jacobak");
    run(&cluster, 0, &["backup", &file]);
    run(&cluster, 0, &["delete", "blog", "--yes"]);
    let whole = fs::read(&file).expect("it is there");
    let mut altered = whole.clone();
    altered[whole.len() / 2] ^= 1;
    let damaged: [(&[u8], &str); 3] = [
        (&whole[..whole.len() - 1], "truncated"),
        (&altered, "altered"),
        (b"services: {}\n", "not a backup"),
    ];
    for (bytes, why) in damaged {
        fs::write(&file, bytes).expect("it can be written");
        let refused = cluster.cli(0, &["restore", &file]);
        let told = said(&refused);
        assert_eq!(refused.status.code(), Some(3), "{told}");
        assert!(told.contains("backup_invalid") && told.contains(why), "{told}");
        let (code, drilled) = drill(&cluster, &file, &[]);
        assert_eq!((code, &drilled["restorable"]), (Some(3), &false.into()), "{drilled}");
    }
    assert!(cluster.overview(0).await.expect("it answers").deployments.is_empty());
}
