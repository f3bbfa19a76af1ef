//! Client certificates in place of operator tokens: issued for a key that stays with its owner, limited, listed and revoked
//! as tokens are, on every node.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use jaco_pki::{NodeKey, OperatorCredentials, TrustBundle};
use jaco_testkit::{
    Client, Cluster, Credential, Engine, Target, binary, eventually, succeeded, v1,
};
use jaco_types::ErrorCode;
use tokio::process::Command;

use crate::authority::{held_by, reached, rotate};

/// Runs `jaco` with this home directory, in it.
async fn jaco(home: &Path, line: &str) -> Output {
    let mut command = Command::new(binary("jaco"));
    command.env_clear().env("HOME", home).current_dir(home).args(line.split_whitespace());
    command.output().await.expect("jaco can be started")
}

async fn done(home: &Path, line: &str) -> String {
    succeeded(&jaco(home, line).await)
}

/// The refusal of a command: its exit code and what it says.
async fn refused(home: &Path, line: &str) -> (Option<i32>, String) {
    let output = jaco(home, line).await;
    assert!(!output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stdout));
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

fn trust(cluster: &Cluster) -> TrustBundle {
    let ca = cluster.nodes[0].folder().join("data/node/ca.crt");
    TrustBundle::from_pem(&std::fs::read_to_string(ca).expect("a member has it")).expect("one")
}

/// Issues a certificate through a node, and returns a client of another one that shows it.
async fn issued(cluster: &Cluster, name: &str, role: &str, ttl_secs: u64) -> OperatorCredentials {
    let key = NodeKey::generate();
    let request = v1::IssueOperatorCertificateRequest {
        name: name.to_owned(),
        role: role.to_owned(),
        ttl_secs,
        csr_der: key.request().into(),
        ..Default::default()
    };
    let issued = cluster.client().issue_operator_certificate(request).await.expect("issued");
    OperatorCredentials::new(key, &issued.certificate_pem).expect("for this key")
}

fn client(cluster: &Cluster, node: usize, credentials: OperatorCredentials) -> Client {
    let servers = std::slice::from_ref(&cluster.nodes[node].address);
    let credential = Credential::Certificate(Box::new(credentials));
    Client::new(Target::servers_by(servers, trust(cluster), credential).expect("a target"))
}

