//! R-IN-5: stored secrets that are edited, rotated and expire, on real daemons.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use jaco_testkit::{Cluster, Engine, binary, eventually, said, v1};
use serde_json::Value;

/// Two replicas that are replaced one after the other, with a pause in which one has the new version and one has not.
const COMPOSE: &str = "
name: shop
services:
  web:
    image: web:1
    secrets: [db]
    deploy:
      replicas: 2
      update_config: {parallelism: 1, delay: 20s, monitor: 1s}
  other:
    image: other:1
secrets: {db: {external: true}}
";

fn run(cluster: &Cluster, node: usize, args: &[&str]) -> String {
    let output = cluster.cli(node, args);
    assert!(output.status.success(), "jaco {}: {}", args.join(" "), said(&output));
    said(&output)
}

/// Stores a value of the secret `db`.
fn set(cluster: &Cluster, node: usize, value: &str, flags: &[&str]) -> String {
    let file = tempfile::NamedTempFile::new().expect("temporary files can be made");
    fs::write(file.path(), value).expect("written");
    let path = file.path().to_str().expect("text");
    run(cluster, node, &[&["secret", "set", "db", path], flags].concat())
}

/// `jaco secret edit db` with this editor.
fn edit(cluster: &Cluster, node: usize, memory: &Path, editor: &str) -> Output {
    let mut command = Command::new(binary("jaco"));
    command.args(["secret", "edit", "db"]).env("EDITOR", editor).env_remove("VISUAL");
    command.env("XDG_RUNTIME_DIR", memory).env("JACO_SOCKET", cluster.nodes[node].socket());
    command.env_remove("JACO_SERVER").env_remove("JACO_CONTEXT");
    command.output().expect("jaco can be started")
}

