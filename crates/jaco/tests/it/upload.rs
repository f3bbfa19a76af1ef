//! `jaco apply` with files beside the compose file: uploads, output and refusals.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};

use crate::fixture::Session;

const COMPOSE: &str = "\
name: shop
services:
  web:
    image: web:2
    volumes: ['./conf:/etc/web:ro']
    secrets: [key]
secrets:
  key: {file: ./key.txt}
";

/// What the cluster has received.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) stored: BTreeMap<Vec<u8>, Bytes>,
    pub(crate) secrets: Vec<(Bytes, bool)>,
    pub(crate) applied: Vec<v1::ApplyRequest>,
    /// The number of applies that find the uploaded files evicted.
    evictions: usize,
}

/// A cluster that stores uploads, and computes ids of secrets from their first byte.
#[derive(Clone, Default)]
pub(crate) struct Cluster(pub(crate) Arc<Mutex<Received>>);

fn sha256(bytes: &[u8]) -> Vec<u8> {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).to_vec()
}

impl Script for Cluster {
    fn missing_contents(
        &self,
        request: v1::MissingContentsRequest,
        _: Option<&str>,
    ) -> Answer<v1::MissingContentsResponse> {
        let received = self.0.lock().unwrap();
        let missing = request.ids.into_iter().filter(|id| !received.stored.contains_key(&id[..]));
        Ok(v1::MissingContentsResponse { ids: missing.collect() })
    }

    fn put_contents(
        &self,
        request: v1::PutContentsRequest,
        _: Option<&str>,
    ) -> Answer<v1::PutContentsResponse> {
        let mut received = self.0.lock().unwrap();
        assert!(!request.dry_run || request.plain.is_empty(), "a dry run uploads no pieces");
        let plain = request.plain.into_iter().map(|bytes| {
            let id = sha256(&bytes);
            received.stored.insert(id.clone(), bytes);
            id.into()
        });
        let plain = plain.collect();
        let secret = request.secret.into_iter().map(|bytes| {
            received.secrets.push((bytes.clone(), request.dry_run));
            vec![bytes[0]; 32].into()
        });
        let secret = secret.collect();
        Ok(v1::PutContentsResponse { plain, secret })
    }

    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        let mut received = self.0.lock().unwrap();
        received.applied.push(request);
        if received.evictions > 0 {
            received.evictions -= 1;
            received.stored.clear();
            return Err(Rejection::new(ErrorCode::ContentMissing, "4 pieces were not sent"));
        }
        Ok(v1::ApplyResponse {
            deployment: "shop".to_owned(),
            revision: 1,
            change: "created".to_owned(),
            ..Default::default()
        })
    }
}

pub(crate) fn project(compose: &str) -> (Session, Cluster) {
    let cluster = Cluster::default();
    let session = Session::with(cluster.clone());
    session.write("compose.yaml", compose);
    (session, cluster)
}

