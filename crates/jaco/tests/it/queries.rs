//! Commands that read, and small writes.

use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use expect_test::expect;
use jaco_client::scripted::{Answer, Feed, Script};
use jaco_pki::{CertificateAuthority, TrustBundle};
use jaco_proto::v1;
use jaco_types::{ClusterId, Timestamp};

use crate::fixture::{Session, node, shop};

struct Shop;

impl Script for Shop {
    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let mut status = shop("updating", ["running", "pulling"]);
        status.replicas[0].ports = [(80, "127.0.0.1:32768".to_owned())].into();
        Ok(Feed::of(vec![status]))
    }

    fn watch(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        let drained = v1::StatusResponse {
            nodes: vec![node("n1", "active", 2), node("n2", "draining", 0)],
            replicas: Vec::new(),
            ..shop("active", ["running", "running"])
        };
        Ok(Feed::open(vec![shop("updating", ["running", "pulling"]), drained]))
    }

    fn logs(&self, request: v1::LogsRequest, _: Option<&str>) -> Answer<Feed<v1::LogLine>> {
        assert_eq!((request.deployment.as_str(), request.service.as_str()), ("shop", "web"));
        let line = v1::LogLine {
            replica: "shop-web-1".to_owned(),
            node: "n2".to_owned(),
            stream: "stdout".to_owned(),
            at_ms: 1_767_225_600_000,
            text: format!("replica={:?} tail={}\n", request.replica, request.tail),
        };
        Ok(Feed::of(vec![line]))
    }

    fn audit(&self, request: v1::AuditRequest, _: Option<&str>) -> Answer<Feed<v1::AuditEvent>> {
        assert_eq!(request.kinds, ["apply", "delete"]);
        let event = v1::AuditEvent {
            index: 7,
            kind: "apply".to_owned(),
            at_ms: 1_767_225_600_000,
            by: "local:0".to_owned(),
            payload: [
                ("deployment".to_owned(), "shop".to_owned()),
                ("why".to_owned(), String::new()),
            ]
            .into(),
            ..Default::default()
        };
        Ok(Feed::of(vec![event]))
    }

    fn whatif(&self, request: v1::WhatifRequest, _: Option<&str>) -> Answer<v1::WhatifResponse> {
        assert_eq!(request.drain, ["n2"]);
        Ok(v1::WhatifResponse { preview: Some(v1::Preview::default()) })
    }

    fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetAvailabilityResponse> {
        assert_eq!((request.hostname.as_str(), request.availability.as_str()), ("n2", "draining"));
        Ok(v1::SetAvailabilityResponse {})
    }

    fn set_labels(
        &self,
        request: v1::SetLabelsRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetLabelsResponse> {
        assert_eq!((request.hostname.as_str(), &*request.unset), ("n2", &["rack".to_owned()][..]));
        let effects = vec!["shop/agent is global and stops on n2".to_owned()];
        Ok(v1::SetLabelsResponse { labels: request.set, effects })
    }

    fn set_constraints(
        &self,
        request: v1::SetConstraintsRequest,
        _: Option<&str>,
    ) -> Answer<v1::SetConstraintsResponse> {
        assert!(!request.request_id.is_empty());
        let warnings = vec!["constraint tags=x is ignored".to_owned()];
        Ok(v1::SetConstraintsResponse { pairs: request.pairs, warnings })
    }

    fn get_constraints(
        &self,
        _: v1::GetConstraintsRequest,
        _: Option<&str>,
    ) -> Answer<v1::GetConstraintsResponse> {
        Ok(v1::GetConstraintsResponse::default())
    }

    fn remove_node(
        &self,
        request: v1::RemoveNodeRequest,
        _: Option<&str>,
    ) -> Answer<v1::RemoveNodeResponse> {
        assert!(!request.force);
        Ok(v1::RemoveNodeResponse {})
    }

    fn issue_join_token(
        &self,
        request: v1::IssueJoinTokenRequest,
        _: Option<&str>,
    ) -> Answer<v1::IssueJoinTokenResponse> {
        assert_eq!((request.ttl_secs, request.uses), (900, 2));
        Ok(v1::IssueJoinTokenResponse {
            token: "jt1.x".to_owned(),
            servers: vec!["10.0.0.1:7000".to_owned()],
            expires_at_ms: 0,
        })
    }

    fn issue_operator_token(
        &self,
        request: v1::IssueOperatorTokenRequest,
        _: Option<&str>,
    ) -> Answer<v1::IssueOperatorTokenResponse> {
        let wanted = (request.name.as_str(), request.role.as_str(), request.ttl_secs);
        let deployments: Vec<&str> = request.deployments.iter().map(String::as_str).collect();
        match (wanted, &deployments[..]) {
            (("ann", "admin", 7_776_000), []) | (("ci", "deployer", 0), ["shop", "blog"]) => {}
            other => panic!("{other:?}"),
        }
        let expires_at_ms = 1_900_000_000_000;
        Ok(v1::IssueOperatorTokenResponse { token: "jo1.x".to_owned(), expires_at_ms })
    }

    fn issue_operator_certificate(
        &self,
        request: v1::IssueOperatorCertificateRequest,
        _: Option<&str>,
    ) -> Answer<v1::IssueOperatorCertificateResponse> {
        let wanted = (request.name.as_str(), request.role.as_str(), request.ttl_secs);
        assert_eq!(wanted, ("ann", "operator", 7_776_000));
        let csr = jaco_pki::NodeCsr::from_der(&request.csr_der).expect("what `token request` made");
        assert_eq!(csr.key_fingerprint().to_string().len(), 64);
        Ok(v1::IssueOperatorCertificateResponse {
            certificate_pem: "PEM\n".to_owned(),
            certificate_expires_at_ms: 1_900_000_000_000,
            expires_at_ms: 1_900_000_000_000,
        })
    }

    fn revoke_token(
        &self,
        request: v1::RevokeTokenRequest,
        _: Option<&str>,
    ) -> Answer<v1::RevokeTokenResponse> {
        assert_eq!(request.name, "4kq2m7xw3hza");
        Ok(v1::RevokeTokenResponse { role: "join".to_owned() })
    }

    fn list_tokens(
        &self,
        _: v1::ListTokensRequest,
        _: Option<&str>,
    ) -> Answer<v1::ListTokensResponse> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let now = i64::try_from(now.as_millis()).expect("before the year 292 million");
        // The middle of an hour and of a day, so that the columns are the same however long the test takes.
        let (used, far) = (now - 3_500 * 3_600, now + 3_500 * 86_400);
        let token = |id: &str, role: &str| v1::TokenInfo {
            id: id.to_owned(),
            role: role.to_owned(),
            issued_by: "uid 0".to_owned(),
            uses_left: 2,
            ..Default::default()
        };
        let tokens = vec![
            v1::TokenInfo { last_used_at_ms: used, ..token("bootstrap", "admin") },
            v1::TokenInfo {
                expires_at_ms: 1,
                deployments: vec!["blog".to_owned(), "shop".to_owned()],
                ..token("bob", "deployer")
            },
            v1::TokenInfo { kind: "certificate".to_owned(), ..token("cleo", "viewer") },
            v1::TokenInfo { expires_at_ms: far, revoked_at_ms: 1, ..token("4kq2m7xw3hza", "join") },
        ];
        Ok(v1::ListTokensResponse { tokens })
    }
}

