//! R-IN-4, R-IN-5: files beside the compose file, configs and secrets are in the containers, wherever
//! these run; and secrets are nowhere else.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Output};

use jaco_testkit::docker::{docker, running};
use jaco_testkit::{Cluster, Engine, eventually};

use crate::scenario::replicas;

const COMPOSE: &str = "
name: shop
services:
  web:
    image: jaco-hello:v1
    deploy: {replicas: 3}
    volumes: ['./conf:/etc/web:ro', './data:/data']
    configs: [{source: motd, target: /motd}]
  api:
    image: jaco-hello:v1
    environment: {MODE: api}
    secrets: [{source: key, uid: '1234', gid: '55', mode: 0400}, {source: token, target: t}]
    configs: [{source: rates, target: /rates, uid: '1235', gid: '56', mode: 0440}, mood]
    volumes: ['./html:/html']
  plain:
    image: jaco-hello:v1
configs:
  motd: {content: 'welcome to the shop'}
  rates: {file: ./rates.txt}
  mood: {environment: SHOP_MOOD}
secrets:
  key: {file: ./key.txt}
  token: {environment: SHOP_TOKEN}
";

const SECRET: &str = "correct-horse-battery-staple";
const TOKEN: &str = "tok-58a1d0c7e2b94f36";

/// A file in a container, as `docker cp` packs it.
struct Seen {
    mode: u32,
    uid: u32,
    gid: u32,
    content: String,
}