/// The secret `db` as it is shown.
fn shown(cluster: &Cluster, node: usize) -> Value {
    let output = cluster.cli(node, &["secret", "get", "db", "-o", "json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)))
}

/// How many replicas of `web` have which version, the newest first.
fn versions(secret: &Value) -> Vec<(u64, u64)> {
    let uses = secret["uses"].as_array().expect("it is used");
    assert_eq!(uses.len(), 1, "{secret}");
    assert_eq!((&uses[0]["deployment"], &uses[0]["service"]), (&"shop".into(), &"web".into()));
    let held = uses[0]["versions"].as_array().expect("a list");
    let number = |one: &Value, key: &str| one[key].as_u64().unwrap_or_default();
    held.iter().map(|one| (number(one, "version"), number(one, "replicas"))).collect()
}

async fn replicas(cluster: &Cluster, node: usize) -> Result<Vec<v1::ReplicaInfo>, String> {
    let status = cluster.overview(node).await?;
    Ok(status.replicas.into_iter().filter(|one| one.service == "web").collect())
}

fn node_of(cluster: &Cluster, replica: &v1::ReplicaInfo) -> usize {
    cluster.nodes.iter().position(|node| node.name == replica.node).expect("it is a member")
}

/// The value that the container of a replica has mounted.
fn mounted(cluster: &Cluster, replica: &v1::ReplicaInfo) -> Result<String, String> {
    let secrets = cluster.nodes[node_of(cluster, replica)].folder().join("secrets");
    let instance = format!("{}@{}", replica.id, replica.raft_index);
    let members = fs::read_dir(&secrets).map_err(|error| error.to_string())?;
    let member = members.flatten().next().ok_or("no member has secrets here")?;
    let folder = fs::read_dir(member.path().join(&instance));
    let mut files = folder.map_err(|error| format!("{instance}: {error}"))?.flatten();
    let file = files.next().ok_or_else(|| format!("{instance} has no file"))?;
    fs::read_to_string(file.path()).map_err(|error| error.to_string())
}

/// The audit events of a kind.
async fn events(cluster: &Cluster, kind: &str) -> Vec<v1::AuditEvent> {
    let request = v1::AuditRequest { kinds: vec![kind.to_owned()], ..Default::default() };
    let mut events = cluster.client().events(request);
    let mut found = Vec::new();
    while let Some(event) = events.next().await.expect("events") {
        found.push(event);
    }
    found
}

/// R-IN-5, R-CLI-6: what is edited is stored through any node, each read is audited, and who was faster is not overtaken.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_overtakes_nobody() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let follower = (cluster.leader().await + 1) % 3;
    let memory = tempfile::tempdir().expect("a folder");
    set(&cluster, follower, "user: ann\nkey: hunter2\n", &["--for-all", "--expires", "90d"]);
    let edited = edit(&cluster, follower, memory.path(), "sed -i s/hunter2/hunter3/");
    assert!(edited.status.success(), "{}", said(&edited));
    assert_eq!(String::from_utf8_lossy(&edited.stdout), "secret db stored as version 2\n");
    let secret = shown(&cluster, follower);
    assert_eq!((&secret["version"], &secret["bytes"]), (&2.into(), &23.into()));
    assert_eq!(secret["expires_at"], Value::Null, "an expiry belongs to a version");

    // While the editor is open another user stores a value.
    let socket = cluster.nodes[follower].socket();
    let other = format!(
        "sh -c 'echo hunter4 | JACO_SOCKET={} {} secret set db -q >&2; sed -i s/ann/bob/ \"$0\"'",
        socket.display(),
        binary("jaco").display()
    );
    let overtaken = edit(&cluster, follower, memory.path(), &other);
    let text = said(&overtaken);
    assert_eq!(overtaken.status.code(), Some(8), "{text}");
    assert!(text.contains("error[stale_plan]") && !text.contains("hunter"), "{text}");
    assert_eq!(shown(&cluster, follower)["version"], 3);
    let seen = edit(&cluster, follower, memory.path(), "grep -q ^hunter4$");
    assert!(said(&seen).contains("secret db version 3 unchanged"), "{}", said(&seen));
    assert_eq!(fs::read_dir(memory.path()).expect("a folder").count(), 0, "all files are removed");

    let reads = events(&cluster, "content_read").await;
    let mut read: Vec<&str> = reads.iter().map(|event| &*event.payload["version"]).collect();
    read.sort_unstable();
    assert_eq!((read, &*reads[0].payload["name"]), (vec!["1", "2", "3"], "db"));
    for node in &cluster.nodes {
        let log = fs::read_to_string(node.log_path()).expect("it has a log");
        assert!(!log.contains("hunter"), "{}", node.name);
    }
}

/// R-IN-5, R-ROLL-2: a value that is rotated reaches each replica with its revision and not before: one that restarts in
/// the middle of it has the value that its revision has. Services that do not use it stay.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_restarts_in_a_rotation_keeps_its_version() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    set(&cluster, 0, "one", &["--for-all"]);
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("compose.yaml"), COMPOSE).expect("written");
    run(&cluster, 0, &["apply", folder.path().to_str().expect("text")]);
    assert_eq!(versions(&shown(&cluster, 0)), [(1, 2)]);

    let told = set(&cluster, 1, "two", &[]);
    let advice = "1 service still on an earlier version: shop/web; jaco secret roll db";
    assert!(told.contains(advice), "{told}");
    assert_eq!(versions(&shown(&cluster, 0)), [(1, 2)], "nobody is rolled unasked");
    let before = cluster.overview(0).await.expect("it answers");
    let other = |status: &v1::StatusResponse| {
        let found = status.replicas.iter().find(|one| one.service == "other");
        found.expect("it is there").clone()
    };
    let untouched = other(&before);

    run(&cluster, 2, &["secret", "roll", "db", "--detach"]);
    let halfway = eventually("one of two has the new version", || async {
        let held = versions(&shown(&cluster, 0));
        let replicas = replicas(&cluster, 0).await?;
        let is_calm = replicas.iter().all(|one| one.state == "running" && one.retiring.is_none());
        match held == [(2, 1), (1, 1)] && is_calm {
            true => Ok(replicas),
            false => Err(format!("{held:?}: {replicas:?}")),
        }
    })
    .await;
    let old = halfway.iter().find(|one| one.revision == 1).expect("one is left").clone();
    assert_eq!(mounted(&cluster, &old), Ok("one".to_owned()));

    // Its machine loses all containers.
    let node = node_of(&cluster, &old);
    let watcher = (node + 1) % 3;
    cluster.nodes[node].kill();
    let kept = cluster.nodes[node].folder().join("data/fake-engine.json");
    fs::remove_file(kept).expect("it had containers");
    cluster.nodes[node].start();
    let (anew, held) = eventually("it is started anew", || async {
        let replicas = replicas(&cluster, watcher).await?;
        let anew = replicas.iter().find(|one| one.id == old.id).ok_or("it is gone")?;
        if anew.state != "running" || anew.raft_index == old.raft_index || anew.retiring.is_some() {
            return Err(format!("{anew:?}"));
        }
        Ok((anew.clone(), mounted(&cluster, anew)?))
    })
    .await;
    assert_eq!((anew.revision, held.as_str()), (1, "one"), "as its revision has it: {anew:?}");

    eventually("all have the new version", || async {
        let held = versions(&shown(&cluster, watcher));
        if held == [(2, 2)] { Ok(()) } else { Err(format!("{held:?}")) }
    })
    .await;
    let after = cluster.converged(watcher, "shop").await;
    for replica in after.replicas.iter().filter(|one| one.service == "web") {
        assert_eq!(mounted(&cluster, replica), Ok("two".to_owned()));
    }
    // The machine that lost its containers may have had it.
    let is_untouched = other(&after).container_id == untouched.container_id;
    assert!(is_untouched || untouched.node == old.node, "it does not use the secret");
}