/// R-IN-4, R-IN-5: missing pieces are uploaded once, secrets separately, and the request refers to all.
#[test]
fn files_are_uploaded_once() {
    let (session, cluster) = project(COMPOSE);
    session.write("conf/a.conf", "listen 80");
    session.write("conf/sub/b.conf", "listen 80");
    session.write("key.txt", "hunter2");
    let run = session.run("apply --detach");
    assert_eq!(run.code, Some(0), "{}", run.err);
    // The content of both files, the list of the folder, and the list of the secret.
    assert!(run.err.contains("uploading 3 pieces of files"), "{}", run.err);
    assert!(!format!("{}{}", run.out, run.err).contains("hunter2"));
    {
        let received = cluster.0.lock().unwrap();
        assert_eq!(received.secrets, [(Bytes::from("hunter2"), false)]);
        assert!(
            received.stored.values().all(|bytes| !bytes.windows(7).any(|part| part == b"hunter2"))
        );
        let request = &received.applied[0];
        assert_eq!(request.binds[0].name, "conf");
        let tree = String::from_utf8(received.stored[&request.binds[0].tree[..]].to_vec()).unwrap();
        let id: String = sha256(b"listen 80").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(tree.matches(&id).count(), 2, "{tree}");
        assert_eq!(request.secrets[0].name, "key");
        let tree =
            String::from_utf8(received.stored[&request.secrets[0].tree[..]].to_vec()).unwrap();
        assert!(tree.contains(&"68".repeat(32)), "the id comes from the cluster: {tree}");
        assert!(request.compose_json.contains(r#""source":"conf""#), "{}", request.compose_json);
        assert!(!request.compose_json.contains("hunter2"));
    }
    let run = session.run("apply --detach");
    assert!(!run.err.contains("uploading"), "{}", run.err);
    let received = cluster.0.lock().unwrap();
    assert_eq!(received.applied[0].binds, received.applied[1].binds);
}

/// R-IN-4: evicted files are uploaded again with a new request id, once at most.
#[test]
fn evicted_files_are_uploaded_again_once() {
    let run = |evictions: usize| {
        let (session, cluster) = project(COMPOSE);
        session.write("conf/a.conf", "listen 80");
        session.write("key.txt", "hunter2");
        cluster.0.lock().unwrap().evictions = evictions;
        let run = session.run("apply --detach --quiet");
        let received = cluster.0.lock().unwrap();
        let ids: std::collections::BTreeSet<_> =
            received.applied.iter().map(|request| request.request_id.clone()).collect();
        (run.code, received.applied.len(), ids.len(), received.stored.len())
    };
    assert_eq!(run(0), (Some(0), 1, 1, 3));
    assert_eq!(run(1), (Some(0), 2, 2, 3));
    assert_eq!(run(2), (Some(3), 2, 2, 0));
}

/// R-IN-4: jaco.yaml limits the size of the files, and the command line overrides it.
#[test]
fn manifest_limits_the_size_of_files() {
    let run = |overlay: &str, flags: &str| {
        let (session, cluster) = project(COMPOSE);
        session.write("conf/a.conf", &"x".repeat(4096));
        session.write("key.txt", "hunter2");
        session.write("jaco.yaml", &format!("deployment: shop\n{overlay}"));
        let run = session.run(&format!("apply --detach {flags}"));
        let received = cluster.0.lock().unwrap();
        (run.code, received.applied.last().map(|request| request.max_file_bytes))
    };
    assert_eq!(run("", ""), (Some(0), Some(16 << 20)));
    assert_eq!(run("max_files: 64MB", ""), (Some(0), Some(64 << 20)));
    assert_eq!(run("max_files: 1KB", ""), (Some(3), None));
    assert_eq!(run("max_files: 1KB", "--max-files 8KB"), (Some(0), Some(8 << 10)));
}

/// R-IN-5: a dry run computes the ids of secrets, and stores nothing.
#[test]
fn dry_run_stores_nothing() {
    let (session, cluster) = project(COMPOSE);
    session.write("conf/a.conf", "listen 80");
    session.write("key.txt", "hunter2");
    let run = session.run("apply --dry-run");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let received = cluster.0.lock().unwrap();
    assert!(received.stored.is_empty());
    assert_eq!(received.secrets, [(Bytes::from("hunter2"), true)]);
    assert_eq!((received.applied[0].binds.len(), received.applied[0].secrets.len()), (1, 1));
}

/// R-IN-3, R-IN-4: all files that cannot be uploaded are listed with their positions; nothing is sent.
#[test]
fn files_that_cannot_be_uploaded_are_listed_with_positions() {
    let (session, cluster) = project(
        "\
name: shop
services:
  web:
    image: web:2
    volumes:
      - ./nginx.conf:/etc/nginx.conf
      - ./data:/data
      - ./empty:/empty:ro
    secrets: [key, token]
secrets:
  key: {file: ./key.txt}
  token: {environment: SHOP_TOKEN_THAT_NOBODY_SET}
",
    );
    let run = session.run("apply");
    assert_eq!(run.code, Some(3), "{}", run.err);
    for position in ["compose.yaml:6:", "compose.yaml:8:", "compose.yaml:11:", "compose.yaml:12:"] {
        assert!(run.err.contains(position), "{position} is not in {}", run.err);
    }
    assert!(run.err.contains("SHOP_TOKEN_THAT_NOBODY_SET, which is not set"), "{}", run.err);
    assert!(run.err.contains("the manifest has 4 problems"), "{}", run.err);
    assert!(cluster.0.lock().unwrap().applied.is_empty());
}

/// R-IN-4: too large files are refused with the largest ones and the option that raises the limit.
#[test]
fn too_large_files_are_refused() {
    let (session, cluster) = project(COMPOSE);
    session.write("conf/large.bin", &"x".repeat(3 << 20));
    session.write("conf/small.conf", "x");
    session.write("key.txt", "hunter2");
    let run = session.run("apply --detach --max-files 2MB");
    assert_eq!(run.code, Some(3), "{}", run.err);
    assert!(run.err.contains("error[too_large]"), "{}", run.err);
    assert!(run.err.contains("large.bin: 3.0 MiB"), "{}", run.err);
    assert!(cluster.0.lock().unwrap().applied.is_empty());
    let run = session.run("apply --detach --max-files 4MB");
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert_eq!(cluster.0.lock().unwrap().applied[0].max_file_bytes, 4 << 20);
}

/// R-IN-4: differences from `docker compose` are warnings.
#[test]
fn differences_from_docker_compose_are_warnings() {
    let (session, cluster) = project(
        "\
name: shop
services:
  web: {image: 'web:2', volumes: ['./data:/data', './html:/html', './kept:/kept']}
",
    );
    session.write("html/index.html", "x");
    session.write("kept/.gitkeep", "");
    let run = session.run("apply --detach");
    assert_eq!(run.code, Some(0), "{}", run.err);
    for warning in ["`data` does not exist here", "`html` is writable", "`kept` is empty"] {
        assert!(run.err.contains(warning), "{warning} is not in {}", run.err);
    }
    let received = cluster.0.lock().unwrap();
    let names: Vec<_> = received.applied[0].binds.iter().map(|files| files.name.as_str()).collect();
    assert_eq!(names, ["html"]);
}
