//! The key-encryption key of a running cluster is replaced: under writes, with nodes that are off, and with leaders that are
//! killed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jaco_pki::KeyEncryptionKey;
use jaco_testkit::{
    Client, Cluster, Engine, Node, binary, eventually, eventually_within, said, succeeded, v1,
};
use jaco_types::ErrorCode;
use serde_json::Value;

use crate::scenario::containers;
use crate::writers::Writers;

const COMPOSE: &str = "
name: shop
services:
  api:
    image: api:1
    secrets: [key, db]
    deploy: {replicas: 3}
secrets:
  key: {file: ./key.txt}
  db: {external: true}
";

const SECRETS: [&str; 2] = ["correct-horse-battery", "staple-of-the-database"];

fn data(node: &Node) -> PathBuf {
    node.folder().join("data")
}

fn read_key(node: &Node, name: &str) -> Option<KeyEncryptionKey> {
    let text = fs::read_to_string(data(node).join("node").join(name)).ok()?;
    Some(KeyEncryptionKey::from_hex(&text).expect("a key"))
}

fn key(node: &Node) -> KeyEncryptionKey {
    read_key(node, "kek").expect("a member has one")
}

/// All files below a folder.
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

/// The files below a folder in which this is.
fn holding(folder: &Path, what: &[u8]) -> Vec<PathBuf> {
    let has = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        bytes.windows(what.len()).any(|window| window == what)
    };
    files(folder).into_iter().filter(has).collect()
}

fn rotate(cluster: &Cluster, node: usize, options: &[&str]) -> Value {
    let line: Vec<&str> = ["cluster", "rotate-kek", "-o", "json"]
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    serde_json::from_str(&succeeded(&cluster.cli(node, &line))).expect("json")
}

async fn rotation(client: &Client) -> Result<v1::KekRotationInfo, String> {
    let answer = client.get_kek_rotation(v1::GetKekRotationRequest {}).await;
    answer.map_err(|error| error.to_string())?.rotation.ok_or_else(|| "none".to_owned())
}

