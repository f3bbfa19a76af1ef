//! `jaco restore --check`: what it says of good and bad backups, with and without a cluster.

use jaco_client::scripted::Feed;
use jaco_proto::v1;
use jaco_proto::v1::backup_part::Kind;
use serde_json::Value;

use crate::backup::{Cluster, piped};
use crate::fixture::{Run, Session};

fn deployment(name: &str, model: &str) -> Kind {
    let compose_json = model.replace("NAME", name);
    Kind::Deployment(v1::BackupDeployment {
        name: name.to_owned(),
        revision: 3,
        compose_json,
        ..Default::default()
    })
}

const MODEL: &str = r#"{"name":"NAME","services":{"web":{"image":"web:1",
    "volumes":[{"type":"volume","source":"data","target":"/data"}]}},"volumes":{"data":{}}}"#;

/// A backup of a constraint, a secret and these deployments and networks.
fn parts(deployments: Vec<Kind>) -> Vec<v1::BackupPart> {
    let pair = v1::BackupPair { key: "max".to_owned(), value: "5".to_owned() };
    let secret = v1::BackupNamed {
        kind: "secret".to_owned(),
        name: "db".to_owned(),
        content: b"correct-horse"[..].into(),
        users: None,
        expires_at_ms: 0,
    };
    let networks =
        deployments.iter().filter(|kind| matches!(kind, Kind::Network(_))).count() as u64;
    let end = v1::BackupEnd {
        deployments: deployments.len() as u64 - networks,
        named: 1,
        networks,
        ..v1::BackupEnd::default()
    };
    let header = v1::BackupHeader {
        format: 1,
        cluster_id: "c1".repeat(16),
        cluster_name: "sun".to_owned(),
        raft_index: 42,
        taken_at_ms: 1_700_000_000_000,
        version: "0.1.0".to_owned(),
    };
    let mut kinds = vec![
        Kind::Header(header),
        Kind::Constraints(v1::BackupConstraints { pairs: vec![pair] }),
        Kind::Named(secret),
    ];
    kinds.extend(deployments);
    kinds.push(Kind::End(end));
    kinds.into_iter().map(|kind| v1::BackupPart { kind: Some(kind) }).collect()
}