/// R-SEL-1: labels are set and removed; an invalid one is not sent.
#[test]
fn node_labels_are_set_and_removed() {
    let session = Session::with(Shop);
    let run = session.run("node label n2 zone=a disk=ssd rack-");
    assert_eq!((run.code, run.out.as_str()), (Some(0), "n2: disk=ssd zone=a\n"), "{}", run.err);
    assert_eq!(run.err, "shop/agent is global and stops on n2\n");
    for wrong in ["node label n2", "node label n2 zone", "node label n2 -", "node label n2 a=1 a=2"]
    {
        assert_eq!(session.run(wrong).code, Some(2), "{wrong}");
    }
}

/// R-CONS-1, R-CONS-5: pairs are one argument or several, warnings are printed, and an invalid pair is
/// not sent.
#[test]
fn default_constraints_are_set_listed_and_removed() {
    let session = Session::with(Shop);
    let run = session.run("constraints set cpu=2 ram=3G zone=");
    assert_eq!((run.code, run.out.as_str()), (Some(0), "cpu=2\nram=3G\nzone=\n"), "{}", run.err);
    assert!(run.err.contains("warning: constraint tags=x is ignored"), "{}", run.err);
    let run = session.run("constraints get");
    assert_eq!((run.code, run.out.as_str()), (Some(0), "none\n"), "{}", run.err);
    let run = session.run("constraints rm zone");
    assert_eq!((run.code, run.out.as_str()), (Some(0), "zone=\n"), "{}", run.err);
    for wrong in ["set", "set cpu", "set =2", "set cpu=1 cpu=2", "rm", "rm cpu=2"] {
        assert_eq!(session.run(&format!("constraints {wrong}")).code, Some(2), "{wrong}");
    }
}