/// How long a phase may take: sealing 48 MiB again on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until a node knows of this phase, and that it waits for nobody.
async fn completes(cluster: &Cluster, node: usize, phase: &str) -> v1::KekRotationInfo {
    eventually_within(PATIENCE, &format!("{phase} is complete"), || async {
        let now = rotation(&cluster.nodes[node].client()).await?;
        let is_there = now.phase == phase && now.holders.is_empty();
        if is_there { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await
}

/// Waits until a phase waits for this node, and for nobody else.
async fn held_by(cluster: &Cluster, node: usize, phase: &str, holder: &str) {
    eventually(&format!("{phase} waits for {holder}"), || async {
        let now = rotation(&cluster.nodes[node].client()).await?;
        let is_so = now.phase == phase && now.holders == [holder];
        if is_so { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

/// The kinds of the events that are of these kinds, in their order.
async fn audited(cluster: &Cluster, kinds: &[&str]) -> Vec<String> {
    let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
    let mut events = cluster.client().events(v1::AuditRequest { kinds, ..Default::default() });
    let mut found = Vec::new();
    while let Some(event) = events.next().await.expect("events") {
        found.push(event.kind);
    }
    found
}

/// What is true of every member once a rotation is complete: it has the new key alone, and nothing on its disk opens with
/// the old one.
fn check_end(cluster: &Cluster, old: &KeyEncryptionKey, new: &str) {
    for node in &cluster.nodes {
        let data = data(node);
        assert_eq!(key(node).id().to_string(), new, "{}", node.name);
        assert!(read_key(node, "kek.next").is_none(), "{}", node.name);
        assert_eq!(holding(&data, old.to_hex().as_bytes()), Vec::<PathBuf>::new());
        // An envelope begins with its version, its algorithm, and the name of its key.
        let begins = [&[1, 1], &old.id().0[..]].concat();
        assert_eq!(holding(&data.join("raft/snapshots"), &begins), Vec::<PathBuf>::new());
    }
}

/// A project with an uploaded and a named secret, a registry's password and a certificate: envelopes of all kinds that users
/// make.
async fn seal_everything(cluster: &Cluster) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("temporary files can be written");
    };
    write("compose.yaml", COMPOSE);
    write("key.txt", SECRETS[0]);
    write("db.txt", SECRETS[1]);
    let db = folder.path().join("db.txt");
    succeeded(&cluster.cli(0, &["secret", "create", "db", db.to_str().expect("a text")]));
    log_in(&cluster.nodes[0].client(), "ghcr.io", "first").await.expect("stored");
    apply(cluster, folder.path());
    cluster.converged(0, "shop").await;
    folder
}

fn apply(cluster: &Cluster, folder: &Path) -> String {
    let line = ["apply", "--detach", "-o", "json", folder.to_str().expect("a text")];
    succeeded(&cluster.cli(0, &line))
}

async fn log_in(client: &Client, registry: &str, password: &str) -> Result<(), String> {
    let request = v1::StoreRegistryRequest {
        registry: registry.to_owned(),
        username: "ada".to_owned(),
        password: password.to_owned(),
        ..v1::StoreRegistryRequest::default()
    };
    client.store_registry(request).await.map(drop).map_err(|error| error.to_string())
}

/// Seals without a pause: passwords that change, pieces of secrets, named secrets.
fn seal(writers: &mut Writers, node: &Node) {
    let (client, name) = (node.client(), node.name.clone());
    let registry = format!("{name}.example");
    writers.add(format!("{name} logs in"), move |number| {
        let (client, registry) = (client.clone(), registry.clone());
        async move { log_in(&client, &registry, &format!("password {number}")).await }
    });
    let client = node.client();
    writers.add(format!("{name} uploads"), move |number| {
        let (client, text) = (client.clone(), format!("{name} {number}"));
        async move {
            let request =
                v1::PutContentsRequest { secret: vec![text.into()], ..Default::default() };
            client.put_contents(request).await.map(drop).map_err(|error| error.to_string())
        }
    });
    let (client, name) = (node.client(), node.name.clone());
    writers.add(format!("{name} names"), move |number| {
        let (client, name) = (client.clone(), name.clone());
        async move {
            let request = v1::StoreContentRequest {
                kind: "secret".to_owned(),
                name,
                content: format!("content {number}").into(),
                ..Default::default()
            };
            client.store_content(request).await.map(drop).map_err(|error| error.to_string())
        }
    });
}

/// How many replicas have each secret in a file.
fn readable(cluster: &Cluster) -> [usize; 2] {
    SECRETS.map(|secret| {
        let of = |node: &Node| holding(&node.folder().join("secrets"), secret.as_bytes()).len();
        cluster.nodes.iter().map(of).sum()
    })
}

/// What a backup holds of sealed values, in clear text.
async fn opened(client: &Client) -> BTreeSet<String> {
    use v1::backup_part::Kind;
    let mut parts = client.backup(v1::BackupRequest {}).await.expect("a backup begins");
    let mut all = BTreeSet::new();
    while let Some(part) = parts.next().await.expect("it goes on") {
        match part.kind {
            Some(Kind::Secret(secret)) => drop(all.insert(format!("{:?}", secret.content))),
            Some(Kind::Registry(one)) => drop(all.insert(one.password)),
            Some(Kind::Named(named)) => drop(all.insert(format!("{:?}", named.content))),
            Some(_) | None => {}
        }
    }
    all
}

async fn term(cluster: &Cluster, node: usize) -> (u64, String) {
    let status = cluster.nodes[node].client().status(v1::ClusterStatusRequest {}).await;
    let status = status.expect("it answers");
    (status.term, status.leader)
}

/// R-CLI-6, R-IN-5: all of it under a constant stream of writes, sealed ones among them. None fails, the leader leads on,
/// no replica is restarted, and secrets have the names and the contents that they had. At the end no member has the old
/// key, nothing needs it, and a backup of before is restored.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_rotated_under_writes() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let project = seal_everything(&cluster).await;
    let backup = project.path().join("sun.jacobak");
    let backup = backup.to_str().expect("a text");
    succeeded(&cluster.cli(0, &["backup", backup]));
    let leader = cluster.leader().await;
    let before = term(&cluster, leader).await;
    let old = key(&cluster.nodes[0]);
    let running = containers(&cluster.overview(0).await.expect("it answers"));
    assert_eq!((running.len(), readable(&cluster)), (3, [3, 3]));

    let mut writers = Writers::new();
    for (number, node) in cluster.nodes.iter().enumerate() {
        writers.labels(node, format!("w{number}"));
        seal(&mut writers, node);
    }
    writers.more().await;
    let asked = (leader + 1) % 3;
    let begun = rotate(&cluster, asked, &[]);
    assert_eq!(begun["rotation"]["old"], old.id().to_string(), "{begun:#}");
    let end = completes(&cluster, asked, "settled").await;
    assert_eq!(
        (end.left, end.new_key.as_str()),
        (0, begun["rotation"]["new"].as_str().unwrap_or_default())
    );
    writers.more().await;
    let (done, failures) = writers.stop().await;
    assert!(failures.is_empty(), "{} of {done} writes failed: {failures:#?}", failures.len());
    assert_eq!(term(&cluster, leader).await, before, "the leader led on");
    check_end(&cluster, &old, &end.new_key);
    let kinds = ["kek_rotation_begun", "kek_rotation_resealing", "kek_rotation_settled"];
    assert_eq!(audited(&cluster, &kinds).await, kinds);

    assert_eq!(containers(&cluster.overview(0).await.expect("it answers")), running);
    assert_eq!(readable(&cluster), [3, 3]);
    let again = apply(&cluster, project.path());
    assert!(again.contains("unchanged"), "names of secrets have not changed: {again}");
    let told = opened(&cluster.nodes[asked].client()).await;
    for known in ["first", SECRETS[0], SECRETS[1]] {
        assert!(told.iter().any(|text| text.contains(known)), "{known}: {told:?}");
    }
    // A replica that is new opens what was sealed before.
    let compose = COMPOSE.replace("replicas: 3", "replicas: 6");
    fs::write(project.path().join("compose.yaml"), compose).expect("written");
    apply(&cluster, project.path());
    cluster.converged(0, "shop").await;
    assert_eq!(readable(&cluster), [6, 6]);

    let fresh = Cluster::start(1, Engine::Fake).await;
    let restored = fresh.cli(0, &["restore", backup, "-o", "json"]);
    assert!(restored.status.success(), "{}", said(&restored));
    let told = opened(&fresh.client()).await;
    assert!(told.iter().any(|text| text.contains(SECRETS[0])), "{told:?}");
}

/// R-CLI-6: a node that is off holds the rotation and is named. Meanwhile everything is sealed with the old key, and a node
/// that joins gets both. Once it is back the rotation goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_off_holds_the_key() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let project = seal_everything(&cluster).await;
    let leader = cluster.leader().await;
    let old = key(&cluster.nodes[0]);
    let off = (leader + 1) % 3;
    let name = cluster.nodes[off].name.clone();
    cluster.nodes[off].kill();
    let begun = rotate(&cluster, leader, &[]);
    let new = begun["rotation"]["new"].as_str().expect("a key").to_owned();
    held_by(&cluster, leader, "handing_out", &name).await;
    let again = v1::RotateKekRequest { action: "begin".to_owned(), ..Default::default() };
    let refused = cluster.nodes[leader].client().rotate_kek(again).await;
    assert_eq!(refused.expect_err("one is in progress").code(), ErrorCode::RotationHeld);
    log_in(&cluster.nodes[leader].client(), "ghcr.io", "second").await.expect("stored");
    cluster.add_daemon();
    let token = cluster.nodes[leader].client();
    let token = token.issue_join_token(v1::IssueJoinTokenRequest { uses: 1, ..Default::default() });
    let token = token.await.expect("issued").token;
    let client = cluster.nodes[3].client();
    eventually("the daemon answers", || client.status(v1::ClusterStatusRequest {})).await;
    let server = cluster.nodes[leader].address.clone();
    client.join_cluster(v1::JoinClusterRequest { server, token }).await.expect("it joins");
    assert_eq!(key(&cluster.nodes[3]).id(), old.id());
    held_by(&cluster, leader, "handing_out", &name).await;
    assert_eq!(
        read_key(&cluster.nodes[3], "kek.next").map(|it| it.id().to_string()),
        Some(new.clone())
    );

    // It is killed again with the new key on its disk, wherever the others are by then.
    cluster.nodes[off].start();
    eventually("it has the new key", || async {
        read_key(&cluster.nodes[off], "kek.next").map(drop).ok_or("not yet")
    })
    .await;
    cluster.nodes[off].kill();
    cluster.nodes[off].start();
    completes(&cluster, leader, "settled").await;
    check_end(&cluster, &old, &new);
    cluster.settled().await;
    let told = opened(&cluster.nodes[off].client()).await;
    assert!(told.contains("second") && told.iter().any(|one| one.contains(SECRETS[0])), "{told:?}");
    drop(project);
}

/// R-CLI-6: the leader is killed in each phase. Each time the rotation goes on where it was, nothing that was sealed is lost, and
/// afterwards it can be rotated again.
#[tokio::test(flavor = "multi_thread")]
async fn leaders_are_killed_in_each_phase_of_the_key() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let project = seal_everything(&cluster).await;
    // Resealing takes many commands.
    let pieces = |number: u8| -> Vec<_> { vec![vec![number; 1 << 20].into()] };
    for number in 0..48 {
        let request = v1::PutContentsRequest { secret: pieces(number), ..Default::default() };
        cluster.client().put_contents(request).await.expect("uploaded");
    }
    let old = key(&cluster.nodes[0]);
    let before = opened(&cluster.client()).await;
    let first = cluster.leader().await;
    let off = (first + 1) % 3;
    cluster.nodes[off].kill();
    let begun = rotate(&cluster, first, &[]);
    cluster.nodes[first].kill();
    cluster.nodes[first].start();
    cluster.nodes[off].start();

    for phase in ["resealing", "settled"] {
        let asked = cluster.leader().await;
        let seen = enters_or_passes(&cluster, asked, phase).await;
        let leader = cluster.leader().await;
        cluster.nodes[leader].kill();
        cluster.leader().await;
        cluster.nodes[leader].start();
        assert!(seen, "it was killed in the phase {phase}");
    }
    let asked = cluster.leader().await;
    let end = completes(&cluster, asked, "settled").await;
    assert_eq!(
        (end.left, end.new_key.as_str()),
        (0, begun["rotation"]["new"].as_str().unwrap_or_default())
    );
    cluster.settled().await;
    check_end(&cluster, &old, &end.new_key);
    assert_eq!(opened(&cluster.nodes[asked].client()).await, before, "nothing is lost");

    let again = rotate(&cluster, asked, &[]);
    assert_eq!(again["rotation"]["old"], end.new_key.as_str());
    let second = completes(&cluster, asked, "settled").await;
    check_end(&cluster, &old, &second.new_key);
    assert_eq!(opened(&cluster.nodes[asked].client()).await, before);
    drop(project);
}

/// Waits until a phase is entered; whether it was still in it then.
async fn enters_or_passes(cluster: &Cluster, node: usize, phase: &str) -> bool {
    let order = ["handing_out", "resealing", "settled"];
    let place = |phase: &str| order.iter().position(|one| *one == phase);
    let now = eventually(&format!("{phase} is entered"), || async {
        let now = rotation(&cluster.nodes[node].client()).await?;
        if place(&now.phase) >= place(phase) { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await;
    now.phase == phase
}

/// R-CLI-6: where nobody has the new key any more, the rotation is abandoned, and another one goes through.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_lost_with_its_leader_is_abandoned() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let project = seal_everything(&cluster).await;
    let old = key(&cluster.nodes[0]);
    let leader = cluster.leader().await;
    let off = (leader + 1) % 3;
    let name = cluster.nodes[off].name.clone();
    cluster.nodes[off].kill();
    let lost = rotate(&cluster, leader, &[]);
    let lost = lost["rotation"]["new"].as_str().expect("a key").to_owned();
    held_by(&cluster, leader, "handing_out", &name).await;
    for node in [leader, (leader + 2) % 3] {
        cluster.nodes[node].kill();
        fs::remove_file(data(&cluster.nodes[node]).join("node/kek.next")).expect("it had it");
    }
    for node in &mut cluster.nodes {
        node.start();
    }
    let asked = cluster.leader().await;
    eventually("it asks for a key that nobody has", || async {
        let said = cluster.nodes[off].log_tail();
        let asks = said.contains("no member that has the new key-encryption key answers");
        if asks { Ok(()) } else { Err(said) }
    })
    .await;
    log_in(&cluster.nodes[asked].client(), "ghcr.io", "second").await.expect("the old one seals");
    let abandoned = rotate(&cluster, asked, &["--abandon"]);
    assert_eq!(abandoned["rotation"]["phase"], "abandoned", "{abandoned:#}");
    completes(&cluster, asked, "abandoned").await;
    assert_eq!(audited(&cluster, &["kek_rotation_abandoned"]).await.len(), 1);
    for node in &cluster.nodes {
        assert_eq!((key(node).id(), read_key(node, "kek.next").is_none()), (old.id(), true));
    }
    let again = rotate(&cluster, asked, &[]);
    assert_ne!(again["rotation"]["new"], lost.as_str());
    let end = completes(&cluster, asked, "settled").await;
    check_end(&cluster, &old, &end.new_key);
    drop(project);
}

/// R-CLI-6: the authority is replaced after the key, or by a second word; otherwise its new key would be sealed by what may
/// be stolen.
#[tokio::test(flavor = "multi_thread")]
async fn the_authority_comes_after_the_key() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let refused = cluster.cli(0, &["cluster", "rotate-ca"]);
    let text = said(&refused);
    assert!(!refused.status.success(), "{text}");
    assert!(text.contains("rotate-kek") && text.contains("--with-present-kek"), "{text}");
    succeeded(&cluster.cli(0, &["cluster", "rotate-ca", "--with-present-kek"]));
    succeeded(&cluster.cli(0, &["cluster", "rotate-ca", "--abandon"]));
    let old = key(&cluster.nodes[0]);
    rotate(&cluster, 0, &[]);
    let end = completes(&cluster, 0, "settled").await;
    check_end(&cluster, &old, &end.new_key);
    succeeded(&cluster.cli(0, &["cluster", "rotate-ca"]));
    // Both keys of authorities are sealed anew by a rotation in between.
    let between = key(&cluster.nodes[0]);
    rotate(&cluster, 0, &[]);
    let end = eventually("it is settled", || async {
        let now = rotation(&cluster.nodes[0].client()).await?;
        let is_new = now.old_key == between.id().to_string();
        let is_there = is_new && now.phase == "settled" && now.holders.is_empty();
        if is_there { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await;
    check_end(&cluster, &between, &end.new_key);
    succeeded(&cluster.cli(0, &["cluster", "rotate-ca", "--continue", "--revoke-join-tokens"]));
    eventually("the authority is replaced", || async {
        let answer = cluster.client().get_authority(v1::GetAuthorityRequest {}).await;
        let now = answer.map_err(|error| error.to_string())?.rotation.ok_or("none")?;
        let is_there = now.phase == "settled" && now.holders.is_empty();
        if is_there { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

/// R-FAULT-2: while members have two keys, a stopped node is examined and backed up, and one that lost its log joins again and
/// takes part.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_nodes_have_two_keys() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let project = seal_everything(&cluster).await;
    let old = key(&cluster.nodes[0]);
    let leader = cluster.leader().await;
    let (off, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let name = cluster.nodes[off].name.clone();
    cluster.nodes[off].stop();
    let begun = rotate(&cluster, leader, &[]);
    let new = begun["rotation"]["new"].as_str().expect("a key").to_owned();
    held_by(&cluster, leader, "handing_out", &name).await;
    cluster.nodes[other].stop();
    assert!(read_key(&cluster.nodes[other], "kek.next").is_some());
    for node in [off, other] {
        let data = data(&cluster.nodes[node]);
        let data = data.to_str().expect("a text");
        let examined = cluster.cli(leader, &["doctor", "--offline", data, "-o", "json"]);
        assert!(examined.status.success(), "{}", said(&examined));
        let file = project.path().join(format!("{node}.jacobak"));
        let file = file.to_str().expect("a text");
        let taken = cluster.cli(leader, &["backup", "--offline", data, file]);
        assert!(taken.status.success(), "{}", said(&taken));
    }
    cluster.nodes[other].start();
    cluster.leader().await;

    fs::remove_dir_all(data(&cluster.nodes[off]).join("raft/log")).expect("the log is there");
    let config = cluster.nodes[off].folder().join("jacod.yaml");
    let mut rejoin = std::process::Command::new(binary("jacod"));
    rejoin.arg("rejoin").arg("--yes").arg("--config").arg(config);
    let returned = rejoin.output().expect("jacod can be started");
    assert!(returned.status.success(), "{}", said(&returned));
    // Nobody waited for it once it was removed under its old id, so that it may have got the new key alone.
    let held = ["kek", "kek.next"].map(|file| read_key(&cluster.nodes[off], file));
    assert!(held.iter().flatten().any(|key| key.id().to_string() == new), "{held:?}");
    cluster.nodes[off].start();
    let end = completes(&cluster, leader, "settled").await;
    check_end(&cluster, &old, &end.new_key);
    cluster.settled().await;
}
