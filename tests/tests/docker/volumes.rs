//! What is in volumes: backed up and restored with real containers.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jaco_testkit::docker::{containers, docker};
use jaco_testkit::{Cluster, Engine, Taken, VolumeInputs, eventually, fresh_request_id, v1};

use crate::scenario::IMAGE;

/// Applies `shop` with these volumes of its service, and waits until it runs.
async fn deploy(cluster: &Cluster, mounts: &str, declared: &str) {
    let service = format!(r#"{{"db":{{"image":"{IMAGE}","volumes":[{mounts}]}}}}"#);
    let request = v1::ApplyRequest {
        compose_json: format!(r#"{{"name":"shop","services":{service},"volumes":{{{declared}}}}}"#),
        request_id: fresh_request_id(),
        ..v1::ApplyRequest::default()
    };
    cluster.client().apply(request).await.expect("the deployment is admitted");
    cluster.converged(0, "shop").await;
}

const NAMED: &str = r#"{"type":"volume","source":"data","target":"/data"}"#;
const DECLARED: &str = r#""data":{"name":"shop_data"}"#;

fn said(out: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&out.stdout), text(&out.stderr))
}

fn ok(cluster: &Cluster, args: &[&str]) -> String {
    let out = cluster.cli(0, args);
    assert!(out.status.success(), "{args:?}: {}", said(&out));
    said(&out)
}

fn refused(cluster: &Cluster, args: &[&str], code: &str) {
    let out = cluster.cli(0, args);
    let said = said(&out);
    assert!(!out.status.success() && said.contains(code), "{args:?}: {said}");
}

/// Where the engine has the volume that a deployment calls so.
fn folder(cluster: &Cluster, name: &str) -> PathBuf {
    found(cluster, name).expect("it is there").1
}

/// The engine's name of the volume that ends so.
fn volume(cluster: &Cluster, name: &str) -> Option<String> {
    found(cluster, name).map(|(id, _)| id)
}

/// The volume that ends so, and where the engine has it, as of one moment: a write may replace it in the next.
fn found(cluster: &Cluster, name: &str) -> Option<(String, PathBuf)> {
    let own = format!("label=jaco.cluster_id={}", cluster.id);
    let format = "{{.Name}} {{.Mountpoint}}";
    let all = docker(&["volume", "ls", "--filter", &own, "--format", format]);
    let mut all = all.lines().filter_map(|line| line.split_once(' '));
    all.find(|(id, _)| id.ends_with(name)).map(|(id, folder)| (id.to_owned(), folder.into()))
}

/// Containers through which volumes of the cluster are read and written.
fn accesses(cluster: &Cluster) -> Vec<String> {
    let format = "{{.ID}} {{.Label \"jaco.volume_access\"}}";
    let filter = "label=jaco.volume_access";
    let all = docker(&["ps", "--all", "--filter", filter, "--format", format]);
    let own = format!("jaco-{}-", &cluster.id[..8]);
    let of_cluster = |line: &&str| line.split_once(' ').is_some_and(|(_, of)| of.starts_with(&own));
    all.lines().filter(of_cluster).map(str::to_owned).collect()
}

