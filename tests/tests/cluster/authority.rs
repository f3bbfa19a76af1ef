//! The authority of a running cluster is replaced: under writes, with nodes that are off, and with leaders that are killed.

use std::collections::BTreeMap;
use std::path::Path;

use jaco_pki::{
    CertificateStore, Credentials, Dialer, IdentityDir, JoinToken, NodeKey, TrustBundle, ca,
};
use jaco_testkit::{Client, Cluster, Engine, binary, eventually, succeeded, v1};
use jaco_types::{ErrorCode, NodeId, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::writers::Writers;

/// What a node has in a file of its identity.
fn file(cluster: &Cluster, node: usize, name: &str) -> String {
    let path = cluster.nodes[node].folder().join("data/node").join(name);
    std::fs::read_to_string(path).expect("a member has it")
}

pub(crate) fn trusted(cluster: &Cluster, node: usize) -> Vec<String> {
    let trust = TrustBundle::from_pem(&file(cluster, node, "ca.crt")).expect("authorities");
    trust.authorities().iter().map(|one| one.fingerprint().to_string()).collect()
}

/// The only authority that a node trusts, if that has signed its certificate.
fn only_authority(cluster: &Cluster, node: usize) -> Result<String, String> {
    let now = Timestamp(u64::try_from(now_ms()).expect("after the epoch"));
    let folder = cluster.nodes[node].folder().join("data/node");
    let identity = IdentityDir::open(folder).map_err(|error| error.to_string())?;
    let loaded = identity.load(now).map_err(|error| error.to_string())?;
    let credentials = loaded.ok_or("it has no identity")?;
    match credentials.trust().authorities() {
        [only] => Ok(only.fingerprint().to_string()),
        several => Err(format!("{several:?}")),
    }
}

fn now_ms() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after the epoch").as_millis()
}

async fn rotation(client: &Client) -> Result<v1::RotationInfo, String> {
    let answer = client.get_authority(v1::GetAuthorityRequest {}).await;
    answer.map_err(|error| error.to_string())?.rotation.ok_or_else(|| "none".to_owned())
}

/// Waits until a node knows of this phase, and that it waits for nobody.
pub(crate) async fn reached(cluster: &Cluster, node: usize, phase: &str) -> v1::RotationInfo {
    eventually(&format!("{phase} is reached"), || async {
        let now = rotation(&cluster.nodes[node].client()).await?;
        let is_there = now.phase == phase && now.holders.is_empty();
        if is_there { Ok(now) } else { Err(format!("{now:?}")) }
    })
    .await
}

