//! `jaco notify`: what is asked for, and that what is secret is shown once at most (R-OPS-1).

use std::sync::{Arc, Mutex};

use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;
use serde_json::{Value, json};

use crate::fixture::Session;

const URL: &str = "https://hooks.example.com/services/hunter2";

/// A cluster that records the targets it stores.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Vec<v1::StoreNotifyTargetRequest>>>);

impl Script for Cluster {
    fn store_notify_target(
        &self,
        request: v1::StoreNotifyTargetRequest,
        _: Option<&str>,
    ) -> Answer<v1::StoreNotifyTargetResponse> {
        let address = match request.form.as_str() {
            "email" => format!("smtps://mail.example.com:465 to {}", request.mail_to.join(", ")),
            _ => "https://hooks.example.com".to_owned(),
        };
        let target = v1::NotifyTargetInfo {
            name: request.name.clone(),
            form: request.form.clone(),
            address,
            paused_at_ms: if request.paused { 1_700_000_000_000 } else { 0 },
            filter: request.filter.clone(),
            ..failing()
        };
        let change = if request.replace { "updated" } else { "created" };
        self.0.lock().unwrap().push(request);
        Ok(v1::StoreNotifyTargetResponse { target: Some(target), change: change.to_owned() })
    }

    fn list_notify_targets(
        &self,
        _: v1::ListNotifyTargetsRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListNotifyTargetsResponse> {
        Ok(v1::ListNotifyTargetsResponse { targets: vec![failing()] })
    }

    fn test_notify_target(
        &self,
        request: v1::TestNotifyTargetRequest,
        _: Option<&str>,
    ) -> Answer<v1::TestNotifyTargetResponse> {
        let accepted = v1::TestNotifyTargetResponse {
            sent_by: "n1".to_owned(),
            status: 204,
            took_ms: 12,
            address: "https://hooks.example.com".to_owned(),
            ..v1::TestNotifyTargetResponse::default()
        };
        Ok(match request.name.as_str() {
            "ops" => accepted,
            _ => v1::TestNotifyTargetResponse {
                status: 404,
                error: "answered 404".to_owned(),
                advice: "the address does not exist any more: replace the target".to_owned(),
                ..accepted
            },
        })
    }

    fn list_undelivered(
        &self,
        _: v1::ListUndeliveredRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListUndeliveredResponse> {
        let one = v1::UndeliveredInfo {
            target: "ops".to_owned(),
            event: "120/0".to_owned(),
            kind: "apply".to_owned(),
            text: "apply deployment=shop".to_owned(),
            attempts: 5,
            reason: "answered 404".to_owned(),
            given_up_at_ms: 1_700_000_000_000,
            ..v1::UndeliveredInfo::default()
        };
        Ok(v1::ListUndeliveredResponse { notifications: vec![one] })
    }

    fn pause_notify_target(
        &self,
        request: v1::PauseNotifyTargetRequest,
        _: Option<&str>,
    ) -> Answer<v1::PauseNotifyTargetResponse> {
        assert!(!request.request_id.is_empty());
        let (change, skipped) = match (request.name.as_str(), request.change.as_str()) {
            ("ops", "pause") => ("paused", 0),
            ("ops", "resume") => ("resumed", 3),
            ("ops", "catch_up") => ("resumed", 0),
            _ => ("unchanged", 0),
        };
        let target = Some(v1::NotifyTargetInfo { name: request.name, ..failing() });
        Ok(v1::PauseNotifyTargetResponse { target, change: change.to_owned(), skipped })
    }

    fn settle_undelivered(
        &self,
        request: v1::SettleUndeliveredRequest,
        _: Option<&str>,
    ) -> Answer<v1::SettleUndeliveredResponse> {
        assert!(!request.request_id.is_empty() && ["retry", "clear"].contains(&&*request.change));
        Ok(v1::SettleUndeliveredResponse { count: request.events.len().max(1) as u64 })
    }
}

fn failing() -> v1::NotifyTargetInfo {
    v1::NotifyTargetInfo {
        name: "ops".to_owned(),
        form: "webhook".to_owned(),
        address: "https://hooks.example.com".to_owned(),
        filter: Some(v1::NotifyFilter {
            groups: vec!["wake".to_owned()],
            severity: "info".to_owned(),
            ..v1::NotifyFilter::default()
        }),
        behind: 3,
        delivered: "110/0".to_owned(),
        delivered_at_ms: 1_700_000_000_000,
        failing_since_ms: 1_700_000_000_000,
        failing_reason: "answered 503".to_owned(),
        undelivered: 1,
        pruned: 7,
        by: "local:0".to_owned(),
        ..v1::NotifyTargetInfo::default()
    }
}

fn cluster() -> (Session, Cluster) {
    let cluster = Cluster::default();
    (Session::with(cluster.clone()), cluster)
}

/// R-OPS-1: without a word about events a target gets those that wake an operator; a secret is made, sent, and shown once.
#[test]
fn a_target_is_added() {
    let (session, cluster) = cluster();
    let run = session.run(&format!("notify add ops webhook {URL}"));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let sent = cluster.0.lock().unwrap()[0].clone();
    assert_eq!(
        (sent.name.as_str(), sent.form.as_str(), sent.url.as_str()),
        ("ops", "webhook", URL)
    );
    assert_eq!(sent.filter.unwrap_or_default().groups, ["wake"]);
    assert!(sent.secret.len() == 64 && !sent.insecure_http && !sent.replace);
    let expected = format!(
        "notification target ops added: https://hooks.example.com (wake)\nsecret that signs, shown only now: {}\n",
        sent.secret
    );
    assert_eq!(run.out, expected);
    session.write("url.txt", &format!("{URL}\n"));
    session.write("key.txt", "correct-horse-battery\n");
    let file = |name: &str| session.folder.path().join(name).display().to_string();
    let (url, key) = (file("url.txt"), file("key.txt"));
    let line = format!(
        "notify add ops webhook --url-file {url} --secret-file {key} --group jobs --type apply --deployment shop --severity warning --replace"
    );
    let run = session.run(&line);
    assert_eq!(
        run.out,
        "notification target ops replaced: https://hooks.example.com (jobs, apply, severity warning, deployment shop)\n"
    );
    let sent = cluster.0.lock().unwrap()[1].clone();
    assert_eq!((sent.url.as_str(), sent.secret.as_str()), (URL, "correct-horse-battery"));
    let run = session.run(&format!("notify add all slack --url-file {url} --group all -o json"));
    let json: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&json["filter"]["groups"], json.get("secret")), (&json!([]), None));
    assert_eq!(cluster.0.lock().unwrap()[2].secret, "", "a chat has no secret but its address");
    assert!(!run.out.contains("hunter2"));
}

