//! `jaco route` and `jaco certificate`: what is asked of the cluster and how its answers are shown.

use std::io::Write;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use expect_test::expect;
use jaco_client::scripted::{Answer, Feed, Script};
use jaco_proto::v1;
use jaco_types::route::PasswordHash;
use jaco_types::{ErrorCode, Rejection};
use serde_json::{Value, json};

use crate::fixture::{Run, Session};

/// A cluster with routes, which records the certificates that it is sent.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Vec<v1::StoreCertificateRequest>>>);

fn route(domain: &str, path: &str) -> v1::RouteInfo {
    v1::RouteInfo {
        domain: domain.to_owned(),
        path: path.to_owned(),
        deployment: "shop".to_owned(),
        service: "web".to_owned(),
        port: 8080,
        tls: "auto".to_owned(),
        endpoints: 2,
        wanted: 3,
        since_ms: 1_700_000_000_000,
        edges: 1,
        nodes: 2,
        ..v1::RouteInfo::default()
    }
}

fn certificate(name: &str) -> v1::CertificateInfo {
    v1::CertificateInfo {
        name: name.to_owned(),
        names: vec!["*.example.com".to_owned(), "example.com".to_owned()],
        not_before_ms: 1_690_000_000_000,
        not_after_ms: 1_710_000_000_000,
        fingerprint: vec![0xab; 32].into(),
        stored_at_ms: 1_700_000_000_000,
        by: "local:0".to_owned(),
        routes: vec!["*.example.com".to_owned()],
        source: "stored".to_owned(),
        ..v1::CertificateInfo::default()
    }
}

impl Script for Cluster {
    fn list_routes(
        &self,
        request: v1::ListRoutesRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListRoutesResponse> {
        let warning = "certificate own has expired".to_owned();
        let own = v1::RouteInfo {
            tls: "own".to_owned(),
            expires_at_ms: 1_710_000_000_000,
            warning,
            ..route("*.example.com", "/api")
        };
        let redirect = v1::RouteInfo {
            deployment: "blog".to_owned(),
            service: String::new(),
            port: 0,
            redirect: "https://example.com".to_owned(),
            tls: "off".to_owned(),
            ..route("www.example.com", "/")
        };
        let routes = [own, route("example.com", "/"), redirect];
        let is_meant = |route: &v1::RouteInfo| {
            request.deployment.is_empty() || request.deployment == route.deployment
        };
        let edge = |hostname: &str, problem: &str| v1::EdgeInfo {
            hostname: hostname.to_owned(),
            problem: problem.to_owned(),
        };
        let blocked = "listener tcp/80: another program listens there";
        let routes = routes.into_iter().filter(is_meant).collect();
        let edges = vec![edge("n1", ""), edge("n2", blocked)];
        // A node of an earlier version takes no notice of an index.
        let past = (request.at_index == 12).then(v1::PastInfo::default);
        Ok(v1::ListRoutesResponse { routes, edges, past })
    }

    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let node = |name: &str, edge: &str, reason: &str| v1::NodeInfo {
            edge: edge.to_owned(),
            edge_reason: reason.to_owned(),
            ..crate::fixture::node(name, "active", 1)
        };
        let nodes = vec![
            node("n1", "serves", ""),
            node("n2", "failing", "listener tcp/80: another program listens there"),
        ];
        Ok(Feed::of(vec![v1::StatusResponse { nodes, ..v1::StatusResponse::default() }]))
    }