/// Waits until a node has applied what was issued elsewhere.
async fn knows(cluster: &Cluster, node: usize, name: &str) {
    eventually("it is listed", || async {
        let listed = cluster.nodes[node].client().list_tokens(v1::ListTokensRequest {}).await;
        let listed = listed.map_err(|error| error.to_string())?.tokens;
        match listed.iter().find(|token| token.id == name) {
            Some(token) if token.kind == "certificate" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// R-CLI-6: from a key that never leaves its owner's machine to a context that works on a follower: with the role that
/// was issued, by name in lists and events, renewed in place.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_works_with_a_certificate_instead_of_a_token() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let follower = (cluster.leader().await + 1) % 3;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let home = folder.path();
    std::fs::copy(cluster.nodes[0].folder().join("data/node/ca.crt"), home.join("ca"))
        .expect("a member has it");
    done(home, "token request ann").await;
    let mode = |name: &str| {
        std::fs::metadata(home.join(name)).expect("it was made").permissions().mode() & 0o777
    };
    assert_eq!((mode("ann.key"), mode("ann.csr")), (0o600, 0o644));
    let (code, said) = refused(home, "token request ann").await;
    assert!(said.contains("ann.key"), "a key is never replaced: {code:?} {said}");

    let socket = cluster.nodes[follower].socket();
    let socket = socket.display();
    let issue = format!("--socket {socket} token issue ann --role operator --csr ann.csr");
    let certificate = done(home, &issue).await;
    std::fs::write(home.join("ann.crt"), &certificate).expect("written");
    knows(&cluster, follower, "ann").await;
    let server = &cluster.nodes[follower].address;
    let by_flags =
        format!("--server {server} --ca-cert ca --client-cert ann.crt --client-key ann.key");
    let widened = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(home.join("ann.key"), widened).expect("changed");
    let (code, said) = refused(home, &format!("{by_flags} status")).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("ann.key") && said.contains("chmod 600"), "{said}");
    std::fs::set_permissions(home.join("ann.key"), std::fs::Permissions::from_mode(0o600))
        .expect("changed");
    done(home, &format!("{by_flags} status")).await;
    let set =
        format!("context set c --servers {server} --ca ca --certificate ann.crt --key ann.key");
    done(home, &set).await;
    for file in ["ca", "ann.crt", "ann.key"] {
        std::fs::remove_file(home.join(file)).expect("it is there");
    }

    done(home, "node cordon n1").await;
    let (code, said) = refused(home, "token ls").await;
    assert_eq!(code, Some(10), "tokens are an admin's: {said}");
    assert!(said.contains("operator:ann"), "{said}");
    let events = done(home, "audit --last 20 -o json").await;
    let events: serde_json::Value = serde_json::from_str(&events).expect("json");
    let events = events.as_array().expect("a list");
    let cordon = events.iter().find(|event| event["by"] == "operator:ann");
    let cordon = cordon.unwrap_or_else(|| panic!("{events:#?}"));
    assert!(cordon.to_string().contains("\"by_role\":\"operator\""), "{cordon:#}");

    let listed = done(home, &format!("--socket {socket} token ls")).await;
    let row = listed.lines().find(|line| line.starts_with("ann ")).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..3], ["ann", "certificate", "operator"], "{listed}");

    let kept = home.join(".config/jaco/contexts/c/client.crt");
    let before = std::fs::read_to_string(&kept).expect("a copy");
    assert_eq!(before.trim(), certificate.trim());
    done(home, "token renew").await;
    let after = std::fs::read_to_string(&kept).expect("a copy");
    assert_ne!(after, before, "another one, for the same key");
    done(home, "status").await;
    let of_ann = format!("--socket {socket} token renew ann --csr ann.csr");
    let renewed = done(home, &of_ann).await;
    assert!(renewed.starts_with("-----BEGIN CERTIFICATE-----"), "{renewed}");
    done(home, "token request bob").await;
    let (_, said) =
        refused(home, &format!("--socket {socket} token renew ann --csr bob.csr")).await;
    assert!(said.contains("another key"), "{said}");
    let (_, said) = refused(home, "token renew bob --csr bob.csr").await;
    assert!(said.contains("role admin"), "another one's is an admin's: {said}");
}

/// R-CLI-6: a certificate that was revoked is refused at the next request, on connections that were open as well, whichever
/// node is asked; it is not renewed any more, and its name cannot be given again.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_certificate_is_refused_on_open_connections() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let credentials = issued(&cluster, "ann", "operator", 0).await;
    let (key, pem) = (
        credentials.key().to_pem(),
        jaco_pki::ca::certificate_pem(credentials.certificate().der()),
    );
    let copy = || {
        let key = NodeKey::from_pem(&key).expect("the same key");
        OperatorCredentials::new(key, &pem).expect("the same certificate")
    };
    let mut clients = Vec::new();
    for node in 0..3 {
        knows(&cluster, node, "ann").await;
        let client = client(&cluster, node, copy());
        client.read_status(v1::StatusRequest::default()).await.expect("it is accepted");
        clients.push(client);
    }
    let revoke = v1::RevokeTokenRequest { name: "ann".to_owned(), ..Default::default() };
    cluster.client().revoke_token(revoke).await.expect("revoked");
    for (node, client) in clients.iter().enumerate() {
        // A write is refused by the leader, if not by the node that is asked.
        let cordon = v1::SetAvailabilityRequest {
            hostname: "n1".to_owned(),
            availability: "cordoned".to_owned(),
            ..Default::default()
        };
        let refused = client.set_availability(cordon).await.expect_err("revoked");
        assert_eq!(refused.code(), ErrorCode::TokenRevoked, "{refused}");
        eventually("the node has applied it", || async {
            match client.read_status(v1::StatusRequest::default()).await {
                Ok(_) => Err(format!("node {node} still answers")),
                Err(refused) if refused.code() == ErrorCode::TokenRevoked => Ok(()),
                Err(other) => panic!("{other}"),
            }
        })
        .await;
        let own = v1::RenewOperatorCertificateRequest {
            csr_der: copy().key().request().into(),
            ..Default::default()
        };
        let refused = client.renew_operator_certificate(own).await.expect_err("revoked");
        assert_eq!(refused.code(), ErrorCode::TokenRevoked, "{refused}");
    }
    let again = v1::RenewOperatorCertificateRequest {
        name: "ann".to_owned(),
        csr_der: copy().key().request().into(),
    };
    let refused = cluster.client().renew_operator_certificate(again).await.expect_err("revoked");
    assert_eq!(refused.code(), ErrorCode::TokenRevoked, "not even for an admin: {refused}");
}