/// Waits until a phase waits for these nodes, and for nobody else.
pub(crate) async fn held_by(cluster: &Cluster, node: usize, phase: &str, holder: &str) {
    eventually(&format!("{phase} waits for {holder}"), || async {
        let now = rotation(&cluster.nodes[node].client()).await?;
        let is_so = now.phase == phase && now.holders == [holder];
        if is_so { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

pub(crate) fn rotate(cluster: &Cluster, node: usize, options: &[&str]) -> serde_json::Value {
    // Nothing was stolen.
    let options = if options.is_empty() { &["--with-present-kek"] } else { options };
    let line: Vec<&str> =
        ["cluster", "rotate-ca", "-o", "json"].into_iter().chain(options.iter().copied()).collect();
    serde_json::from_str(&succeeded(&cluster.cli(node, &line))).expect("json")
}

/// Continues as soon as all trust both authorities, also through a change of the leader.
async fn go_on(cluster: &Cluster) {
    eventually("the rotation goes on", || async {
        let request = v1::RotateAuthorityRequest {
            action: "continue".to_owned(),
            revoke_join_tokens: true,
            ..Default::default()
        };
        let answer = cluster.client().rotate_authority(request).await;
        answer.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

async fn term(cluster: &Cluster, node: usize) -> (u64, String) {
    let status = cluster.nodes[node].client().status(v1::ClusterStatusRequest {}).await;
    let status = status.expect("it answers");
    (status.term, status.leader)
}

/// Writes labels of a node by the command line over TLS, each time with a new connection and what the context trusts by
/// then.
fn by_commands(writers: &mut Writers, home: &Path) {
    let home = home.to_owned();
    writers.add("commands", move |number| {
        let home = home.clone();
        async move {
            let output = jaco(&home, &format!("node label n1 cli={number}")).await;
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        }
    });
}

async fn jaco(home: &Path, line: &str) -> std::process::Output {
    let mut command = Command::new(binary("jaco"));
    command.env_clear().env("HOME", home).current_dir(home).args(line.split_whitespace());
    command.output().await.expect("jaco can be started")
}

/// A context of this home with a token, over TLS through all nodes.
async fn context(cluster: &Cluster, home: &Path) {
    let request = v1::IssueOperatorTokenRequest { name: "ops".to_owned(), ..Default::default() };
    let token = cluster.client().issue_operator_token(request).await.expect("issued").token;
    std::fs::write(home.join("token"), token).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(home.join("token"), mode).expect("changed");
    std::fs::write(home.join("ca"), file(cluster, 0, "ca.crt")).expect("written");
    let servers: Vec<&str> = cluster.nodes.iter().map(|node| node.address.as_str()).collect();
    let servers = servers.join(",");
    let line = format!("context set c --servers {servers} --ca ca --token token");
    succeeded(&jaco(home, &line).await);
}

/// How a client begins a connection over HTTP/2 (RFC 9113, 3.4): the preface, and settings, none of which differs.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// What a member's key and certificate are accepted for, whoever has them.
struct Stolen {
    key: String,
    certificate: String,
    node: NodeId,
}

impl Stolen {
    fn from(cluster: &Cluster, node: usize, id: u64) -> Self {
        let (key, certificate) = (file(cluster, node, "node.key"), file(cluster, node, "node.crt"));
        Self { key, certificate, node: NodeId(id) }
    }

    /// Whether a node lets them in: it answers how a connection over HTTP/2 begins.
    async fn is_let_in(&self, address: &str, trust: &TrustBundle) -> bool {
        let key = NodeKey::from_pem(&self.key).expect("a key");
        let certificate = ca::certificate_from_pem(&self.certificate).expect("a certificate");
        let now = Timestamp(u64::try_from(now_ms()).expect("after the epoch"));
        let credentials = Credentials::new(key, certificate, trust.clone(), now).expect("they fit");
        let store = CertificateStore::new(credentials).expect("a store");
        let target = self.node;
        let mut connection =
            Dialer::peer(store, target).connect(address).await.expect("the node is believed");
        // A node says nothing before its caller does.
        if connection.write_all(HTTP2_PREFACE).await.is_err() {
            return false;
        }
        matches!(connection.read(&mut [0; 64]).await, Ok(1..))
    }
}

async fn ids(cluster: &Cluster) -> BTreeMap<String, u64> {
    let status = cluster.client().status(v1::ClusterStatusRequest {}).await.expect("it answers");
    status.nodes.into_iter().map(|node| (node.hostname, node.id)).collect()
}

/// R-CLI-6: all of it under a constant stream of writes, over sockets and by commands with a context. None fails, the leader
/// leads on in its term, and at the end the old authority vouches for nobody.
#[tokio::test(flavor = "multi_thread")]
async fn an_authority_is_rotated_under_writes() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let before = term(&cluster, leader).await;
    let old = trusted(&cluster, 0);
    let home = tempfile::tempdir().expect("temporary files can be made");
    context(&cluster, home.path()).await;
    let kept = home.path().join(".config/jaco/contexts/c/ca.crt");
    let in_context = || {
        let pem = std::fs::read_to_string(&kept).expect("a copy");
        let trust = TrustBundle::from_pem(&pem).expect("authorities");
        trust.authorities().iter().map(|one| one.fingerprint().to_string()).collect::<Vec<_>>()
    };
    let asked = (leader + 1) % 3;
    let ids = ids(&cluster).await;
    let stolen = Stolen::from(&cluster, asked, ids[&cluster.nodes[asked].name]);

    let mut writers = Writers::new();
    for (number, node) in cluster.nodes.iter().enumerate() {
        writers.labels(node, format!("w{number}"));
    }
    by_commands(&mut writers, home.path());
    writers.more().await;
    let begun = rotate(&cluster, asked, &[]);
    assert_eq!(begun["rotation"]["phase"], "trusting", "{begun:#}");
    let new = begun["rotation"]["new"].as_str().expect("a fingerprint").to_owned();
    assert_eq!(begun["rotation"]["old"], old[0].as_str());
    let trusting = reached(&cluster, asked, "trusting").await;
    assert!(trusting.members.iter().all(|member| member.step == "trusts"), "{trusting:?}");
    for node in 0..3 {
        assert_eq!(trusted(&cluster, node), [old[0].clone(), new.clone()]);
    }
    writers.more().await;
    eventually("the context has learned of the new one", || async {
        let known = in_context();
        if known.contains(&new) && known.len() == 2 { Ok(()) } else { Err(format!("{known:?}")) }
    })
    .await;
    let both = TrustBundle::from_pem(&file(&cluster, asked, "ca.crt")).expect("two");
    let address = &cluster.nodes[asked].address;
    assert!(stolen.is_let_in(address, &both).await, "the old one still vouches");
    let shown = rotate(&cluster, asked, &["--status"]);
    assert_eq!(shown["rotation"]["waits_for"], serde_json::json!([]), "{shown:#}");
    // Uses are recorded once in an hour, so that one that is used all the time may be listed as well.
    let unseen = shown["unseen"].as_array().expect("a list");
    assert!(unseen.contains(&"bootstrap".into()), "{shown:#}");

    let renewing = rotate(&cluster, asked, &["--continue", "--revoke-join-tokens"]);
    assert_eq!(renewing["rotation"]["phase"], "renewing", "{renewing:#}");
    reached(&cluster, asked, "settled").await;
    writers.more().await;
    eventually("the context has forgotten the old one", || async {
        let known = in_context();
        if known == [new.clone()] { Ok(()) } else { Err(format!("{known:?}")) }
    })
    .await;
    let (done, failures) = writers.stop().await;
    assert!(failures.is_empty(), "{} of {done} writes failed: {failures:#?}", failures.len());
    assert_eq!(term(&cluster, leader).await, before, "the leader led on");
    for node in 0..3 {
        assert_eq!(only_authority(&cluster, node), Ok(new.clone()));
    }
    assert!(!stolen.is_let_in(address, &both).await, "the old one vouches for nobody");
    let joining: JoinToken = cluster.join_token().await.parse().expect("a join token");
    assert_eq!(joining.authority.to_string(), new, "a join token names the new one");
}

/// R-CLI-6: a node that is off holds each phase and is named, by the refusal as well; once it is back, it is believed, and
/// the rotation goes on. One that joins in between takes part.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_off_holds_the_rotation() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let off = (leader + 1) % 3;
    let name = cluster.nodes[off].name.clone();
    cluster.nodes[off].kill();
    let begun = rotate(&cluster, leader, &[]);
    let new = begun["rotation"]["new"].as_str().expect("a fingerprint").to_owned();
    held_by(&cluster, leader, "trusting", &name).await;
    let request = || v1::RotateAuthorityRequest {
        action: "continue".to_owned(),
        revoke_join_tokens: true,
        ..Default::default()
    };
    let refused = cluster.nodes[leader].client().rotate_authority(request()).await;
    let refused = refused.expect_err("one node is missing");
    assert_eq!(refused.code(), ErrorCode::RotationHeld);
    assert!(refused.to_string().contains(&name), "{refused}");
    cluster.nodes[off].start();
    reached(&cluster, leader, "trusting").await;
    cluster.settled().await;

    cluster.nodes[off].kill();
    rotate(&cluster, leader, &["--continue", "--revoke-join-tokens"]);
    held_by(&cluster, leader, "renewing", &name).await;
    let abandon = v1::RotateAuthorityRequest { action: "abandon".to_owned(), ..Default::default() };
    let refused = cluster.nodes[leader].client().rotate_authority(abandon).await;
    assert_eq!(refused.expect_err("the only way is forward").code(), ErrorCode::RotationHeld);
    cluster.add_daemon();
    let servers = cluster.nodes[leader].client();
    let joining =
        servers.issue_join_token(v1::IssueJoinTokenRequest { uses: 1, ..Default::default() });
    let joining = joining.await.expect("issued");
    assert!(!joining.servers.contains(&cluster.nodes[off].address), "it shows the old one");
    let client = cluster.nodes[3].client();
    eventually("the daemon answers", || client.status(v1::ClusterStatusRequest {})).await;
    let (server, token) = (cluster.nodes[leader].address.clone(), joining.token);
    client.join_cluster(v1::JoinClusterRequest { server, token }).await.expect("it joins");
    cluster.nodes[off].start();
    reached(&cluster, leader, "settled").await;
    for node in 0..4 {
        assert_eq!(only_authority(&cluster, node), Ok(new.clone()));
    }
    cluster.settled().await;
}

/// R-CLI-6: the leader is killed at the beginning of each phase. Each time the rotation goes on where it was, and no member is
/// left behind; afterwards it can be rotated again.
#[tokio::test(flavor = "multi_thread")]
async fn leaders_are_killed_in_each_phase() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let old = trusted(&cluster, 0);
    let first = cluster.leader().await;
    rotate(&cluster, first, &[]);
    cluster.nodes[first].kill();
    cluster.leader().await;
    cluster.nodes[first].start();
    cluster.settled().await;
    let second = cluster.leader().await;
    reached(&cluster, second, "trusting").await;
    go_on(&cluster).await;
    cluster.nodes[second].kill();
    cluster.leader().await;
    cluster.nodes[second].start();
    let third = cluster.leader().await;
    eventually("it is settled", || async {
        let now = rotation(&cluster.nodes[third].client()).await?;
        if now.phase == "settled" { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    cluster.nodes[third].kill();
    cluster.leader().await;
    cluster.nodes[third].start();
    let now = reached(&cluster, third, "settled").await;
    cluster.settled().await;
    for node in 0..3 {
        assert_eq!(only_authority(&cluster, node), Ok(now.new_fingerprint.clone()));
    }
    assert_ne!(now.new_fingerprint, old[0]);

    let again = rotate(&cluster, third, &[]);
    assert_eq!(again["rotation"]["old"], now.new_fingerprint.as_str());
    reached(&cluster, third, "trusting").await;
    rotate(&cluster, third, &["--abandon"]);
    let back = reached(&cluster, third, "abandoned").await;
    for node in 0..3 {
        eventually("the abandoned one is dropped", || async {
            let only = only_authority(&cluster, node)?;
            if only == back.old_fingerprint { Ok(()) } else { Err(only) }
        })
        .await;
    }
}
