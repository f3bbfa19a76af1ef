//! `jaco apply` with files beside the compose file: what it sends, what it says, and what it refuses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use jaco_client::scripted::{Answer, Script};
use jaco_proto::v1;
use jaco_types::{ErrorCode, Rejection};

use crate::session::Session;

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

/// What the cluster was sent.
#[derive(Default)]
struct Told {
    stored: BTreeMap<Vec<u8>, Bytes>,
    secrets: Vec<(Bytes, bool)>,
    applied: Vec<v1::ApplyRequest>,
    /// How many applies will find that what was sent is gone.
    forgets: usize,
}

/// A cluster that stores what it is sent, and calls secrets by their number.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Told>>);

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
        let told = self.0.lock().unwrap();
        let missing = request.ids.into_iter().filter(|id| !told.stored.contains_key(&id[..]));
        Ok(v1::MissingContentsResponse { ids: missing.collect() })
    }

    fn put_contents(
        &self,
        request: v1::PutContentsRequest,
        _: Option<&str>,
    ) -> Answer<v1::PutContentsResponse> {
        let mut told = self.0.lock().unwrap();
        assert!(
            !request.dry_run || request.plain.is_empty(),
            "only secrets have to be asked about"
        );
        let plain = request.plain.into_iter().map(|bytes| {
            let id = sha256(&bytes);
            told.stored.insert(id.clone(), bytes);
            id.into()
        });
        let plain = plain.collect();
        let secret = request.secret.into_iter().map(|bytes| {
            told.secrets.push((bytes.clone(), request.dry_run));
            vec![bytes[0]; 32].into()
        });
        let secret = secret.collect();
        Ok(v1::PutContentsResponse { plain, secret })
    }

    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        let mut told = self.0.lock().unwrap();
        told.applied.push(request);
        if told.forgets > 0 {
            told.forgets -= 1;
            told.stored.clear();
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

fn project(compose: &str) -> (Session, Cluster) {
    let cluster = Cluster::default();
    let session = Session::with(cluster.clone());
    session.write("compose.yaml", compose);
    (session, cluster)
}

/// R-IN-4, R-IN-5: what is missing is sent, once; secrets by themselves; and the request names all.
#[test]
fn files_are_sent_once() {
    let (session, cluster) = project(COMPOSE);
    session.write("conf/a.conf", "listen 80");
    session.write("conf/sub/b.conf", "listen 80");
    session.write("key.txt", "hunter2");
    let did = session.run("apply --detach");
    assert_eq!(did.code, Some(0), "{}", did.err);
    // The content that two files share, the list of the folder, and the one of the secret.
    assert!(did.err.contains("sending 3 pieces of files"), "{}", did.err);
    assert!(!format!("{}{}", did.out, did.err).contains("hunter2"));
    {
        let told = cluster.0.lock().unwrap();
        assert_eq!(told.secrets, [(Bytes::from("hunter2"), false)]);
        assert!(told.stored.values().all(|bytes| !bytes.windows(7).any(|part| part == b"hunter2")));
        let request = &told.applied[0];
        assert_eq!(request.binds[0].name, "conf");
        let tree = String::from_utf8(told.stored[&request.binds[0].tree[..]].to_vec()).unwrap();
        let id: String = sha256(b"listen 80").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(tree.matches(&id).count(), 2, "{tree}");
        assert_eq!(request.secrets[0].name, "key");
        let tree = String::from_utf8(told.stored[&request.secrets[0].tree[..]].to_vec()).unwrap();
        assert!(tree.contains(&"68".repeat(32)), "named by the cluster: {tree}");
        assert!(request.compose_json.contains(r#""source":"conf""#), "{}", request.compose_json);
        assert!(!request.compose_json.contains("hunter2"));
    }
    let did = session.run("apply --detach");
    assert!(!did.err.contains("sending"), "{}", did.err);
    let told = cluster.0.lock().unwrap();
    assert_eq!(told.applied[0].binds, told.applied[1].binds);
}

/// R-IN-4: what the cluster has let go of is sent once more, under a new request; no more than once.
#[test]
fn what_is_gone_is_sent_again_once() {
    let run = |forgets: usize| {
        let (session, cluster) = project(COMPOSE);
        session.write("conf/a.conf", "listen 80");
        session.write("key.txt", "hunter2");
        cluster.0.lock().unwrap().forgets = forgets;
        let did = session.run("apply --detach --quiet");
        let told = cluster.0.lock().unwrap();
        let ids: std::collections::BTreeSet<_> =
            told.applied.iter().map(|request| request.request_id.clone()).collect();
        (did.code, told.applied.len(), ids.len(), told.stored.len())
    };
    assert_eq!(run(0), (Some(0), 1, 1, 3));
    assert_eq!(run(1), (Some(0), 2, 2, 3));
    assert_eq!(run(2), (Some(3), 2, 2, 0));
}

/// R-IN-4: jaco.yaml says how much may be sent, and the command line wins.
#[test]
fn the_manifest_bounds_its_files() {
    let run = |overlay: &str, flags: &str| {
        let (session, cluster) = project(COMPOSE);
        session.write("conf/a.conf", &"x".repeat(4096));
        session.write("key.txt", "hunter2");
        session.write("jaco.yaml", &format!("deployment: shop\n{overlay}"));
        let did = session.run(&format!("apply --detach {flags}"));
        let told = cluster.0.lock().unwrap();
        (did.code, told.applied.last().map(|request| request.max_file_bytes))
    };
    assert_eq!(run("", ""), (Some(0), Some(16 << 20)));
    assert_eq!(run("max_files: 64MB", ""), (Some(0), Some(64 << 20)));
    assert_eq!(run("max_files: 1KB", ""), (Some(3), None));
    assert_eq!(run("max_files: 1KB", "--max-files 8KB"), (Some(0), Some(8 << 10)));
}

/// R-IN-5: a dry run asks what a secret would be called, and stores nothing.
#[test]
fn a_dry_run_stores_nothing() {
    let (session, cluster) = project(COMPOSE);
    session.write("conf/a.conf", "listen 80");
    session.write("key.txt", "hunter2");
    let did = session.run("apply --dry-run");
    assert_eq!(did.code, Some(0), "{}", did.err);
    let told = cluster.0.lock().unwrap();
    assert!(told.stored.is_empty());
    assert_eq!(told.secrets, [(Bytes::from("hunter2"), true)]);
    assert_eq!((told.applied[0].binds.len(), told.applied[0].secrets.len()), (1, 1));
}

/// R-IN-3, R-IN-4: every file that cannot be sent, at its place, in one run; nothing is sent.
#[test]
fn what_cannot_be_sent_has_a_place() {
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
    let did = session.run("apply");
    assert_eq!(did.code, Some(3), "{}", did.err);
    for place in ["compose.yaml:6:", "compose.yaml:8:", "compose.yaml:11:", "compose.yaml:12:"] {
        assert!(did.err.contains(place), "{place} is not in {}", did.err);
    }
    assert!(did.err.contains("SHOP_TOKEN_THAT_NOBODY_SET, which is not set"), "{}", did.err);
    assert!(did.err.contains("the manifest has 4 problems"), "{}", did.err);
    assert!(cluster.0.lock().unwrap().applied.is_empty());
}

/// R-IN-4: bounded; the refusal names the largest files and how to allow more.
#[test]
fn too_much_is_refused_by_name() {
    let (session, cluster) = project(COMPOSE);
    session.write("conf/large.bin", &"x".repeat(3 << 20));
    session.write("conf/small.conf", "x");
    session.write("key.txt", "hunter2");
    let did = session.run("apply --detach --max-files 2MB");
    assert_eq!(did.code, Some(3), "{}", did.err);
    assert!(did.err.contains("error[too_large]"), "{}", did.err);
    assert!(did.err.contains("large.bin: 3.0 MiB"), "{}", did.err);
    assert!(cluster.0.lock().unwrap().applied.is_empty());
    let did = session.run("apply --detach --max-files 4MB");
    assert_eq!(did.code, Some(0), "{}", did.err);
    assert_eq!(cluster.0.lock().unwrap().applied[0].max_file_bytes, 4 << 20);
}

/// R-IN-4: what means something else than on one host is told.
#[test]
fn what_differs_is_told() {
    let (session, cluster) = project(
        "\
name: shop
services:
  web: {image: 'web:2', volumes: ['./data:/data', './html:/html', './kept:/kept']}
",
    );
    session.write("html/index.html", "x");
    session.write("kept/.gitkeep", "");
    let did = session.run("apply --detach");
    assert_eq!(did.code, Some(0), "{}", did.err);
    for told in ["`data` is not here", "`html` can be written to", "`kept` has no files"] {
        assert!(did.err.contains(told), "{told} is not in {}", did.err);
    }
    let told = cluster.0.lock().unwrap();
    let names: Vec<_> = told.applied[0].binds.iter().map(|files| files.name.as_str()).collect();
    assert_eq!(names, ["html"]);
}