async fn stopped(cluster: &Cluster) {
    ok(cluster, &["disable", "shop/db"]);
    eventually("no container is left", || async {
        let left = containers(&cluster.id);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

async fn collected(cluster: &Cluster) {
    ok(cluster, &["delete", "shop", "--yes"]);
    eventually("nothing is left of the test", || async {
        let told = ok(cluster, &["gc", "--yes"]);
        if volume(cluster, "").is_none() { Ok(()) } else { Err(told) }
    })
    .await;
}

/// R-OPS-1: a volume comes back as it was, with owners, modes and links, also where it was lost; nothing is read while it is
/// written, nothing replaced unasked, and no container of the copy is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_comes_back_as_it_was() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let here = tempfile::tempdir().expect("a folder");
    let file = here.path().join("data.tar");
    let path = file.to_str().expect("it is UTF-8");
    deploy(&cluster, NAMED, DECLARED).await;
    let data = folder(&cluster, "shop_data");
    fs::create_dir(data.join("base")).expect("it can be made");
    fs::write(data.join("base/1"), vec![7; 3 << 20]).expect("it can be written");
    fs::hard_link(data.join("base/1"), data.join("base/2")).expect("it can be linked");
    symlink("base/1", data.join("link")).expect("it can be linked");
    fs::set_permissions(data.join("base"), fs::Permissions::from_mode(0o750)).expect("owned");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("owned");
    for part in ["", "base", "base/1"] {
        chown(data.join(part), Some(999), Some(998)).expect("root may");
    }

    refused(&cluster, &["volume", "backup", "shop/data", path], "error[volume_in_use]");
    assert!(!file.exists(), "a refused backup leaves no file");
    ok(&cluster, &["volume", "backup", "shop/data", path, "--live"]);
    stopped(&cluster).await;
    let told = ok(&cluster, &["volume", "backup", "shop/data", path, "--force", "-o", "json"]);
    assert!(told.contains("\"sha256\""), "{told}");
    assert_eq!(fs::metadata(&file).expect("it is there").mode() & 0o777, 0o600);
    let listed = Command::new("tar").arg("tf").arg(&file).output().expect("tar runs");
    assert!(listed.status.success() && said(&listed).contains("./base/1"), "{}", said(&listed));

    fs::write(data.join("later"), "gone after it").expect("it can be written");
    fs::remove_file(data.join("base/1")).expect("it can be removed");
    refused(&cluster, &["volume", "restore", "shop/data", path], "error[volume_exists]");
    ok(&cluster, &["volume", "restore", "shop/data", path, "--replace"]);
    is_as_it_was(&folder(&cluster, "shop_data"));
    ok(&cluster, &["enable", "shop/db"]);
    cluster.converged(0, "shop").await;
    refused(&cluster, &["volume", "restore", "shop/data", path, "--replace"], "[volume_in_use]");

    // Its disk was lost.
    stopped(&cluster).await;
    docker(&["volume", "rm", &volume(&cluster, "shop_data").expect("it is there")]);
    ok(&cluster, &["volume", "restore", "shop/data", path]);
    is_as_it_was(&folder(&cluster, "shop_data"));
    refused(&cluster, &["volume", "restore", "shop/none", path], "error[volume_not_found]");
    eventually("the containers of the copies are gone", || async {
        let left = accesses(&cluster);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    collected(&cluster).await;
}

/// What tar prints of the entries of an archive. Of the names of one file, which an archive has in any order, that is once the line of the
/// file, with all of them.
fn entries(file: &Path) -> BTreeSet<String> {
    let mut tar = Command::new("tar");
    let tar = tar.args(["--list", "--verbose", "--numeric-owner", "--full-time", "--file"]);
    let out = tar.arg(file).output().expect("tar runs");
    assert!(out.status.success(), "{}", said(&out));
    let listed = String::from_utf8_lossy(&out.stdout).into_owned();
    let (links, others): (Vec<&str>, Vec<&str>) =
        listed.lines().partition(|line| line.contains(" link to "));
    let name_of = |line: &str| line.rsplit(' ').next().expect("a name").to_owned();
    let whole = others.into_iter().map(|line| {
        let mut names = BTreeSet::from([name_of(line)]);
        for (link, target) in links.iter().filter_map(|line| line.split_once(" link to ")) {
            if target == name_of(line) {
                names.insert(name_of(link));
            }
        }
        format!("{}{names:?}", line.strip_suffix(&*name_of(line)).expect("its end"))
    });
    whole.collect()
}

/// R-OPS-1: a volume that the node reads by itself has the same entries as the engine's own archive of it; one that options of the
/// driver put elsewhere comes from the engine, with what is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_has_what_the_engine_sees() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let here = tempfile::tempdir().expect("a folder");
    let elsewhere = here.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("it can be made");
    let device = elsewhere.to_str().expect("it is UTF-8");
    let mounts = format!(r#"{NAMED},{{"type":"volume","source":"other","target":"/other"}}"#);
    let options = format!(r#"{{"type":"none","o":"bind","device":"{device}"}}"#);
    let other = format!(r#""other":{{"name":"shop_other","driver_opts":{options}}}"#);
    deploy(&cluster, &mounts, &format!("{DECLARED},{other}")).await;
    for data in [folder(&cluster, "shop_data"), elsewhere] {
        fs::create_dir(data.join("base")).expect("it can be made");
        fs::write(data.join("base/1"), vec![7; 1 << 20]).expect("it can be written");
        fs::hard_link(data.join("base/1"), data.join("base/2")).expect("it can be linked");
        symlink("../base/1", data.join("base/link")).expect("it can be linked");
        fs::write(data.join("n".repeat(200)), "").expect("it can be written");
        chown(data.join("base"), Some(999), Some(998)).expect("root may");
    }
    let container = &containers(&cluster.id)[0];
    for name in ["data", "other"] {
        let (ours, theirs) = (here.path().join("ours"), here.path().join("theirs"));
        let path = ours.to_str().expect("it is UTF-8");
        ok(&cluster, &["volume", "backup", &format!("shop/{name}"), path, "--live", "--force"]);
        let mut copy = Command::new("docker");
        copy.arg("cp").arg(format!("{container}:/{name}/.")).arg("-");
        let copy = copy.stdout(fs::File::create(&theirs).expect("it can be written")).status();
        assert!(copy.expect("docker runs").success());
        let (ours, theirs) = (entries(&ours), entries(&theirs));
        assert_eq!(ours, theirs, "{name}");
        assert_eq!(ours.len(), 5, "the root, and what is in it: {ours:?}");
        let both = r#"{"./base/1", "./base/2"}"#;
        assert!(ours.iter().any(|entry| entry.ends_with(both)), "{ours:?}");
    }
    stopped(&cluster).await;
    collected(&cluster).await;
}

fn is_as_it_was(data: &Path) {
    let facts = |part: &str| {
        let seen = fs::symlink_metadata(data.join(part)).expect("it is there");
        (seen.uid(), seen.gid(), seen.mode() & 0o7777)
    };
    assert_eq!(facts(""), (999, 998, 0o700));
    assert_eq!(facts("base"), (999, 998, 0o750));
    assert_eq!(fs::read(data.join("base/2")).expect("it is there"), vec![7; 3 << 20]);
    let inode = |part: &str| fs::metadata(data.join(part)).expect("it is there").ino();
    assert_eq!(inode("base/1"), inode("base/2"));
    assert_eq!(fs::read_link(data.join("link")).expect("it is there"), Path::new("base/1"));
    assert!(!data.join("later").exists(), "it was not in the backup");
}

/// Where the engine has `shop/data` of a node.
fn folder_of(cluster: &Cluster, node: &str) -> PathBuf {
    let out = cluster.cli(0, &["volume", "ls", "shop", "-o", "json"]);
    let listed: serde_json::Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    let rows = listed.as_array().expect("a list").iter();
    let row = rows.clone().find(|row| row["node"] == node);
    let row = row.unwrap_or_else(|| panic!("{node} has none: {listed}"));
    let id = row["engine_name"].as_str().expect("it has a name");
    docker(&["volume", "inspect", "--format", "{{.Mountpoint}}", id]).trim().into()
}

/// R-SEL-3, R-OPS-1: a database moves with its files, owners, modes and links: its container starts on the other node and has
/// them; what it wrote there comes back with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_moves_as_it_is() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    deploy(&cluster, NAMED, DECLARED).await;
    let status = cluster.overview(0).await.expect("a status");
    let from = status.replicas[0].node.clone();
    let to = if from == "n1" { "n2" } else { "n1" };
    let data = folder_of(&cluster, &from);
    fs::create_dir(data.join("base")).expect("it can be made");
    fs::write(data.join("base/1"), vec![7; 3 << 20]).expect("it can be written");
    fs::hard_link(data.join("base/1"), data.join("base/2")).expect("it can be linked");
    symlink("base/1", data.join("link")).expect("it can be linked");
    fs::set_permissions(data.join("base"), fs::Permissions::from_mode(0o750)).expect("owned");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("owned");
    for part in ["", "base", "base/1"] {
        chown(data.join(part), Some(999), Some(998)).expect("root may");
    }
    refused(&cluster, &["volume", "move", "shop/data", to], "error[volume_in_use]");
    stopped(&cluster).await;
    ok(&cluster, &["volume", "move", "shop/data", to]);
    is_as_it_was(&folder_of(&cluster, to));
    ok(&cluster, &["enable", "shop/db"]);
    cluster.converged(0, "shop").await;
    let status = cluster.overview(0).await.expect("a status");
    assert_eq!(status.replicas[0].node, to);
    let mounts = docker(&[
        "inspect",
        "--format",
        "{{range .Mounts}}{{.Source}}{{end}}",
        &containers(&cluster.id)[0],
    ]);
    assert_eq!(Path::new(mounts.trim()), folder_of(&cluster, to));

    fs::write(folder_of(&cluster, to).join("later"), "written there").expect("it can be written");
    stopped(&cluster).await;
    refused(&cluster, &["volume", "move", "shop/data", &from], "error[volume_exists]");
    ok(&cluster, &["volume", "move", "shop/data", &from, "--replace"]);
    let later = fs::read_to_string(folder_of(&cluster, &from).join("later"));
    assert_eq!(later.expect("it is there"), "written there");
    collected(&cluster).await;
}

/// A write of `shop/data` that is about to begin.
fn restore(node: &str) -> v1::WriteVolumeStart {
    v1::WriteVolumeStart {
        deployment: "shop".to_owned(),
        volume: "data".to_owned(),
        node: node.to_owned(),
        existing: "replace".to_owned(),
        from: String::new(),
    }
}

/// The first three of an archive of four megabytes.
fn half_archive() -> Vec<u8> {
    let here = tempfile::tempdir().expect("a folder");
    fs::write(here.path().join("file"), vec![7; 4 << 20]).expect("it can be written");
    let tar = Command::new("tar").arg("c").arg("-C").arg(here.path()).arg(".").output();
    tar.expect("tar runs").stdout[..3 << 20].to_vec()
}

/// Sends a part of an archive; it is not refused meanwhile.
fn send(inputs: &VolumeInputs, archive: Vec<u8>) {
    let inputs = inputs.clone();
    let sent = std::thread::spawn(move || {
        for piece in archive.chunks(512 << 10) {
            assert_eq!(inputs.send_blocking(piece.to_vec()), Taken::Yes);
        }
    });
    sent.join().expect("it is sent");
}

/// Waits until a part of the archive is in the volume.
async fn written_in_part(cluster: &Cluster) {
    eventually("it has begun to write", || async {
        let folder = found(cluster, "shop_data").map(|(_, folder)| folder);
        let file = folder.and_then(|folder| fs::metadata(folder.join("file")).ok());
        if file.is_some_and(|file| file.len() > 0) { Ok(()) } else { Err(accesses(cluster)) }
    })
    .await;
}

/// Waits until there is neither a volume nor a container through which it was written.
async fn nothing_left(cluster: &Cluster) {
    eventually("nothing of it is left", || async {
        let left = (accesses(cluster), volume(cluster, "shop_data"));
        if left == (Vec::new(), None) { Ok(()) } else { Err(left) }
    })
    .await;
}

/// R-OPS-1: a restore whose client goes away in the middle, at the node of the volume or at another one, leaves no half volume
/// that a service would start with.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_whose_client_goes_away_leaves_no_volume() {
    let cluster = Cluster::start(3, Engine::Docker).await;
    deploy(&cluster, NAMED, DECLARED).await;
    let seen = cluster.converged(0, "shop").await;
    let node = seen.replicas.first().expect("it runs").node.clone();
    stopped(&cluster).await;
    for asked in &cluster.nodes {
        let began = asked.client().write_volume(restore(&node)).await.expect("the write begins");
        send(&began.1, half_archive());
        written_in_part(&cluster).await;
        drop(began);
        nothing_left(&cluster).await;
    }
    ok(&cluster, &["enable", "shop/db"]);
    cluster.converged(0, "shop").await;
    collected(&cluster).await;
}

/// R-OPS-1: a restore that breaks off in the middle leaves no half volume that a service would start with.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_breaks_off_leaves_no_volume() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    deploy(&cluster, NAMED, DECLARED).await;
    stopped(&cluster).await;
    let (mut write, inputs, _) =
        cluster.client().write_volume(restore("")).await.expect("the write begins");
    send(&inputs, half_archive());
    drop(inputs);
    let broken = write.done().await.expect_err("it has no end");
    assert!(broken.to_string().contains("the volume could not be copied"), "{broken}");
    assert_eq!(volume(&cluster, "shop_data"), None, "a half volume is left");
    eventually("the container of the copy is gone", || async {
        let left = accesses(&cluster);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    ok(&cluster, &["enable", "shop/db"]);
    cluster.converged(0, "shop").await;
    collected(&cluster).await;
}

/// R-OPS-1: a daemon that is killed in the middle of a restore removes the half volume when it is back, before a service could
/// start with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_whose_daemon_is_killed_leaves_no_volume() {
    let mut cluster = Cluster::start(1, Engine::Docker).await;
    deploy(&cluster, NAMED, DECLARED).await;
    stopped(&cluster).await;
    let (write, inputs, _) =
        cluster.client().write_volume(restore("")).await.expect("the write begins");
    send(&inputs, half_archive());
    written_in_part(&cluster).await;
    cluster.nodes[0].kill();
    assert!(!accesses(&cluster).is_empty(), "the container of the copy outlives the daemon");
    cluster.nodes[0].start();
    drop((write, inputs));
    nothing_left(&cluster).await;
    ok(&cluster, &["enable", "shop/db"]);
    cluster.converged(0, "shop").await;
    collected(&cluster).await;
}

/// R-SEL-3: a folder of the manifest that is kept in a volume is data as well: garbage collection leaves that of a disabled
/// service alone, and it is backed up by its path.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_folder_of_a_disabled_service_survives_gc() {
    let cluster = Cluster::start(1, Engine::Docker).await;
    let mount =
        r#"{"type":"bind","source":"./my_data","target":"/data","bind":{"create_host_path":true}}"#;
    deploy(&cluster, mount, "").await;
    let kept = folder(&cluster, "my_5f_data");
    fs::write(kept.join("file"), "data").expect("it can be written");
    stopped(&cluster).await;
    assert!(ok(&cluster, &["gc", "--yes"]).starts_with("nothing to remove"), "it is needed");
    assert_eq!(fs::read(kept.join("file")).expect("it is there"), b"data");
    let listed = ok(&cluster, &["volume", "ls", "shop"]);
    assert!(listed.contains("shop/./my_data"), "{listed}");
    let here = tempfile::tempdir().expect("a folder");
    let file = here.path().join("data.tar");
    ok(&cluster, &["volume", "backup", "shop/./my_data", file.to_str().expect("it is UTF-8")]);
    assert!(file.exists());
    collected(&cluster).await;
}