/// R-IN-5: a secret is stored and rolled by one command; its expiry is a warning before it is over and stops nothing; a
/// rollback brings the earlier version back.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_is_rolled_expires_and_comes_back() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    set(&cluster, 0, "one", &["--for-all"]);
    let folder = tempfile::tempdir().expect("a folder");
    let compose = COMPOSE.replace("delay: 20s, ", "");
    fs::write(folder.path().join("compose.yaml"), compose).expect("written");
    run(&cluster, 0, &["apply", folder.path().to_str().expect("text")]);
    let told = set(&cluster, 0, "two", &["--roll", "--expires", "2999-03-01", "-o", "json", "-q"]);
    let json: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"));
    assert_eq!((&json["version"], &json["rolled"][0]["outcome"]), (&2.into(), &"converged".into()));
    assert_eq!(json["expires_at"], "2999-03-01T00:00:00Z");
    assert_eq!(versions(&shown(&cluster, 0)), [(2, 2)]);
    assert!(!run(&cluster, 0, &["doctor"]).contains("[secret]"), "it is far off");
    // The same value is the same version, and its expiry may be another one.
    set(&cluster, 0, "two", &["--expires", "7d"]);
    let secret = shown(&cluster, 0);
    assert_eq!((secret["version"].as_u64(), versions(&secret)), (Some(2), vec![(2, 2)]));
    let doctor = run(&cluster, 0, &["doctor"]);
    assert!(doctor.contains("warning[secret] db: version 2 expires in 6d"), "{doctor}");
    // An earlier revision has its earlier version.
    run(&cluster, 0, &["rollback", "shop"]);
    let secret = shown(&cluster, 0);
    assert_eq!((secret["version"].as_u64(), versions(&secret)), (Some(2), vec![(1, 2)]));
    let listed = run(&cluster, 0, &["secret", "ls"]);
    assert!(listed.contains("shop (web: 0 of 2 on v2)"), "{listed}");
}