/// R-OPS-1: a target of mail has a password from a file, which is not shown, and its recipients are.
#[test]
fn a_target_of_mail_is_added() {
    let (session, cluster) = cluster();
    session.write("password.txt", "hunter2\n");
    let password = session.folder.path().join("password.txt").display().to_string();
    let run = session.run(&format!(
        "notify add mail email smtps://jaco@mail.example.com --password-file {password} \
         --from jaco@example.com --to ann@example.com --to bob@example.com --group all --paused"
    ));
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    assert_eq!(
        run.out,
        "notification target mail added: smtps://mail.example.com:465 to ann@example.com, bob@example.com (all)\n\
         it is paused: jaco notify resume mail\n"
    );
    let sent = cluster.0.lock().unwrap()[0].clone();
    let parts = [&sent.form, &sent.url, &sent.secret, &sent.mail_from];
    assert_eq!(parts, ["email", "smtps://jaco@mail.example.com", "hunter2", "jaco@example.com"]);
    assert_eq!(sent.mail_to, ["ann@example.com", "bob@example.com"]);
    assert!(sent.paused && !sent.dry_run);
    let line = "notify add relay email smtp://127.0.0.1 --from a@example.com --to b@example.com";
    assert_eq!(session.run(line).code, Some(0));
    let sent = cluster.0.lock().unwrap()[1].clone();
    assert_eq!((sent.url.as_str(), sent.secret.as_str()), ("smtp://127.0.0.1", ""));
}