fn seen(container: &str, path: &str) -> Seen {
    let output = Command::new("docker").args(["cp", &format!("{container}:{path}"), "-"]).output();
    let tar = output.expect("docker runs").stdout;
    assert!(tar.len() > 512, "{path} is not in {container}");
    let octal = |at: usize, length: usize| {
        let text = String::from_utf8_lossy(&tar[at..at + length]).into_owned();
        u32::from_str_radix(text.trim_matches(|c: char| !c.is_digit(8)), 8).expect("a number")
    };
    let size = octal(124, 12) as usize;
    let content = String::from_utf8_lossy(&tar[512..512 + size]).into_owned();
    Seen { mode: octal(100, 8), uid: octal(108, 8), gid: octal(116, 8), content }
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn apply(cluster: &Cluster, node: usize, project: &Path) -> String {
    let file = project.join("compose.yaml");
    let output = cluster.cli(node, &["apply", "-f", file.to_str().expect("a text")]);
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

async fn containers_of(cluster: &Cluster, service: &str) -> Vec<String> {
    let replicas = replicas(cluster, 0, "shop").await;
    let mut ids: Vec<String> = replicas
        .into_iter()
        .filter(|replica| replica.service == service && replica.state == "running")
        .map(|replica| replica.container_id)
        .collect();
    ids.sort();
    ids
}

/// Every file below a folder whose bytes contain `text`. A daemon may remove what is being looked at.
fn containing(folder: &Path, text: &str, found: &mut Vec<String>) {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        entries => entries.expect("it can be listed"),
    };
    for entry in entries.flatten() {
        let kind = match entry.file_type() {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            kind => kind.expect("it has a kind"),
        };
        if kind.is_dir() {
            containing(&entry.path(), text, found);
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            if bytes
                .windows(text.len().max(1))
                .any(|window| text.is_empty() || window == text.as_bytes())
            {
                found.push(entry.path().display().to_string());
            }
        }
    }
}

/// The files of a cluster's daemons that hold this text, their logs included.
pub(crate) fn on_disk(cluster: &Cluster, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for node in &cluster.nodes {
        containing(&node.folder().join("data"), text, &mut found);
        let log = fs::read_to_string(node.log_path()).expect("it has a log");
        if log.contains(text) {
            found.push(node.log_path().display().to_string());
        }
    }
    found
}

/// R-IN-4, R-IN-5: seen inside the containers of three nodes; a changed secret rolls its user alone; the
/// log and the outputs have no secret.
#[tokio::test(flavor = "multi_thread")]
async fn files_and_secrets_are_mounted_and_not_leaked() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    let project = tempfile::tempdir().expect("temporary files can be made");
    let write = |path: &str, text: &str| {
        fs::write(project.path().join(path), text).expect("temporary files can be written");
    };
    for folder in ["conf", "html"] {
        fs::create_dir(project.path().join(folder)).expect("temporary files can be made");
    }
    write("compose.yaml", COMPOSE);
    write("conf/web.conf", "listen 80");
    write("html/index.html", "<h1>shop</h1>");
    write("key.txt", SECRET);
    write("rates.txt", "7 %");
    write(".env", &format!("SHOP_TOKEN={TOKEN}\nSHOP_MOOD=good\n"));
    let told = apply(&cluster, 1, project.path());
    // What means something else than on one host is said: the folder that is not there, and the one
    // that a container could write to.
    assert!(
        told.contains("`data` does not exist here") && told.contains("`html` is writable"),
        "{told}"
    );
    let added: Vec<&str> = told.lines().filter(|line| line.starts_with("warning: ")).collect();
    // A folder of the project is no path of the node.
    let is_expected =
        |line: &&str| line.contains("services api, plain, web share the network default");
    assert!(added.len() == 1 && added.iter().all(is_expected), "the cluster adds no more: {told}");

    let web = containers_of(&cluster, "web").await;
    assert_eq!(web.len(), 3);
    for id in &web {
        assert_eq!(seen(id, "/etc/web/web.conf").content, "listen 80");
        let motd = seen(id, "/motd");
        assert_eq!((motd.content.as_str(), motd.mode & 0o777), ("welcome to the shop", 0o444));
    }
    let api = containers_of(&cluster, "api").await;
    let key = seen(&api[0], "/run/secrets/key");
    assert_eq!((key.content.as_str(), key.mode & 0o777), (SECRET, 0o400));
    assert_eq!((key.uid, key.gid), (1234, 55));
    let token = seen(&api[0], "/run/secrets/t");
    assert_eq!((token.content.as_str(), token.mode & 0o777), (TOKEN, 0o444));
    let rates = seen(&api[0], "/rates");
    assert_eq!((rates.content.as_str(), rates.mode & 0o777), ("7 %", 0o440));
    assert_eq!((rates.uid, rates.gid), (1235, 56));
    assert_eq!(seen(&api[0], "/mood").content, "good");
    let plain = containers_of(&cluster, "plain").await;

    // A changed secret rolls its user, and nobody else.
    write("key.txt", "another-secret-altogether");
    apply(&cluster, 2, project.path());
    let api_now = containers_of(&cluster, "api").await;
    assert_ne!(api_now, api);
    assert_eq!(seen(&api_now[0], "/run/secrets/key").content, "another-secret-altogether");
    assert_eq!(containers_of(&cluster, "web").await, web);
    assert_eq!(containers_of(&cluster, "plain").await, plain);

    // Nothing changed: nothing is sent, and nothing rolls. As before: what was before is back.
    let told = apply(&cluster, 0, project.path());
    assert!(!told.contains("uploading") && told.contains("unchanged"), "{told}");
    write("key.txt", SECRET);
    write("conf/web.conf", "listen 8080");
    apply(&cluster, 0, project.path());
    assert_eq!(seen(&containers_of(&cluster, "api").await[0], "/run/secrets/key").content, SECRET);
    let web_now = containers_of(&cluster, "web").await;
    assert!(web_now.iter().all(|id| seen(id, "/etc/web/web.conf").content == "listen 8080"));

    // Another number of replicas takes its files along.
    let output = cluster.cli(1, &["scale", "shop/web", "4"]);
    assert!(output.status.success(), "{}", said(&output));
    let web = containers_of(&cluster, "web").await;
    assert_eq!(web.len(), 4);
    assert!(web.iter().all(|id| seen(id, "/etc/web/web.conf").content == "listen 8080"));

    // The secret is in no file of any node but the mounted one, and in nothing that is shown.
    assert!(!on_disk(&cluster, "listen 8080").is_empty(), "files are found that way");
    for secret in [SECRET, TOKEN] {
        assert_eq!(on_disk(&cluster, secret), Vec::<String>::new());
    }
    let file = project.path().join("compose.yaml");
    for args in [
        &["get", "deployment", "shop", "-o", "json"][..],
        &["status", "-o", "json"],
        &["audit", "-o", "json"],
        &["config", "-f", file.to_str().expect("a text")],
        &["apply", "--dry-run", "-o", "json", "-f", file.to_str().expect("a text")],
    ] {
        let output = cluster.cli(0, args);
        assert!(output.status.success(), "{args:?} {}", said(&output));
        let said = said(&output);
        assert!(!said.contains(SECRET) && !said.contains(TOKEN), "{args:?}");
    }
    let inspected = docker(&["inspect", &containers_of(&cluster, "api").await[0]]);
    assert!(!inspected.contains(SECRET), "only the place is there");

    // With the last instance its files go.
    let output = cluster.cli(0, &["delete", "shop", "--yes"]);
    assert!(output.status.success(), "{}", said(&output));
    eventually("the files are gone", || async {
        let mut left = running(&cluster.id);
        for node in &cluster.nodes {
            for folder in ["data/contents", "secrets"] {
                let mut found = Vec::new();
                let folder = node.folder().join(folder);
                if folder.exists() {
                    containing(&folder, "", &mut found);
                }
                left.extend(found);
            }
        }
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

const EXTERNAL: &str = "
name: NAME
services:
  web:
    image: jaco-hello:v1
    secrets: [{source: key, target: key}]
    configs: [{source: rates, target: /rates}]
secrets:
  key: {external: true, name: db.key}
configs:
  rates: {external: true}
";

/// R-IN-5: kept by the cluster under a name, taken when a manifest is applied, by whichever deployment;
/// a changed one rolls its users at their next apply, and one in use cannot be removed.
#[tokio::test(flavor = "multi_thread")]
async fn named_configs_and_secrets_are_stored_by_the_cluster() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    let project = tempfile::tempdir().expect("temporary files can be made");
    let path = |name: &str| project.path().join(name).to_str().expect("a text").to_owned();
    let write = |name: &str, text: &str| {
        fs::write(path(name), text).expect("temporary files can be written");
    };
    let run = |node: usize, args: &[&str]| {
        let output = cluster.cli(node, args);
        (output.status.code(), said(&output))
    };
    write("compose.yaml", &EXTERNAL.replace("NAME", "shop"));
    write("other.yaml", &EXTERNAL.replace("NAME", "blog"));
    write("key.txt", SECRET);
    write("rates.txt", "7 %");
    let refused = run(0, &["apply", "-f", &path("compose.yaml")]);
    assert_eq!(refused.0, Some(3), "{}", refused.1);
    assert!(
        refused.1.contains("content_not_found")
            && refused.1.contains("no config \"rates\" and no secret \"db.key\""),
        "{}",
        refused.1
    );

    let stored = run(1, &["secret", "create", "db.key", &path("key.txt")]);
    assert_eq!(stored, (Some(0), "secret db.key stored as version 1\n".to_owned()));
    assert_eq!(run(2, &["configs", "create", "rates", &path("rates.txt")]).0, Some(0));
    apply(&cluster, 0, project.path());
    let output = cluster.cli(1, &["apply", "-f", &path("other.yaml")]);
    assert!(output.status.success(), "{}", said(&output));
    let web = containers_of(&cluster, "web").await;
    assert_eq!(seen(&web[0], "/run/secrets/key").content, SECRET);
    assert_eq!(seen(&web[0], "/rates").content, "7 %");

    // Another content reaches those who are applied again, and a rollback brings the former back.
    write("key.txt", TOKEN);
    let stored = run(0, &["secret", "create", "db.key", &path("key.txt")]);
    let behind = "2 services still on an earlier version: blog/web, shop/web; jaco secret roll db.key \
                  gives them this one, and so does their next jaco apply\n";
    assert_eq!(stored.1, format!("secret db.key stored as version 2\n{behind}"));
    assert_eq!(containers_of(&cluster, "web").await, web, "nobody asked for it yet");
    let output = cluster.cli(2, &["scale", "shop/web", "2"]);
    assert!(output.status.success(), "{}", said(&output));
    for id in containers_of(&cluster, "web").await {
        assert_eq!(seen(&id, "/run/secrets/key").content, SECRET, "only the number is another");
    }
    apply(&cluster, 2, project.path());
    let rolled = containers_of(&cluster, "web").await;
    assert!(!rolled.contains(&web[0]), "it was rolled");
    assert_eq!(seen(&rolled[0], "/run/secrets/key").content, TOKEN);
    let output = cluster.cli(0, &["rollback", "shop"]);
    assert!(output.status.success(), "{}", said(&output));
    let back = containers_of(&cluster, "web").await;
    assert_eq!(seen(&back[0], "/run/secrets/key").content, SECRET);

    // It is nowhere to be read, and in use.
    for secret in [SECRET, TOKEN] {
        assert_eq!(on_disk(&cluster, secret), Vec::<String>::new());
        for args in [
            &["secret", "ls", "-o", "json"][..],
            &["get", "deployment", "shop", "-o", "json"],
            &["audit", "-o", "json"],
        ] {
            let (code, said) = run(0, args);
            assert!(code == Some(0) && !said.contains(secret), "{args:?}");
        }
    }
    let (_, audit) = run(0, &["audit", "-o", "json"]);
    assert!(audit.contains("content_stored"), "{audit}");
    let (_, listed) = run(1, &["secret", "ls"]);
    let users = "blog (web: 0 of 1 on v2), shop (web: 0 of 2 on v2)";
    assert!(listed.contains("db.key") && listed.contains(users), "{listed}");
    let refused = run(1, &["secret", "rm", "db.key"]);
    assert_eq!(refused.0, Some(3));
    assert!(
        refused.1.contains("content_in_use") && refused.1.contains("blog, shop"),
        "{}",
        refused.1
    );
    for name in ["shop", "blog"] {
        let output = cluster.cli(0, &["delete", name, "--yes"]);
        assert!(output.status.success(), "{}", said(&output));
    }
    assert_eq!(run(1, &["secret", "rm", "db.key"]).0, Some(0));
    assert_eq!(run(1, &["secret", "rm", "db.key"]).0, Some(3), "it is gone");
}

/// Healthy only with a password that works.
const CHECKED: &str = "
name: shop
services:
  web:
    image: jaco-hello:v1
    secrets: [db]
    healthcheck:
      test: [CMD, /hello, expect, /run/secrets/db, good]
      interval: 1s
      retries: 2
    deploy: {replicas: 2, update_config: {parallelism: 1, monitor: 1s}}
secrets: {db: {external: true}}
";

/// R-IN-5, R-ROLL-3: a version with which replicas do not become healthy is not left on any of them: the roll goes back, the
/// replicas that served go on, and what is pinned is the former version.
#[tokio::test(flavor = "multi_thread")]
async fn a_roll_that_fails_goes_back_to_the_former_version() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    let project = tempfile::tempdir().expect("temporary files can be made");
    let write = |name: &str, text: &str| {
        fs::write(project.path().join(name), text).expect("temporary files can be written");
    };
    let set = |value: &str, flags: &[&str]| {
        write("db.txt", value);
        let path = project.path().join("db.txt");
        let path = path.to_str().expect("a text");
        cluster.cli(1, &[&["secret", "set", "db", path], flags].concat())
    };
    write("compose.yaml", CHECKED);
    let stored = set("a-good-password", &[]);
    assert!(stored.status.success(), "{}", said(&stored));
    apply(&cluster, 0, project.path());
    let serving = containers_of(&cluster, "web").await;
    assert_eq!(serving.len(), 2);

    let rolled = set("a-mistyped-one", &["--roll"]);
    let told = said(&rolled);
    assert_eq!(rolled.status.code(), Some(6), "{told}");
    assert!(told.contains("rolled back") && !told.contains("mistyped"), "{told}");
    assert_eq!(containers_of(&cluster, "web").await, serving, "those that served go on");
    for id in &serving {
        assert_eq!(seen(id, "/run/secrets/db").content, "a-good-password");
    }
    let versions = || {
        let output = cluster.cli(2, &["secret", "get", "db", "-o", "json"]);
        let secret: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (secret["version"].clone(), secret["uses"][0]["versions"].clone())
    };
    let (newest, held) = versions();
    assert_eq!((&newest, held.as_array().map(Vec::len)), (&2.into(), Some(1)), "{held}");
    assert_eq!((&held[0]["version"], &held[0]["replicas"]), (&1.into(), &2.into()), "{held}");

    // A replica that is replaced meanwhile gets what the revision has that it went back to.
    let gone = &serving[0];
    docker(&["kill", gone]);
    eventually("it is replaced", || async {
        let running = containers_of(&cluster, "web").await;
        if running.len() == 2 && !running.contains(gone) { Ok(running) } else { Err(running) }
    })
    .await;
    for id in containers_of(&cluster, "web").await {
        assert_eq!(seen(&id, "/run/secrets/db").content, "a-good-password");
    }

    let rolled = set("another-good-password", &["--roll"]);
    assert!(rolled.status.success(), "{}", said(&rolled));
    for id in containers_of(&cluster, "web").await {
        assert_eq!(seen(&id, "/run/secrets/db").content, "another-good-password");
    }
}
