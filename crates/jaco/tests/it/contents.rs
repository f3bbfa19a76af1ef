//! `jaco config` and `jaco secret`: where a content comes from, and that it is never printed.

use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;

use crate::fixture::Session;

/// A cluster that records the contents it stores.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Vec<v1::StoreContentRequest>>>);

impl Script for Cluster {
    fn store_content(
        &self,
        request: v1::StoreContentRequest,
        _: Option<&str>,
    ) -> Answer<v1::StoreContentResponse> {
        let mut stored = self.0.lock().unwrap();
        stored.push(request);
        Ok(v1::StoreContentResponse { version: stored.len() as u64 })
    }

    fn remove_content(
        &self,
        _: v1::RemoveContentRequest,
        _: Option<&str>,
    ) -> Answer<v1::RemoveContentResponse> {
        Ok(v1::RemoveContentResponse {})
    }

    fn list_contents(
        &self,
        request: v1::ListContentsRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListContentsResponse> {
        let stored = self.0.lock().unwrap();
        let of_kind = stored.iter().filter(|content| content.kind == request.kind);
        let contents = of_kind.map(|content| v1::ContentInfo {
            name: content.name.clone(),
            version: 1,
            bytes: content.content.len() as u64,
            stored_at_ms: 0,
            used_by: vec!["shop".to_owned(), "blog".to_owned()],
            ..Default::default()
        });
        Ok(v1::ListContentsResponse { contents: contents.collect() })
    }
}

fn cluster() -> (Session, Cluster) {
    let cluster = Cluster::default();
    (Session::with(cluster.clone()), cluster)
}

/// R-IN-5: a content is read from a file or stdin, completely, and never printed.
#[test]
fn content_is_read_from_a_file_or_stdin() {
    let (session, cluster) = cluster();
    session.write("key.txt", "hunter2\n");
    let run = session.run("secret set db key.txt");
    assert_eq!(
        (run.code, run.out.as_str()),
        (Some(0), "secret db stored as version 1\n"),
        "{}",
        run.err
    );
    let mut piped = session.command("config set rates -o json");
    let mut child =
        piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"7 %").unwrap();
    let run = session.result(child.wait_with_output().unwrap());
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json, serde_json::json!({"kind": "config", "name": "rates", "version": 2}));
    {
        let stored = cluster.0.lock().unwrap();
        let sent: Vec<_> = stored
            .iter()
            .map(|one| (one.kind.as_str(), one.name.as_str(), &one.content[..]))
            .collect();
        assert_eq!(sent, [("secret", "db", &b"hunter2\n"[..]), ("config", "rates", b"7 %")]);
        assert!(stored.iter().all(|one| !one.request_id.is_empty()));
    }
    let listed = session.run("secret ls");
    let row: Vec<&str> = listed.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[2]), ("db", "1", "8"), "{}", listed.out);
    assert!(listed.out.contains("shop, blog") && !listed.out.contains("hunter2"), "{}", listed.out);
    let removed = session.run("secret rm db");
    assert_eq!(removed.out, "secret db removed\n");
}

/// R-IN-5: an empty or too large content is refused before anything is sent; a content cannot be given on
/// the command line.
#[test]
fn invalid_content_is_refused() {
    let (session, cluster) = cluster();
    session.write("empty", "");
    session.write("large", &"x".repeat((1 << 20) + 1));
    for (line, expected) in [
        ("secret set db", "stdin is empty"),
        ("secret set db empty", "empty is empty"),
        ("secret set db large", "more than 1 MiB"),
        ("secret set db key.txt hunter2", "unexpected argument"),
    ] {
        let run = session.run(line);
        assert_eq!(run.code, Some(2), "{line}: {}", run.err);
        assert!(run.err.contains(expected), "{line}: {}", run.err);
    }
    let absent = session.run("secret set db absent.txt");
    assert!(absent.code != Some(0) && absent.err.contains("cannot read absent.txt"));
    assert!(cluster.0.lock().unwrap().is_empty());
}

/// R-IN-5: an external secret is stored in the cluster: nothing is uploaded, and nothing is missing.
#[test]
fn external_secret_is_not_uploaded() {
    let session = Session::alone();
    session.write(
        "compose.yaml",
        "services: {web: {image: i, secrets: [db]}}\nsecrets: {db: {external: true}}\n",
    );
    let run = session.run("validate");
    assert_eq!(run.code, Some(0), "{}", run.err);
}

/// R-CLI-6: configs and secrets have the same verbs, and earlier spellings still work.
#[test]
fn verbs_of_configs_and_secrets_are_the_same() {
    let (session, cluster) = cluster();
    session.write("a", "1");
    for group in ["config", "configs", "secret"] {
        for verb in ["set", "create", "store"] {
            assert_eq!(session.run(&format!("{group} {verb} a a")).code, Some(0), "{group} {verb}");
        }
        for verb in ["ls", "list"] {
            let listed = session.run(&format!("{group} {verb}")).out;
            assert!(listed.starts_with("NAME"), "{group} {verb}: {listed}");
        }
        for verb in ["get", "inspect", "show"] {
            let shown = session.run(&format!("{group} {verb} a"));
            assert!(shown.out.contains("bytes: 1\n"), "{group} {verb}: {shown:?}");
        }
        for verb in ["rm", "remove", "delete"] {
            assert_eq!(session.run(&format!("{group} {verb} a")).code, Some(0), "{group} {verb}");
        }
        assert_eq!(session.run(&format!("{group} get b")).code, Some(3));
    }
    let kinds: Vec<String> =
        cluster.0.lock().unwrap().iter().map(|content| content.kind.clone()).collect();
    let (configs, secrets) = kinds.split_at(6);
    assert!(configs.iter().all(|kind| kind == "config"), "{kinds:?}");
    assert_eq!(secrets, ["secret"; 3]);
}