/// R-CLI-6: the role is the one that was issued, through a follower and after a change of the leader.
#[tokio::test(flavor = "multi_thread")]
async fn roles_of_certificates_outlive_the_leader() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let viewer = issued(&cluster, "board", "viewer", 0).await;
    let operator = issued(&cluster, "ann", "operator", 0).await;
    for name in ["board", "ann"] {
        knows(&cluster, follower, name).await;
    }
    let viewer = client(&cluster, follower, viewer);
    let operator = client(&cluster, follower, operator);
    let cordon = |availability: &str| v1::SetAvailabilityRequest {
        hostname: "n1".to_owned(),
        availability: availability.to_owned(),
        ..Default::default()
    };
    let check = async |when: &str| {
        eventually(when, || async { operator.set_availability(cordon("cordoned")).await }).await;
        viewer.read_status(v1::StatusRequest::default()).await.expect("it reads");
        let refused = viewer.set_availability(cordon("active")).await.expect_err("no viewer's");
        assert_eq!(refused.code(), ErrorCode::PermissionDenied, "{when}: {refused}");
    };
    check("with the first leader").await;
    cluster.nodes[leader].kill();
    check("with another leader").await;
}

/// R-CLI-6: a certificate that has expired is not accepted, not on an open connection either; `jaco` says so before it asks.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_expire() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let home = folder.path();
    let credentials = issued(&cluster, "brief", "operator", 3).await;
    let end = credentials.certificate().validity().not_after;
    std::fs::copy(cluster.nodes[0].folder().join("data/node/ca.crt"), home.join("ca"))
        .expect("a member has it");
    let pem = jaco_pki::ca::certificate_pem(credentials.certificate().der());
    std::fs::write(home.join("brief.crt"), pem).expect("written");
    std::fs::write(home.join("brief.key"), &*credentials.key().to_pem()).expect("written");
    std::fs::set_permissions(home.join("brief.key"), std::fs::Permissions::from_mode(0o600))
        .expect("changed");
    let client = client(&cluster, 0, credentials);
    client.read_status(v1::StatusRequest::default()).await.expect("it works at first");
    eventually("the certificate has expired", || async {
        match client.read_status(v1::StatusRequest::default()).await {
            Ok(_) => Err("it still works".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after");
    assert!(now.as_millis() >= u128::from(end.0), "not before its time");
    let server = &cluster.nodes[0].address;
    let line = format!(
        "--server {server} --ca-cert ca --client-cert brief.crt --client-key brief.key status"
    );
    let (code, said) = refused(home, &line).await;
    assert_eq!(code, Some(10), "{said}");
    assert!(said.contains("brief.crt") && said.contains("has expired"), "{said}");
    assert!(said.contains("jaco token renew brief --csr"), "{said}");
}

async fn has_access(client: &Client) -> Result<(), String> {
    let asked = client.status(v1::ClusterStatusRequest {}).await;
    asked.map(drop).map_err(|error| error.to_string())
}

/// R-CLI-6: while the authority is rotated, users renew their certificates by themselves, before the old one is dropped, and
/// are told when it is time and when it is too early. Who has not is refused at the end, on an open connection as well, and an
/// admin renews.
#[tokio::test(flavor = "multi_thread")]
async fn users_renew_before_an_old_authority_is_dropped() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let off = (leader + 1) % 3;
    let folder = tempfile::tempdir().expect("temporary files can be made");
    let home = folder.path();
    std::fs::copy(cluster.nodes[0].folder().join("data/node/ca.crt"), home.join("ca"))
        .expect("a member has it");
    let socket = cluster.nodes[leader].socket();
    let socket = format!("--socket {}", socket.display());
    for name in ["ann", "bob"] {
        done(home, &format!("token request {name}")).await;
        let issue = format!("{socket} token issue {name} --role operator --csr {name}.csr");
        let certificate = done(home, &issue).await;
        std::fs::write(home.join(format!("{name}.crt")), certificate).expect("written");
        let server = &cluster.nodes[leader].address;
        done(
            home,
            &format!(
                "context set {name} --servers {server} --ca ca --certificate {name}.crt --key {name}.key"
            ),
        )
        .await;
    }
    let carl = client(&cluster, leader, issued(&cluster, "carl", "viewer", 0).await);
    has_access(&carl).await.expect("it is let in");
    let kept = |name: &str| home.join(format!(".config/jaco/contexts/{name}"));

    cluster.nodes[off].kill();
    rotate(&cluster, leader, &[]);
    held_by(&cluster, leader, "trusting", &cluster.nodes[off].name).await;
    let told = jaco(home, "--context ann status").await;
    let told = String::from_utf8(told.stderr).expect("text");
    assert!(told.contains("jaco token renew"), "{told}");
    let early = jaco(home, "--context ann token renew").await;
    let said = String::from_utf8(early.stderr).expect("text");
    assert!(early.status.success() && said.contains("Renew again"), "{said}");
    std::fs::copy(kept("ann").join("client.crt"), home.join("early.crt")).expect("a copy");
    cluster.nodes[off].start();
    reached(&cluster, leader, "trusting").await;

    let renewed = jaco(home, "--context ann token renew").await;
    let said = String::from_utf8(renewed.stderr).expect("text");
    assert!(renewed.status.success() && !said.contains("Renew again"), "{said}");
    has_access(&carl).await.expect("the old one still counts");
    done(home, "--context bob status").await;

    rotate(&cluster, leader, &["--continue", "--revoke-join-tokens"]);
    reached(&cluster, leader, "settled").await;
    done(home, "--context ann status").await;
    done(home, "--context ann node cordon n1").await;
    let (_, said) = refused(home, "--context bob status").await;
    assert!(said.contains("certificate"), "{said}");
    std::fs::copy(kept("ann").join("ca.crt"), home.join("ca")).expect("a copy");
    let server = &cluster.nodes[leader].address;
    let early =
        format!("--server {server} --ca-cert ca --client-cert early.crt --client-key ann.key");
    let (_, said) = refused(home, &format!("{early} status")).await;
    assert!(said.contains("certificate"), "{said}");
    has_access(&carl).await.expect_err("an open connection has ended");
    let renewed = done(home, &format!("{socket} token renew bob --csr bob.csr")).await;
    std::fs::write(kept("bob").join("client.crt"), renewed).expect("written");
    done(home, "--context bob status").await;
}

/// R-CLI-6: a node that cannot know what was revoked, or which authority signs by now, renews nothing, and says why.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_quorum_renews_no_certificate() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let key = NodeKey::generate();
    let request = v1::IssueOperatorCertificateRequest {
        name: "ann".to_owned(),
        role: "viewer".to_owned(),
        csr_der: key.request().into(),
        ..Default::default()
    };
    cluster.client().issue_operator_certificate(request).await.expect("issued");
    knows(&cluster, 2, "ann").await;
    let renewal = v1::RenewOperatorCertificateRequest {
        name: "ann".to_owned(),
        csr_der: key.request().into(),
    };
    let left = cluster.nodes[2].client();
    left.renew_operator_certificate(renewal.clone()).await.expect("with a quorum");
    for node in [0, 1] {
        cluster.nodes[node].kill();
    }
    let refused = left.renew_operator_certificate(renewal).await.expect_err("without one");
    assert!([ErrorCode::QuorumLost, ErrorCode::NoLeader].contains(&refused.code()), "{refused}");
}
