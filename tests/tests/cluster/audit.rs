//! The audit log: every event once, whoever leads, and none altered.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jaco_testkit::{
    Client, Cluster, Engine, Target, eventually, eventually_within, fresh_request_id, stays, v1,
};
use jaco_types::{ErrorCode, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::scenario::deploy;

/// Position of an event.
type Place = (u64, u32);

async fn all(client: Client) -> Result<Vec<v1::AuditEvent>, String> {
    let mut events = client.events(v1::AuditRequest::default());
    let mut all = Vec::new();
    while let Some(event) = events.next().await.map_err(|error| error.to_string())? {
        all.push(event);
    }
    Ok(all)
}

fn places(events: &[v1::AuditEvent]) -> Vec<Place> {
    events.iter().map(|event| (event.index, event.number)).collect()
}

async fn label(cluster: &Cluster, value: &str) {
    let request = v1::SetLabelsRequest {
        hostname: "n1".to_owned(),
        set: [("round".to_owned(), value.to_owned())].into(),
        request_id: fresh_request_id(),
        ..Default::default()
    };
    cluster.client().set_labels(request).await.expect("the cluster agrees");
}

/// Trust bundle of the cluster.
fn trust(cluster: &Cluster) -> jaco_pki::TrustBundle {
    let authority = cluster.nodes[0].folder().join("data/node/ca.crt");
    let authority = std::fs::read_to_string(authority).expect("a member has its authority's");
    jaco_pki::TrustBundle::from_pem(&authority).expect("a certificate")
}

/// A client with the addresses of all nodes.
pub(crate) async fn remote(cluster: &Cluster) -> Client {
    let (client, trust) = (cluster.client(), trust(cluster));
    let request =
        v1::IssueOperatorTokenRequest { name: "follower".to_owned(), ..Default::default() };
    let issued = client.issue_operator_token(request).await.expect("a token is issued");
    let servers: Vec<_> = cluster.nodes.iter().map(|node| node.address.clone()).collect();
    let target = Target::servers(&servers, trust, issued.token.parse().expect("a token"));
    Client::new(target.expect("the addresses are addresses"))
}

/// R-CLI-5: a follower of the events sees every one once and in order, across crashes of nodes and
/// leaders.
#[tokio::test(flavor = "multi_thread")]
async fn followed_events_are_complete_and_unique() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let (sender, mut followed) = mpsc::unbounded_channel();
    let request = v1::AuditRequest { follow: true, ..Default::default() };
    let mut events = remote(&cluster).await.events(request);
    let following = tokio::spawn(async move {
        while let Some(event) = events.next().await.expect("some node answers") {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    for round in 0..3 {
        let leader = cluster.leader().await;
        for n in 0..5 {
            label(&cluster, &format!("{round}-{n}")).await;
        }
        cluster.nodes[leader].kill();
        label(&cluster, &format!("{round}-without")).await;
        cluster.nodes[leader].start();
        cluster.settled().await;
    }
    label(&cluster, "last").await;
    let mut seen: Vec<v1::AuditEvent> = Vec::new();
    let is_last = |event: &v1::AuditEvent| {
        event.payload.get("labels").is_some_and(|labels| labels == "round=last")
    };
    while !seen.last().is_some_and(is_last) {
        let next = tokio::time::timeout(Duration::from_secs(30), followed.recv()).await;
        seen.push(next.expect("the events go on").expect("the follower goes on"));
    }
    following.abort();
    for node in &cluster.nodes {
        let stored = eventually("the node has the last event", || async {
            let stored = all(node.client()).await?;
            if stored.iter().any(is_last) { Ok(stored) } else { Err(format!("{}", stored.len())) }
        })
        .await;
        let until = stored.iter().position(is_last).expect("it was waited for");
        assert_eq!(places(&seen), places(&stored[..=until]), "{}", node.name);
    }
    let labels = seen.iter().filter(|event| event.kind == "node_labels").count();
    assert_eq!(labels, 3 * 6 + 1, "each change has its event");
}

/// R-CLI-5: the chain starts automatically, is valid on every node and equal on all, also after a
/// restart.
#[tokio::test(flavor = "multi_thread")]
async fn audit_chain_is_equal_on_all_nodes() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    label(&cluster, "a").await;
    eventually("the chain is begun", || async {
        let verified = cluster.client().verify_audit(v1::VerifyAuditRequest {}).await;
        verified.map_err(|error| error.to_string())
    })
    .await;
    cluster.nodes[1].kill();
    label(&cluster, "b").await;
    cluster.nodes[1].start();
    cluster.settled().await;
    eventually_within(Duration::from_secs(20), "all nodes have the same chain", || async {
        let mut heads = Vec::new();
        for node in &cluster.nodes {
            let verified = node.client().verify_audit(v1::VerifyAuditRequest {}).await;
            let verified = verified.map_err(|error| error.to_string())?;
            assert!(verified.complete, "nothing was evicted");
            heads.push((verified.events, verified.last_index, verified.head));
        }
        let same = heads.iter().all(|head| *head == heads[0]);
        if same { Ok(()) } else { Err(format!("{heads:?}")) }
    })
    .await;
    let begun = all(cluster.client()).await.expect("a node answers");
    let begun = begun.iter().filter(|event| event.kind == "audit_chain_begun").count();
    assert_eq!(begun, 1, "it is begun once");
    let out = cluster.cli(0, &["audit", "verify"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && said.contains("verified"), "{said}");
}

/// R-CLI-5: events without a command are audited too: refused callers and renewed certificates.
#[tokio::test(flavor = "multi_thread")]
async fn refused_callers_and_renewals_are_audited() {
    let cluster = Cluster::start(2, Engine::Fake).await;
    let trust = trust(&cluster);
    let servers = vec![cluster.nodes[0].address.clone()];
    let stranger = Target::servers(&servers, trust, jaco_pki::OperatorToken::mint());
    let stranger = Client::new(stranger.expect("the addresses are addresses"));
    stranger.read_status(v1::StatusRequest::default()).await.expect_err("nobody knows the token");

    let leader = &cluster.nodes[cluster.leader().await];
    let folder = leader.folder().join("data/node");
    let identity = jaco_pki::IdentityDir::open(folder).expect("a member has an identity");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock of this century");
    let now = Timestamp(u64::try_from(now.as_millis()).expect("likewise"));
    let credentials = identity.load(now).expect("it can be read").expect("it is a member's");
    let own = credentials.certificate().node();
    let store = jaco_pki::CertificateStore::new(credentials).expect("they are in force");
    let key = identity.key_in_use().expect("it has a key");
    let request = v1::RenewCertificateRequest { csr_der: key.request().into() };
    let mut peer = jaco_server::Peers::new(store).peer(own, &leader.address);
    peer.renew_certificate(request).await.expect("a member may renew its certificate");

    for kind in ["access_refused", "certificate_renewed"] {
        eventually(kind, || async {
            let told = all(cluster.client()).await?;
            let is_told = told.iter().any(|event| event.kind == kind);
            if is_told { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await;
    }
}

/// R-FAULT-3: a client that goes away by itself was not refused, as a health check or a browser with connections to spare; one that is
/// refused leaves its event.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_go_away_are_not_refused() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let address = &cluster.nodes[0].address;
    let begin = async |sent: &[u8]| {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(sent).await.expect("sent");
        stream.shutdown().await.expect("the end is sent");
        // The daemon is done with it once it closes its end, with an alert or without.
        let _answer = stream.read_to_end(&mut Vec::new()).await;
    };
    begin(b"").await;
    begin(b"\x16\x03\x01\x02\x00\x01").await;
    begin(b"GET / HTTP/1.0\r\n\r\n").await;
    let refusals = || async {
        let mut told = all(cluster.client()).await?;
        told.retain(|event| event.kind == "access_refused");
        Ok::<_, String>(
            told.iter().map(|event| event.payload["message"].clone()).collect::<Vec<_>>(),
        )
    };
    let told = eventually("the refused one is audited", || async {
        let told = refusals().await?;
        if told.is_empty() { Err("none".to_owned()) } else { Ok(told) }
    })
    .await;
    assert!(told.len() == 1 && told[0].contains("does not speak tls"), "{told:?}");
    // Refusals are written every five seconds.
    stays(Duration::from_secs(6), "no other", &told, refusals).await;
}

/// Events are filtered by time, kind, deployment and node.
#[tokio::test(flavor = "multi_thread")]
async fn events_are_filtered() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    for (name, image) in [("shop", "web:1"), ("shopping", "web:1"), ("shop", "web:2")] {
        deploy(&cluster, name, image, 1).await;
    }
    label(&cluster, "a").await;
    let asked = |request: v1::AuditRequest| async {
        let mut events = cluster.client().events(request);
        let mut kinds = Vec::new();
        while let Some(event) = events.next().await.expect("the node answers") {
            kinds.push(event.kind);
        }
        kinds
    };
    let of = |name: &str| v1::AuditRequest { deployment: name.to_owned(), ..Default::default() };
    let shop = asked(of("shop")).await;
    assert_eq!(shop.iter().filter(|kind| *kind == "apply").count(), 2, "{shop:?}");
    assert!(shop.iter().any(|kind| kind == "rollout_started"), "{shop:?}");
    let node = v1::AuditRequest { node: "n1".to_owned(), ..Default::default() };
    assert!(asked(node).await.contains(&"node_labels".to_owned()));
    let early = v1::AuditRequest { until_ms: 1, ..Default::default() };
    assert_eq!(asked(early).await, Vec::<String>::new());
    let wrong = v1::AuditRequest { kinds: vec!["nonsense".to_owned()], ..Default::default() };
    let refused = cluster.client().events(wrong).next().await.expect_err("no such kind");
    assert_eq!(refused.code(), ErrorCode::InvalidRequest);
}

/// R-CLI-5: evicted events are in the node's archive and connect to the kept ones; an altered byte
/// is detected; a reader that missed evicted events is told.
#[tokio::test(flavor = "multi_thread")]
async fn evicted_events_are_archived() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    eventually("an age is set", || async {
        let asked = v1::SetAuditRetentionRequest::default();
        let known = cluster.client().set_audit_retention(asked).await;
        match known.map_err(|error| error.to_string())? {
            known if known.age_ms == 90 * 86_400_000 => Ok(()),
            known => Err(format!("{known:?}")),
        }
    })
    .await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..32 {
        let client = cluster.client();
        writers.spawn(async move {
            for n in 0..335 {
                let request = v1::SetLabelsRequest {
                    hostname: "n1".to_owned(),
                    set: [("round".to_owned(), format!("{writer}-{n}"))].into(),
                    request_id: fresh_request_id(),
                    ..Default::default()
                };
                client.set_labels(request).await.expect("the cluster agrees");
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("no writer panics");
    }
    let folder = cluster.nodes[0].folder().join("data/audit");
    let folder = folder.to_str().expect("a path is text");
    let verify = || cluster.cli(0, &["audit", "verify", "--archive", folder]);
    let out = verify();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        out.status.success() && said.contains("verified and continued by the cluster"),
        "{said}"
    );
    let request = v1::AuditRequest { after_index: 3, ..Default::default() };
    let mut events = cluster.client().events(request);
    let first = events.next().await.expect("the node answers").expect("there are events");
    let second = events.next().await.expect("the node answers").expect("there are events");
    let gap = first.gap.expect("what is missing is told first");
    assert_eq!((gap.first_index, gap.first_number), (second.index, second.number));
    assert!(second.origin.starts_with("unix:"), "{second:?}");
    let file = std::fs::read_dir(folder).expect("it is there").next().expect("it has a file");
    let file = file.expect("it can be read").path();
    let mut bytes = std::fs::read(&file).expect("it can be read");
    bytes[1000] ^= 1;
    std::fs::write(&file, bytes).expect("it can be written");
    let out = verify();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.contains("audit_chain_broken") && said.contains("line "), "{said}");
}

/// R-CLI-5: an event has the address of its request, whoever leads.
#[tokio::test(flavor = "multi_thread")]
async fn event_has_the_source_address() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let leader = cluster.leader().await;
    let follower = (leader + 1) % 3;
    let mut origins = Vec::new();
    for (asked, value) in [(leader, "of the leader"), (follower, "of a follower")] {
        let request = v1::SetLabelsRequest {
            hostname: "n1".to_owned(),
            set: [("asked".to_owned(), value.to_owned())].into(),
            request_id: fresh_request_id(),
            ..Default::default()
        };
        cluster.nodes[asked].client().set_labels(request).await.expect("the cluster agrees");
        let events = all(cluster.nodes[leader].client()).await.expect("the leader answers");
        let event = events.into_iter().rfind(|event| event.kind == "node_labels");
        origins.push(event.expect("it is there").origin);
    }
    assert!(origins.iter().all(|origin| origin.starts_with("unix:")), "{origins:?}");
    assert_ne!(origins[0], origins[1], "each names the node that was asked");
    label(&cluster, "before").await;
    let client = remote(&cluster).await;
    let request = v1::IssueOperatorTokenRequest { name: "afar".to_owned(), ..Default::default() };
    client.issue_operator_token(request).await.expect("the cluster agrees");
    let events = all(cluster.nodes[leader].client()).await.expect("the leader answers");
    let event = events.into_iter().rfind(|event| event.kind == "token_issue");
    let event = event.expect("it is there");
    assert!(event.origin.starts_with("127.0.0.1:"), "{event:?}");
    let without = all(cluster.client()).await.expect("a node answers");
    let without = without.iter().filter(|event| event.origin.is_empty()).count();
    assert_eq!(without, 0, "every event says it");
}