/// R-CLI-4
#[test]
fn status_lists_deployments_services_replicas_and_nodes() {
    let run = Session::with(Shop).run("status");
    expect![[r"
        DEPLOYMENT  REVISION  STATUS    REPLICAS  UPDATED
        shop        2         updating  1/2       -

        SERVICE   IMAGE  PLACEMENT  RUNNING  NOTES
        shop/web  web:2  spread     1/2      -

        REPLICA     STATE    NODE  REVISION  SINCE  REASON
        shop-web-0  running  n1    2         -      -
        shop-web-1  pulling  n2    2         -      -

        NODE  STATUS  AVAILABILITY  RAFT   REPLICAS  ADDRESS  NOTES
        n1    ready   active        voter  1         n1:7000  -
        n2    ready   draining      voter  1         n2:7000  -
    "]]
    .assert_eq(&run.out);
    assert_eq!((run.code, run.err.as_str()), (Some(0), ""));
}

/// R-CLI-6: the JSON of replicas.
#[test]
fn replicas_are_a_json_list() {
    let run = Session::with(Shop).run("get replicas --service web -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let port = serde_json::json!({ "container": 80, "host": 32768, "address": "127.0.0.1:32768" });
    assert_eq!(json[0]["ports"], serde_json::json!([port]));
    assert_eq!((&json[1]["id"], &json[1]["node"]), (&"shop-web-1".into(), &"n2".into()));
    assert_eq!(json.as_array().unwrap().len(), 2);
}

#[test]
fn unknown_names_are_refused() {
    let session = Session::with(Shop);
    let check = |line: &str, error: &str| {
        let run = session.run(line);
        assert_eq!(run.code, Some(3), "{run:?}");
        assert!(run.err.starts_with(error), "{run:?}");
    };
    check("status shpo", "error[deployment_not_found]: there is no deployment shpo\n");
    check("status shop/wbe", "error[service_not_found]: shop has no service wbe\n");
    check("get replica x", "error[replica_not_found]: there is no replica x\n");
    check("get node x", "error[node_not_found]: there is no node x\n");
    check("logs x", "error[replica_not_found]: there is no deployment or replica x\n");
}

/// R-CLI-4: on a pipe one line per change; with JSON one object per line.
#[tokio::test]
async fn watch_prints_changes_on_a_pipe() {
    let session = Session::with(Shop);
    let lines = follow(&session, "status -w", 10).await;
    let lines: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    let expected = [
        "deployment shop: revision 2, updating",
        "service shop/web: 1/2 running",
        "replica shop-web-0: running on n1",
        "replica shop-web-1: pulling on n2",
        "node n1: ready, active, voter",
        "node n2: ready, draining, voter",
        "deployment shop: revision 2, active",
        "service shop/web: 2/2 running",
        "replica shop-web-0: removed",
        "replica shop-web-1: removed",
    ];
    assert_eq!(lines, expected);
    let lines = follow(&session, "status -w -o json", 2).await;
    for line in lines {
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(json["deployments"][0]["name"], "shop");
    }
}

/// The first lines of a command that does not end.
async fn follow(session: &Session, line: &str, count: usize) -> Vec<String> {
    use tokio::io::AsyncBufReadExt;
    let mut child = tokio::process::Command::from(session.command(line))
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut seen = Vec::new();
    while seen.len() < count {
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), lines.next_line());
        seen.push(next.await.expect("it goes on").unwrap().expect("it has not ended"));
    }
    child.kill().await.unwrap();
    seen
}

#[test]
fn log_lines_have_their_replica_and_node() {
    let session = Session::with(Shop);
    let run = session.run("logs shop-web-1 --tail 3");
    assert_eq!(run.out, "[shop-web-1@n2] replica=\"shop-web-1\" tail=3\n");
    let run = session.run("logs shop/web");
    assert_eq!(run.out, "[shop-web-1@n2] replica=\"\" tail=0\n");
}

/// R-CLI-6: `--previous` shows what the last ended instance printed at its end, and nothing of a replica that
/// never ended.
#[test]
fn previous_logs_are_those_of_the_last_termination() {
    struct Restarted;
    impl Script for Restarted {
        fn overview(
            &self,
            _: v1::StatusRequest,
            _: Option<&str>,
        ) -> Answer<Feed<v1::StatusResponse>> {
            let mut status = shop("active", ["running", "running"]);
            let ended = |node: &str, output: &str| v1::TerminationInfo {
                node: node.to_owned(),
                details: [("output".to_owned(), output.to_owned())].into(),
                ..Default::default()
            };
            status.replicas[0].terminations =
                vec![ended("n3", "one\ntwo\nthree\n"), ended("n1", "older\n")];
            Ok(Feed::of(vec![status]))
        }
    }
    let session = Session::with(Restarted);
    let run = session.run("logs shop --previous");
    let expected = "[shop-web-0@n3] one\n[shop-web-0@n3] two\n[shop-web-0@n3] three\n";
    assert_eq!((run.code, run.out.as_str()), (Some(0), expected), "{}", run.err);
    let run = session.run("logs shop-web-0 --previous --tail 1");
    assert_eq!(run.out, "[shop-web-0@n3] three\n");
    let run = session.run("logs shop-web-1 --previous");
    assert_eq!((run.code, run.out.as_str()), (Some(0), ""));
}

/// Audit events are lines, or one JSON list.
#[test]
fn audit_events_are_lines_or_one_json_list() {
    let session = Session::with(Shop);
    let run = session.run("audit --type apply,delete");
    expect![[r#"
        2026-01-01T00:00:00Z      apply                 local:0             deployment=shop why=""
    "#]]
    .assert_eq(&run.out);
    let run = session.run("audit --type apply,delete -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json[0]["payload"]["deployment"], "shop");
}

/// A cluster whose newest entry is the fortieth.
struct Follower;

impl Script for Follower {
    fn overview(&self, _: v1::StatusRequest, _: Option<&str>) -> Answer<Feed<v1::StatusResponse>> {
        Ok(Feed::of(vec![shop("active", ["running", "running"])]))
    }

    fn audit(&self, request: v1::AuditRequest, _: Option<&str>) -> Answer<Feed<v1::AuditEvent>> {
        let after = (request.after_index, request.after_number);
        let event = v1::AuditEvent {
            index: 41,
            kind: format!("after {after:?} last {} since {}", request.last, request.since_ms > 0),
            ..Default::default()
        };
        Ok(Feed::open(vec![event]))
    }
}

/// R-CLI-5: what is followed begins now, unless the user says from when.
#[tokio::test]
async fn followed_events_begin_now() {
    let session = Session::with(Follower);
    let check = async |line: &str, expected: &str| {
        let lines = follow(&session, line, 1).await;
        assert!(lines[0].contains(expected), "{line}: {lines:?}");
    };
    check("audit -f", &format!("after (40, {}) last 0", u32::MAX)).await;
    check("audit -f --last 5", "after (0, 0) last 5").await;
    check("audit -f --since 1h", "after (0, 0) last 0 since true").await;
}

/// Keeps what was applied.
#[derive(Default)]
struct Store(std::sync::Mutex<v1::ApplyRequest>);

impl Script for Store {
    fn apply(&self, request: v1::ApplyRequest, _: Option<&str>) -> Answer<v1::ApplyResponse> {
        *self.0.lock().unwrap() = request;
        Ok(v1::ApplyResponse { deployment: "shop".to_owned(), revision: 1, ..Default::default() })
    }

    fn get_deployment(
        &self,
        request: v1::GetDeploymentRequest,
        _: Option<&str>,
    ) -> Answer<v1::GetDeploymentResponse> {
        let applied = self.0.lock().unwrap().clone();
        Ok(v1::GetDeploymentResponse {
            name: request.name,
            revision: 1,
            compose_json: applied.compose_json,
            overlay_yaml: applied.overlay_yaml,
            ..Default::default()
        })
    }
}

/// R-CLI-6: files that did not change since they were applied have no difference, wherever they are.
#[test]
fn unchanged_files_have_no_difference() {
    let session = Session::with(Store::default());
    session.write("site/index.html", "hello");
    session.write("app.conf", "x = 1");
    session.write(
        "compose.yaml",
        "name: shop\nservices:\n  web:\n    image: web:1\n    volumes: ['./site:/srv']\n    \
         configs: [app]\nconfigs:\n  app: {file: ./app.conf}\n",
    );
    let run = session.run("apply --dry-run compose.yaml");
    assert_eq!(run.code, Some(0), "{}", run.err);
    let run = session.run("diff -f compose.yaml");
    assert_eq!((run.code, run.out.as_str()), (Some(0), "shop: revision 1 and files are equal\n"));
    // A secret or a config may have another content.
    assert!(run.err.contains("secrets are not compared: jaco plan does that"), "{}", run.err);
    session.write("compose.yaml", "name: shop\nservices:\n  web:\n    image: web:2\n");
    let run = session.run("diff -f compose.yaml");
    assert!(run.out.contains("+ services.web.image: \"web:2\""), "{}", run.out);
}

/// R-CLI-4, R-CLI-10: after a rollback the JSON has the image and revision that serve; what is not known
/// of a stopping container is absent.
#[test]
fn status_shows_what_serves() {
    struct RolledBack;
    impl Script for RolledBack {
        fn overview(
            &self,
            _: v1::StatusRequest,
            _: Option<&str>,
        ) -> Answer<Feed<v1::StatusResponse>> {
            let mut status = shop("rolled_back", ["running", "stopping"]);
            let served = v1::ServedRevision {
                revision: 1,
                image: "web:1".to_owned(),
                replicas: 1,
                ..Default::default()
            };
            status.deployments[0].services[0].serving = vec![served];
            (status.replicas[1].revision, status.replicas[1].image) = (0, String::new());
            Ok(Feed::of(vec![status]))
        }
    }
    let session = Session::with(RolledBack);
    let run = session.run("status -o json");
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let service = &json["deployments"][0]["services"][0];
    let expected = serde_json::json!([{ "revision": 1, "image": "web:1", "replicas": 1 }]);
    assert_eq!((&service["serving"], &service["image"]), (&expected, &"web:2".into()));
    assert!(json["replicas"][1].get("revision").is_none(), "{json}");
}

/// A node is removed only after its replicas have moved.
#[test]
fn node_is_drained_before_it_is_removed() {
    let run = Session::with(Shop).run("node remove n2");
    expect![[r#"
        [time] n2: 1 replica left
        [time] shop-web-1 has not started to move
        [time] n2: 0 replicas left
    "#]]
    .assert_eq(&run.err.replace("[time]   ", "[time] "));
    assert_eq!((run.code, run.out.as_str()), (Some(0), "n2 removed\n"));
}

#[test]
fn join_token_is_printed_as_a_command() {
    let run = Session::with(Shop).run("token join --ttl 15m --uses 2");
    assert_eq!(run.out, "JACO_JOIN_TOKEN=jt1.x jaco cluster join 10.0.0.1:7000\n");
}

/// Operator tokens may expire; operator and join tokens are listed, and revoked by name or id.
#[test]
fn tokens_are_issued_listed_and_revoked() {
    let session = Session::with(Shop);
    assert_eq!(session.run("token issue ann --role admin --expires 90d").out, "jo1.x\n");
    let run = session.run("token create ci --role deployer --deployment shop,blog -o json");
    let issued: serde_json::Value = serde_json::from_str(&run.out).expect(&run.err);
    assert_eq!(issued["role"], "deployer");
    assert_eq!(issued["deployments"], serde_json::json!(["shop", "blog"]));
    for (wrong, why) in [
        ("token issue ann --role viewer --expires 0", "it would never expire"),
        ("token issue ann", "a token allows what its role does"),
        ("token issue ann --role root", "there is no such role"),
        ("token issue ann --role deployer", "a deployer is for some deployments"),
    ] {
        assert_eq!(session.run(wrong).code, Some(2), "{why}");
    }
    expect![[r#"
        TOKEN         KIND         ROLE      DEPLOYMENTS  ISSUED  BY     EXPIRES  LAST USED  STATE
        bootstrap     token        admin     -            -       uid 0  -        3h         active
        bob           token        deployer  blog,shop    -       uid 0  expired  -          expired
        cleo          certificate  viewer    -            -       uid 0  -        -          active
        4kq2m7xw3hza  token        join      -            -       uid 0  in 3d    -          revoked
    "#]]
    .assert_eq(&session.run("token ls").out);
    let run = session.run("token rm 4kq2m7xw3hza");
    assert_eq!(run.out, "join token 4kq2m7xw3hza revoked\n", "{}", run.err);
}

/// R-CLI-6: a key and its request are made without a cluster, never over existing files, and a certificate is issued for
/// what the request holds.
#[test]
fn certificates_are_issued_for_keys_that_stay() {
    let session = Session::with(Shop);
    let made = session.run("token request ann");
    assert_eq!(made.code, Some(0), "{}", made.err);
    let mode = |name: &str| {
        let path = session.folder.path().join(name);
        std::fs::metadata(path).expect("it was made").permissions().mode() & 0o777
    };
    assert_eq!((mode("ann.key"), mode("ann.csr")), (0o600, 0o644));
    assert_eq!(session.run("token request ann").code, Some(1), "a key is not replaced");
    assert_eq!(session.run("token request Ann").code, Some(2), "it cannot be issued");
    let issue = "token issue ann --role operator --expires 90d --csr ann.csr";
    assert_eq!(session.run(issue).out, "PEM\n");
    let issued = session.run(&format!("{issue} -o json"));
    let issued: serde_json::Value = serde_json::from_str(&issued.out).expect(&issued.err);
    assert_eq!(issued["certificate"], "PEM\n");
    assert_eq!(issued["expires_at"], issued["certificate_expires_at"]);
    let key = session.run("token issue ann --role operator --csr ann.key");
    assert_eq!(key.code, Some(3), "a key is no request: {}", key.err);
    assert!(key.err.contains("csr_invalid"), "{}", key.err);
    let none = session.run("token renew");
    assert_eq!(none.code, Some(2), "{}", none.err);
    assert!(none.err.contains("not used with a client certificate"), "{}", none.err);
    assert_eq!(session.run("token renew ann").code, Some(2), "without a request");
}

/// The certificate of a new CA.
pub(crate) fn certificate() -> String {
    let cluster = ClusterId::new(&"c1".repeat(16)).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = Timestamp(now.as_millis().try_into().unwrap());
    let authority = CertificateAuthority::create(&cluster, now).unwrap();
    TrustBundle::from(authority.certificate().clone()).to_pem()
}

/// R-CLI-7: 9 without a daemon, 2 for a wrong command line, 10 without a credential.
#[test]
fn exit_codes_distinguish_failures() {
    let session = Session::alone();
    let check = |line: &str, code| assert_eq!(session.run(line).code, Some(code), "{line}");
    check("status", 9);
    check("cluster join 10.0.0.1:7000", 2);
    check("statsu", 2);
    check("validate", 2);
    check("dev nodes", 2);
    check("help exit-codes", 0);
    check("help error no_leader", 0);
    check("help error nonsense", 2);
    session.write("ca.crt", "nonsense");
    check("--server 127.0.0.1:1 --ca-cert ca.crt status", 1);
    check("--server 127.0.0.1:1 status", 2);
    session.write("ca.crt", &certificate());
    check("--server 127.0.0.1:1 --ca-cert ca.crt status", 10);
    session.write("token", "not a token");
    let token = session.folder.path().join("token");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    check("--server 127.0.0.1:1 --ca-cert ca.crt --token-file token status", 10);
}

/// R-SEL-3: an empty name, as of a variable that is not set, is not that of all deployments.
#[test]
fn an_empty_name_collects_nothing() {
    let session = Session::with(Shop);
    let run = session.result(session.command("gc --yes").arg("").output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{}", run.err);
}

/// R-CLI-7: a command line that is refused is refused in the format that it asks for.
#[test]
fn a_refused_command_line_is_json_for_programs() {
    let run = Session::with(Shop).run("status --bad -o json");
    assert_eq!(run.code, Some(2));
    let json: serde_json::Value = serde_json::from_str(&run.out).expect(&run.out);
    assert_eq!(json["error"]["exit_code"], 2, "{json}");
    assert!(json["error"]["message"].as_str().unwrap().contains("--bad"), "{json}");
    assert!(run.err.contains("--bad"), "{}", run.err);
    let run = Session::with(Shop).run("status --bad");
    assert_eq!((run.code, run.out.as_str()), (Some(2), ""));
}
