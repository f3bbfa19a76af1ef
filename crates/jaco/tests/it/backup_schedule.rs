//! `jaco backup schedule`: what is asked for, and what is shown of it (R-CLI-6).

use std::sync::{Arc, Mutex};

use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;
use serde_json::{Value, json};

use crate::fixture::Session;

const RECIPIENT: &str = "age14lcnwtzjevayg2uetq9gujhshhnmj8a98tq5ukkuqjxqzhh2h9jqqq7fhn";

/// The run that is begun, which is the index of its entry.
const RUN: u64 = 41;

/// A cluster that records the schedules it stores.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Vec<v1::StoreBackupScheduleRequest>>>);

impl Script for Cluster {
    fn store_backup_schedule(
        &self,
        request: v1::StoreBackupScheduleRequest,
        _: Option<&str>,
    ) -> Answer<v1::StoreBackupScheduleResponse> {
        let schedule = v1::BackupScheduleInfo {
            name: request.name.clone(),
            target: request.target.clone(),
            every_ms: request.every_ms,
            cron: request.cron.clone(),
            time_zone: "UTC".to_owned(),
            next_due_ms: 1_700_000_000_000,
            ..v1::BackupScheduleInfo::default()
        };
        let change = if request.replace { "updated" } else { "created" };
        self.0.lock().unwrap().push(request);
        let (schedule, change) = (Some(schedule), change.to_owned());
        Ok(v1::StoreBackupScheduleResponse { schedule, change })
    }

    fn remove_backup_schedule(
        &self,
        request: v1::RemoveBackupScheduleRequest,
        _: Option<&str>,
    ) -> Answer<v1::RemoveBackupScheduleResponse> {
        let target = if request.name == "nightly" { "/backups" } else { "" };
        Ok(v1::RemoveBackupScheduleResponse { target: target.to_owned() })
    }

    fn list_backup_schedules(
        &self,
        request: v1::ListBackupSchedulesRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListBackupSchedulesResponse> {
        // A node that is behind knows the backup before.
        let before = v1::BackupScheduleInfo { last_name: "sun-0.jacobak".to_owned(), ..done() };
        let known = if request.min_index >= RUN { done() } else { before };
        Ok(v1::ListBackupSchedulesResponse { schedules: vec![known, failing()] })
    }

    fn run_backup_schedule(
        &self,
        request: v1::RunBackupScheduleRequest,
        _: Option<&str>,
    ) -> Answer<v1::RunBackupScheduleResponse> {
        assert!(!request.request_id.is_empty());
        let begun = v1::BackupScheduleInfo { run: RUN, name: request.name, ..done() };
        let (schedule, change) = (Some(begun), "begun".to_owned());
        Ok(v1::RunBackupScheduleResponse { schedule, change })
    }
}

fn done() -> v1::BackupScheduleInfo {
    v1::BackupScheduleInfo {
        name: "nightly".to_owned(),
        cron: "30 3 * * *".to_owned(),
        time_zone: "UTC".to_owned(),
        target: "/backups".to_owned(),
        keep: Some(v1::BackupKeep { newest: 3, daily: 7, ..v1::BackupKeep::default() }),
        next_due_ms: 1_700_000_000_000,
        last_at_ms: 1_600_000_000_000,
        last_index: 40,
        last_bytes: 2048,
        last_name: "sun-1.jacobak".to_owned(),
        last_node: "n1".to_owned(),
        ..v1::BackupScheduleInfo::default()
    }
}

fn failing() -> v1::BackupScheduleInfo {
    v1::BackupScheduleInfo {
        name: "store".to_owned(),
        every_ms: 21_600_000,
        target: "s3://sun/prod".to_owned(),
        endpoint: "https://a.example".to_owned(),
        recipients: vec![RECIPIENT.to_owned()],
        run: RUN,
        run_begun_at_ms: 1_600_000_000_000,
        failing_since_ms: 1_600_000_000_000,
        failing_reason: "the store is full".to_owned(),
        failing_attempts: 2,
        next_try_ms: 1_600_000_060_000,
        ..v1::BackupScheduleInfo::default()
    }
}

/// R-CLI-6: a schedule is sent as it is written, with its key from a file and its recipients; the key is not shown.
#[test]
fn a_schedule_is_added() {
    let cluster = Cluster::default();
    let session = Session::with(cluster.clone());
    session.write("key.txt", "hunter2\n");
    let key = session.folder.path().join("key.txt").display().to_string();
    let run = session.run(&format!(
        "backup schedule add store s3://sun/prod --every 6h --keep 3 --keep-monthly 12 --region r \
         --access-key AKIA1 --secret-key-file {key} --recipient {RECIPIENT} --replace"
    ));
    let expected = "backup schedule store replaced: every 6h to s3://sun/prod\nthe next one is due at 2023-11-14T22:13:20Z\n";
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (Some(0), expected, ""));
    let sent = cluster.0.lock().unwrap()[0].clone();
    assert_eq!((sent.every_ms, sent.cron.as_str()), (21_600_000, ""));
    assert_eq!((&*sent.access_key_id, &*sent.secret_access_key), ("AKIA1", "hunter2"));
    assert_eq!(sent.recipients, [RECIPIENT]);
    let keep = v1::BackupKeep { newest: 3, monthly: 12, ..v1::BackupKeep::default() };
    assert!(sent.keep == Some(keep) && sent.replace && !sent.plain && !sent.insecure_http);
    let run = session.run("backup schedule add nightly /backups --cron @daily");
    assert!(run.out.contains("nightly added: @daily (UTC) to /backups"), "{}", run.out);
    assert!(run.out.contains("the path is one of the node that leads"), "{}", run.out);
}