    fn list_certificates(
        &self,
        _: v1::ListCertificatesRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListCertificatesResponse> {
        let ordered = v1::CertificateInfo {
            name: "shop.example.com".to_owned(),
            names: vec!["shop.example.com".to_owned()],
            routes: vec!["shop.example.com".to_owned()],
            source: "ordered".to_owned(),
            problem: "the authority refused: dns: no such name".to_owned(),
            next_try_ms: 1_700_000_060_000,
            ..v1::CertificateInfo::default()
        };
        Ok(v1::ListCertificatesResponse { certificates: vec![certificate("own"), ordered] })
    }

    fn store_certificate(
        &self,
        request: v1::StoreCertificateRequest,
        _: Option<&str>,
    ) -> Answer<v1::StoreCertificateResponse> {
        let certificate = Some(certificate(&request.name));
        self.0.lock().unwrap().push(request);
        let warnings = vec!["certificate own expires in 3 days".to_owned()];
        Ok(v1::StoreCertificateResponse { certificate, change: "created".to_owned(), warnings })
    }

    fn remove_certificate(
        &self,
        request: v1::RemoveCertificateRequest,
        _: Option<&str>,
    ) -> Answer<v1::RemoveCertificateResponse> {
        assert!(!request.request_id.is_empty());
        if request.name == "own" {
            let message = "certificate own is named by routes: *.example.com of shop";
            return Err(Rejection::new(ErrorCode::CertificateInUse, message));
        }
        Ok(v1::RemoveCertificateResponse {})
    }
}

fn session() -> (Session, Cluster) {
    let cluster = Cluster::default();
    (Session::with(cluster.clone()), cluster)
}

/// R-EDGE-2: routes are listed with what answers them and when their certificate expires; what is wrong with one is
/// said beside the list.
#[test]
fn routes_are_listed() {
    let (session, _) = session();
    let run = session.run("route ls");
    expect![[r#"
        DOMAIN           PATH  SERVICE                    TLS   EXPIRES  ENDPOINTS  EDGES
        *.example.com    /api  shop/web:8080              own   expired  2/3        1/2
        example.com      /     shop/web:8080              auto  -        2/3        1/2
        www.example.com  /     blog: https://example.com  off   -        -          1/2
    "#]]
    .assert_eq(&run.out);
    expect![[r#"
        warning: *.example.com/api: certificate own has expired
        warning: edge of n2: listener tcp/80: another program listens there
    "#]]
    .assert_eq(&run.err);
    let listed: Value = serde_json::from_str(&session.run("route list blog -o json").out).unwrap();
    let expected = json!([{
        "domain": "www.example.com",
        "path": "/",
        "deployment": "blog",
        "redirect": "https://example.com",
        "tls": "off",
        "edges": 1,
        "nodes": 2,
        "since": "2023-11-14T22:13:20Z",
    }]);
    assert_eq!(listed, expected);
    let listed: Value = serde_json::from_str(&session.run("route ls shop -o json").out).unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    assert_eq!(
        (&listed[0]["expires_at"], &listed[0]["endpoints"]),
        (&json!("2024-03-09T16:00:00Z"), &json!(2))
    );
    assert_eq!(session.run("route ls Shop!").code, Some(2));
}

/// R-EDGE-2: the list of nodes says whose edge does not do what it should, and why.
#[test]
fn nodes_tell_how_their_edges_are() {
    let (session, _) = session();
    expect![[r#"
        NODE  STATUS  AVAILABILITY  RAFT   EDGE     REPLICAS  ADDRESS  NOTES
        n1    ready   active        voter  serves   1         n1:7000  -
        n2    ready   active        voter  failing  1         n2:7000  edge: listener tcp/80: another program listens there
    "#]]
    .assert_eq(&session.run("node ls").out);
    let listed: Value = serde_json::from_str(&session.run("node ls -o json").out).unwrap();
    assert_eq!(listed[1]["edge"], "failing");
}

fn piped(session: &Session, line: &str, input: &[u8]) -> Run {
    let mut command = session.command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).ok();
    session.result(child.wait_with_output().unwrap())
}

/// R-EDGE-2: the hash of a password is printed as jaco.yaml takes it, and the password is not.
#[test]
fn a_password_is_hashed_for_a_route() {
    let (session, _) = session();
    let run = piped(&session, "route password ann --password-stdin", b"hunter2\n");
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
    let hash = run.out.trim_end().strip_prefix("ann: ").unwrap();
    let hash = PasswordHash::parse(hash).unwrap();
    assert!(jaco_pki::password::matches(&hash, b"hunter2"));
    assert!(!run.out.contains("hunter2"));
    let again = piped(&session, "route password ann --password-stdin -o json", b"hunter2");
    let again: Value = serde_json::from_str(&again.out).unwrap();
    assert_ne!(again["hash"], hash.to_text(), "each has a salt of its own");
    assert_eq!(again["user"], "ann");
    for line in ["route password a:b --password-stdin", "route password ann hunter2"] {
        assert_eq!(piped(&session, line, b"hunter2").code, Some(2), "{line}");
    }
    assert_eq!(piped(&session, "route password ann", b"hunter2").code, Some(2), "no terminal");
}

/// R-EDGE-2: a certificate is sent with its key, listed without it, and refused while it is in use.
#[test]
fn certificates_are_managed() {
    let (session, cluster) = session();
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, "CHAIN").unwrap();
    std::fs::write(&key, "KEY").unwrap();
    let files = format!("--cert {} --key {}", cert.display(), key.display());
    let run = session.run(&format!("certificate set own {files}"));
    assert_eq!(run.out, "certificate own created: for *.example.com, example.com\n", "{}", run.err);
    assert_eq!(run.err, "warning: certificate own expires in 3 days\n");
    {
        let sent = cluster.0.lock().unwrap();
        assert_eq!(
            (&*sent[0].name, &*sent[0].chain, &*sent[0].key),
            ("own", &b"CHAIN"[..], &b"KEY"[..])
        );
        assert!(!sent[0].request_id.is_empty());
    }
    let run = session.run(&format!("certificate set own {files} -o json"));
    let stored: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (&stored["change"], &stored["not_after"]),
        (&json!("created"), &json!("2024-03-09T16:00:00Z"))
    );
    let run = session.run("certificate ls");
    let row =
        |number| -> Vec<&str> { run.out.lines().nth(number).unwrap().split_whitespace().collect() };
    let own = ["own", "*.example.com,", "example.com", "stored", "expired", "-", "1"];
    assert_eq!(row(1)[..7], own, "{}", run.out);
    let ordered = ["shop.example.com", "shop.example.com", "ordered", "-", "-", "1", "-", "-"];
    assert_eq!(row(2), ordered, "{}", run.out);
    assert_eq!(run.err, "warning: shop.example.com: the authority refused: dns: no such name\n");
    let listed: Value = serde_json::from_str(&session.run("certificate ls -o json").out).unwrap();
    assert_eq!(listed[0]["fingerprint"], "ab".repeat(32));
    assert!(listed[0].get("key").is_none());
    assert_eq!(listed[1]["next_try"], "2023-11-14T22:14:20Z");
    let refused = session.run("certificate rm own");
    assert_eq!(refused.code, Some(3));
    assert!(refused.err.contains("*.example.com of shop"), "{}", refused.err);
    assert_eq!(session.run("certificate rm old").out, "certificate old removed\n");
    for line in ["set auto", "set a/b", "rm off"] {
        let more = if line.starts_with("set") { files.as_str() } else { "" };
        let run = session.run(&format!("certificate {line} {more}"));
        assert_eq!(run.code, Some(2), "{line}: {}", run.err);
    }
    let absent = session.run("certificate set own --cert /nowhere/cert.pem --key /nowhere/key.pem");
    assert!(absent.err.contains("cannot read /nowhere/cert.pem"), "{}", absent.err);
}

/// R-CLI-8, R-OPS-1: routes of an earlier moment are asked for by its index, and those of now are not taken for them.
#[test]
fn routes_of_an_earlier_moment_are_those_of_then() {
    let session = Session::with(Cluster::default());
    let run = session.run("route ls --at 12");
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(run.out.contains("example.com"), "{}", run.out);
    let run = session.run("route ls --at 13");
    assert_eq!((run.code, run.out.as_str()), (Some(3), ""), "{}", run.err);
    assert!(run.err.contains("shows the routes of now only"), "{}", run.err);
    assert_eq!(session.run("route ls --at 0").code, Some(2));
}