/// Writes a backup of these deployments to a file of the session.
fn back_up(deployments: Vec<Kind>, file: &str) -> Session {
    let session = Session::with(Cluster(Feed::of(parts(deployments))));
    assert_eq!(session.run(&format!("backup {file}")).code, Some(0));
    session
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

/// R-CLI-6, R-CLI-7: a drill says as of when the backup is, what would come back, what the cluster would change and what
/// is in no backup; no content of a secret is shown.
#[test]
fn a_drill_says_what_would_come_back() {
    let session = back_up(vec![deployment("shop", MODEL)], "a.jacobak");
    let run = session.run("restore --check a.jacobak");
    assert_eq!(run.code, Some(0), "{}", run.err);
    expect_test::expect![[r#"
        FILE       CLUSTER  INDEX  TAKEN AT              VERSION  STATE
        a.jacobak  sun      42     2023-11-14T22:13:20Z  0.1.0    restorable

        a.jacobak
        KIND        NAME  DETAIL           CANNOT BE RESTORED
        constraint  max   5                -
        secret      db    -                -
        deployment  shop  revision 3: web  -

        in this cluster:
        KIND        NAME  OUTCOME            REASON
        constraint  max   skipped            the cluster has "3", the backup "5"
        secret      db    would be restored  -
        deployment  shop  would be restored  -

        not in the backup:
          data of volumes: shop/data
          images: web:1
          placement, earlier revisions, tokens, certificates, keys, audit events
    "#]]
    .assert_eq(&run.out);
    let told = json(&session.run("restore --check a.jacobak -o json"));
    let file = &told["files"][0];
    assert_eq!((&file["restorable"], &file["raft_index"]), (&true.into(), &42.into()), "{told}");
    assert_eq!(file["here"]["counts"]["restored"], 2, "{told}");
    assert_eq!(file["objects"][2]["volumes"][0], "data", "{told}");
    assert!(!format!("{told}{run:?}").contains("correct-horse"));
}

/// R-CLI-6: classes of volumes and hosts of the backup get the names of this cluster; what is mapped is shown, and a name that is
/// nowhere is refused.
#[test]
fn names_of_the_backup_are_mapped() {
    let overlay = "deployment: shop\nvolumes: {data: {class: ssd, size: 1G}}\n\
                   services: [{name: web, placement: hosts, hosts: [old1]}]\n";
    let Kind::Deployment(shop) = deployment("shop", MODEL) else { unreachable!() };
    let shop = v1::BackupDeployment { overlay_yaml: overlay.to_owned(), ..shop };
    let session = back_up(vec![Kind::Deployment(shop)], "a.jacobak");
    let options = "--volume-class ssd=nvme --host old1=new1";
    for command in ["restore --check", "restore --dry-run"] {
        let run = session.run(&format!("{command} a.jacobak {options}"));
        for line in [
            "deployment shop: volume class ssd is mapped to nvme",
            "deployment shop: host old1 is mapped to new1",
        ] {
            assert!(run.err.contains(line), "{command}: {}", run.err);
        }
    }
    for (options, said) in [
        ("--volume-class hdd=nvme", "has no volumes of class hdd"),
        ("--host n9=n1", "has no host n9"),
        ("--volume-class ssd", "it has no `=`"),
        ("--volume-class SSD=nvme", "invalid volume class"),
        ("--host old1=a --host old1=b", "old1 is mapped twice"),
    ] {
        let run = session.run(&format!("restore --dry-run a.jacobak {options}"));
        assert_eq!(run.code, Some(2), "{options}: {}", run.err);
        assert!(run.err.contains(said), "{options}: {}", run.err);
    }
}

/// R-CLI-6: without a cluster the files alone are checked on request; otherwise a cluster that does not answer is an
/// error, because what it would refuse is not known.
#[test]
fn files_are_checked_without_a_cluster_on_request() {
    let session = back_up(vec![deployment("shop", MODEL)], "a.jacobak");
    let alone = Session::alone();
    let to = alone.folder.path().join("a.jacobak");
    std::fs::copy(session.folder.path().join("a.jacobak"), to).unwrap();
    let offline = alone.run("restore --check --offline a.jacobak");
    assert_eq!(offline.code, Some(0), "{}", offline.err);
    assert!(offline.out.contains("restorable") && !offline.out.contains("in this cluster"));
    let unreachable = alone.run("restore --check a.jacobak");
    assert_eq!(unreachable.code, Some(9), "{}", unreachable.err);
    assert!(unreachable.out.contains("revision 3: web"), "{}", unreachable.out);
    assert!(unreachable.err.contains("--offline checks the files alone"), "{}", unreachable.err);
}

/// R-CLI-6, R-CLI-7: of several files each is checked; the exit code is 0 only if all of them could be restored, and each
/// reason is named.
#[test]
fn a_drill_fails_if_a_file_or_an_object_could_not_be_restored() {
    let session = back_up(vec![deployment("shop", MODEL)], "good.jacobak");
    let path = |name: &str| session.folder.path().join(name);
    let good = std::fs::read(path("good.jacobak")).unwrap();
    std::fs::write(path("cut.jacobak"), &good[..good.len() - 1]).unwrap();
    let mut altered = good.clone();
    altered[good.len() / 2] ^= 1;
    std::fs::write(path("altered.jacobak"), altered).unwrap();
    session.write("foreign.jacobak", "services: {}\n");
    for (file, reason) in [
        ("cut.jacobak", "it is truncated"),
        ("altered.jacobak", "its checksum is wrong"),
        ("foreign.jacobak", "it is not a backup"),
        ("absent.jacobak", "No such file"),
    ] {
        let run = session.run(&format!("restore --check good.jacobak {file}"));
        assert_eq!(run.code, Some(3), "{}", run.err);
        let line = format!("because: {file}: {reason}");
        assert!(run.err.contains(&line) && run.err.contains("1 of 2 backups"), "{}", run.err);
        assert!(run.out.contains("restorable"), "the other file is checked: {}", run.out);
    }
    // The cluster refuses another name than `shop`; by itself the file is as it should be.
    let session = back_up(vec![deployment("pinned", MODEL)], "a.jacobak");
    assert_eq!(session.run("restore --check --offline a.jacobak").code, Some(0));
    let refused = session.run("restore --check a.jacobak");
    assert_eq!(refused.code, Some(3), "{}", refused.err);
    assert!(refused.err.contains("no node is called n9 [unknown_host]"), "{}", refused.err);
    let invalid = back_up(vec![deployment("shop", "{}")], "a.jacobak");
    let refused = invalid.run("restore --check --offline a.jacobak");
    assert_eq!(refused.code, Some(3), "{}", refused.err);
    assert!(refused.err.contains("[invalid_manifest]"), "{}", refused.err);
}

/// R-CLI-7: a pipe is checked as a file is; several files without --check are refused.
#[test]
fn a_pipe_is_checked() {
    let session = back_up(vec![deployment("shop", MODEL)], "a.jacobak");
    let bytes = std::fs::read(session.folder.path().join("a.jacobak")).unwrap();
    let run = piped(&session, "restore --check -", &bytes);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let several = session.run("restore a.jacobak a.jacobak");
    assert_eq!(several.code, Some(2), "{}", several.err);
    assert!(several.err.contains("--check"), "{}", several.err);
}

/// R-CLI-6: a network that differs and is in use could not be replaced, and a drill says so.
#[test]
fn a_network_in_use_could_not_be_replaced() {
    let network = v1::BackupNetwork { name: "back".to_owned(), internal: false, prefix_length: 25 };
    let session = back_up(vec![Kind::Network(network)], "a.jacobak");
    let kept = session.run("restore --check a.jacobak");
    assert_eq!(kept.code, Some(0), "{}", kept.err);
    let refused = session.run("restore --check --replace a.jacobak");
    assert_eq!(refused.code, Some(3), "{}", refused.err);
    assert!(refused.err.contains("[network_in_use]"), "{}", refused.err);
}