/// R-CLI-6: what cannot be meant is refused before anything is sent.
#[test]
fn impossible_schedules_are_refused() {
    let cluster = Cluster::default();
    let session = Session::with(cluster.clone());
    for (line, expected) in [
        ("add a /backups", "--every"),
        ("add a /backups --every 1h --cron @daily", "cannot be used with"),
        ("add a /backups --every 1h --time-zone UTC", "cannot be used with"),
        ("add a s3://sun --every 1h", "a bucket needs a key"),
        ("add a s3://sun --every 1h --access-key x", "--secret-key-file"),
        (
            "add a s3://sun --every 1h --access-key x --secret-key-file missing",
            "cannot read missing",
        ),
        ("add a /backups --every 1h --recipient age1x", "is no recipient"),
        ("add a /backups --every 1h --keep 0", "invalid value"),
    ] {
        let run = session.run(&format!("backup schedule {line}"));
        assert!(run.code != Some(0) && run.err.contains(expected), "{line}: {}", run.err);
    }
    assert!(cluster.0.lock().unwrap().is_empty());
}

/// R-CLI-6: a list says what was taken when, and what fails; a run says what came of it, by its exit code too.
#[test]
fn schedules_are_listed_run_and_removed() {
    let session = Session::with(Cluster::default());
    let run = session.run("backup schedule ls");
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines[1].contains("3 7d"), "{}", run.out);
    assert!(lines[2].contains("every 6h") && lines[2].contains("yes"), "{}", run.out);
    assert!(lines[3].starts_with("store: failing for ") && lines[3].ends_with("the store is full"));
    let json: Value = serde_json::from_str(&session.run("backup schedule ls -o json").out).unwrap();
    assert_eq!(json[0]["last"]["name"], json!("sun-0.jacobak"));
    assert_eq!(json[1]["failing"]["attempts"], json!(2));
    assert_eq!(json[1].get("last"), None);

    let run = session.run("backup schedule run nightly");
    let expected = "backup of nightly stored by n1: /backups, sun-1.jacobak, 2048 bytes\n";
    assert_eq!((run.code, run.out.as_str()), (Some(0), expected));
    let run = session.run("backup schedule run store");
    assert!(run.code != Some(0) && run.err.contains("the store is full"), "{}", run.err);
    assert_eq!(session.run("backup schedule run store --detach").out, "backup of store begun\n");
    let removed = session.run("backup schedule rm nightly").out;
    assert_eq!(removed, "backup schedule nightly removed; its backups stay in /backups\n");
    assert_eq!(session.run("backup schedule rm x").out, "there is no backup schedule x\n");
}