/// R-OPS-1: a pause and its end say what they did, and what is not sent because of them.
#[test]
fn targets_are_paused_and_resumed() {
    let (session, _) = cluster();
    assert_eq!(session.run("notify pause ops").out, "notification target ops paused\n");
    assert_eq!(session.run("notify pause x").out, "notification target x is paused already\n");
    assert_eq!(
        session.run("notify resume ops").out,
        "notification target ops resumed\n3 events of the pause will not be sent; the audit log has them\n"
    );
    let caught_up = session.run("notify resume ops --catch-up");
    assert_eq!(caught_up.out, "notification target ops resumed\n");
    assert_eq!(session.run("notify resume x").out, "notification target x is not paused\n");
    let json: Value = serde_json::from_str(&session.run("notify resume ops -o json").out).unwrap();
    assert_eq!((&json["change"], &json["skipped"]), (&"resumed".into(), &3.into()));
}

/// R-OPS-1: a list says how far a target is, and a line under it what is wrong.
#[test]
fn targets_are_listed() {
    let (session, _) = cluster();
    let run = session.run("notify ls");
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[0].starts_with("NAME  FORM"), "{}", run.out);
    assert!(lines[2].starts_with("ops: failing for ") && lines[2].ends_with(": answered 503"));
    assert_eq!(lines[3], "ops: 7 events were pruned before they could be delivered");
    let json: Value = serde_json::from_str(&session.run("notify ls -o json").out).unwrap();
    assert_eq!(
        json[0]["failing"],
        json!({"since": "2023-11-14T22:13:20Z", "reason": "answered 503"})
    );
    assert_eq!((&json[0]["behind"], &json[0]["delivered"]["event"]), (&3.into(), &"110/0".into()));
    let failed: Value = serde_json::from_str(&session.run("notify failed -o json").out).unwrap();
    assert_eq!((&failed[0]["event"], &failed[0]["attempts"]), (&"120/0".into(), &5.into()));
    assert_eq!(session.run("notify retry ops").out, "1 notification to ops sent again\n");
    assert_eq!(session.run("notify clear ops 120/0 121/0").out, "2 notifications to ops cleared\n");
}

/// R-OPS-1: a test says what came of it, and where it failed what to do; the exit code tells both apart.
#[test]
fn a_test_says_what_came_of_it() {
    let (session, _) = cluster();
    let run = session.run("notify test ops");
    let expected =
        "ops (https://hooks.example.com) accepted the test: 204 after 12 ms, sent by n1\n";
    assert_eq!((run.code, run.out.as_str()), (Some(0), expected));
    let run = session.run("notify test chat");
    assert_eq!((run.code != Some(0), run.out.as_str()), (true, ""));
    for part in
        ["did not accept the test: answered 404", "sent by n1, after 12 ms", "replace the target"]
    {
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
}

/// R-OPS-1: what cannot be meant is refused before anything is sent.
#[test]
fn impossible_targets_are_refused() {
    let (session, cluster) = cluster();
    for (line, expected) in [
        ("add ops webhook", "<URL>"),
        ("add ops mail smtp://a.example", "invalid value"),
        ("add ops email --from a@example.com --to b@example.com", "<URL>"),
        ("add ops email smtps://a.example --to b@example.com", "needs --from and --to"),
        ("add ops email smtps://a.example --from b@example.com", "needs --from and --to"),
        ("add ops webhook https://a.example --to b@example.com", "are for mail"),
        (
            "add ops email smtps://a.example --from a@b.c --to a@b.c --secret-file key.txt",
            "mail is not signed",
        ),
        (
            "add ops email smtp://a.example --from a@b.c --to a@b.c --insecure-http",
            "--insecure-http is not for mail",
        ),
        ("add ops webhook https://a.example --group night", "invalid value"),
        ("add chat slack https://a.example --secret-file key.txt", "leave --secret-file out"),
        ("add ops webhook --url-file missing.txt", "cannot read missing.txt"),
        ("add ops webhook https://a.example --url-file url.txt", "cannot be used with"),
    ] {
        let run = session.run(&format!("notify {line}"));
        assert!(run.code != Some(0) && run.err.contains(expected), "{line}: {}", run.err);
    }
    assert!(cluster.0.lock().unwrap().is_empty());
}
