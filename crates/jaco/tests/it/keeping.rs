//! `jaco secret` and `jaco configs`: from where a content comes, and where it never goes.

use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;

use crate::session::Session;

/// A cluster that counts what it is given.
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

fn world() -> (Session, Cluster) {
    let cluster = Cluster::default();
    (Session::with(cluster.clone()), cluster)
}

/// R-IN-5: from a file or stdin, whole, and never shown.
#[test]
fn a_content_comes_from_a_file_or_stdin() {
    let (session, cluster) = world();
    session.write("key.txt", "hunter2\n");
    let did = session.run("secret create db key.txt");
    assert_eq!((did.code, did.out.as_str()), (Some(0), "secret db is version 1\n"), "{}", did.err);
    let mut piped = session.command("configs create rates -o json");
    let mut child =
        piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"7 %").unwrap();
    let did = session.did(child.wait_with_output().unwrap());
    let told: serde_json::Value = serde_json::from_str(&did.out).unwrap();
    assert_eq!(told, serde_json::json!({"kind": "config", "name": "rates", "version": 2}));
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

/// R-IN-5: a content that nobody gave, or too much of it, is refused before anything is sent; there is
/// no way to put it on the command line.
#[test]
fn what_is_no_content_is_refused() {
    let (session, cluster) = world();
    session.write("empty", "");
    session.write("large", &"x".repeat((1 << 20) + 1));
    for (line, said) in [
        ("secret create db", "nothing came from stdin"),
        ("secret create db empty", "nothing came from empty"),
        ("secret create db large", "more than 1 MiB"),
        ("secret create db key.txt hunter2", "unexpected argument"),
    ] {
        let did = session.run(line);
        assert_eq!(did.code, Some(2), "{line}: {}", did.err);
        assert!(did.err.contains(said), "{line}: {}", did.err);
    }
    let absent = session.run("secret create db absent.txt");
    assert!(absent.code != Some(0) && absent.err.contains("cannot read absent.txt"));
    assert!(cluster.0.lock().unwrap().is_empty());
}

/// R-IN-5: an external one is the cluster's: nothing of it is sent, and nothing is missing.
#[test]
fn an_external_one_is_not_sent() {
    let session = Session::alone();
    session.write(
        "compose.yaml",
        "services: {web: {image: i, secrets: [db]}}\nsecrets: {db: {external: true}}\n",
    );
    let did = session.run("validate");
    assert_eq!(did.code, Some(0), "{}", did.err);
}
