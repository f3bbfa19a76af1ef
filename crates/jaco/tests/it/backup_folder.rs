//! `jaco backup --to`: a folder of backups with a retention.

use std::sync::atomic::{AtomicI64, Ordering};

use jaco_client::scripted::{Answer, Feed, Script, Then};
use jaco_proto::v1;
use jaco_proto::v1::backup_part::Kind;
use jaco_types::{ErrorCode, Rejection};
use serde_json::Value;

use crate::backup::files;
use crate::fixture::Session;

/// A cluster whose backups are a day apart; from day 5 on they break off.
struct Days(AtomicI64);

impl Script for Days {
    fn backup(&self, _: v1::BackupRequest, _: Option<&str>) -> Answer<Feed<v1::BackupPart>> {
        let day = self.0.fetch_add(1, Ordering::Relaxed);
        let header = v1::BackupHeader {
            format: 1,
            cluster_id: "c1".repeat(16),
            cluster_name: "sun".to_owned(),
            raft_index: u64::try_from(day).unwrap() * 10,
            taken_at_ms: 1_700_000_000_000 + day * 86_400_000,
            version: "0.1.0".to_owned(),
        };
        let mut kinds = vec![Kind::Header(header), Kind::End(v1::BackupEnd::default())];
        let then = match day {
            0..5 => Then::End,
            _ => Then::Refuse(Rejection::new(ErrorCode::Internal, "content cannot be read")),
        };
        if day >= 5 {
            kinds.pop();
        }
        let items = kinds.into_iter().map(|kind| v1::BackupPart { kind: Some(kind) }).collect();
        Ok(Feed { items, then })
    }
}

fn session() -> Session {
    let session = Session::with(Days(AtomicI64::new(1)));
    std::fs::create_dir(session.folder.path().join("b")).unwrap();
    session
}

fn names(session: &Session) -> Vec<String> {
    let entries = std::fs::read_dir(session.folder.path().join("b")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

/// R-CLI-6, R-CLI-7: each run adds a backup and removes what the retention does not keep; a run that breaks off removes
/// nothing and leaves no file.
#[test]
fn each_run_adds_a_backup_and_keeps_some() {
    let session = session();
    let run = session.run("backup --to b");
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("b/sun-20231115T221320Z-10.jacobak"), "{}", run.out);
    for _ in 2..=3 {
        assert_eq!(session.run("backup --to b --keep 2").code, Some(0));
    }
    let both = ["sun-20231116T221320Z-20.jacobak", "sun-20231117T221320Z-30.jacobak"];
    assert_eq!(names(&session), both);

    let told = session.run("backup --to b --keep 1 --keep-monthly 1 -o json");
    let told: Value = serde_json::from_str(&told.out).unwrap();
    let removed: Vec<&str> =
        told["removed"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(removed, both.map(|name| format!("b/{name}")), "{told}");
    assert_eq!(told["path"], told["kept"][0], "{told}");

    let broken = session.run("backup --to b --keep 1");
    assert!(broken.code != Some(0) && broken.out.is_empty(), "{}", broken.out);
    assert_eq!(names(&session), ["sun-20231118T221320Z-40.jacobak"]);
    let checked = session.run("restore --check --offline b/sun-20231118T221320Z-40.jacobak");
    assert_eq!(checked.code, Some(0), "{}", checked.err);
}

/// R-CLI-6: a damaged backup is named, and neither counted nor removed.
#[test]
fn damaged_backups_are_named() {
    let session = session();
    assert_eq!(session.run("backup --to b").code, Some(0));
    assert_eq!(session.run("backup --to b").code, Some(0));
    session.write("b/sun-20231116T221320Z-20.jacobak", "spoiled");
    let run = session.run("backup --to b --keep 2");
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(
        run.err.contains("warning: b/sun-20231116T221320Z-20.jacobak cannot be restored"),
        "{}",
        run.err
    );
    assert_eq!(names(&session).len(), 3);
}

/// R-CLI-6, R-CLI-8: a folder that is missing is not made, and nothing is asked of the cluster; options that contradict
/// each other are refused.
#[test]
fn a_folder_has_to_exist() {
    let session = session();
    let run = session.run("backup --to absent --keep 2");
    assert_eq!(run.code, Some(1), "{}", run.err);
    assert!(run.err.contains("cannot write to absent"), "{}", run.err);
    for line in
        ["backup", "backup a.jacobak --to b", "backup a.jacobak --keep 2", "backup --to b --keep 0"]
    {
        assert_eq!(session.run(line).code, Some(2), "{line}");
    }
    assert_eq!(files(&session), ["b"]);
    // No backup was asked for: the next one is that of the first day.
    assert_eq!(session.run("backup --to b").code, Some(0));
    assert_eq!(names(&session), ["sun-20231115T221320Z-10.jacobak"]);
}
