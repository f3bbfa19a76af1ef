//! Access: certificates, tokens, the socket; refusals are audited.

use jaco_testkit::{Client, Cluster, Engine, Target, eventually, v1};
use jaco_types::ErrorCode;

async fn audited(cluster: &Cluster, code: &str) {
    eventually(&format!("{code} is audited"), || async {
        let mut events = cluster.client().events(v1::AuditRequest::default());
        while let Some(event) = events.next().await.map_err(|error| error.to_string())? {
            if event.payload.get("code").is_some_and(|found| found == code) {
                return Ok(());
            }
        }
        Err("not yet".to_owned())
    })
    .await;
}

/// A join token works for one node; used again it is refused with its own code, and audited.
#[tokio::test(flavor = "multi_thread")]
async fn join_token_cannot_be_reused() {
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    let token = cluster.join_token().await;
    let server = cluster.nodes[0].address.clone();
    for _ in 0..2 {
        cluster.add_daemon();
    }
    let join = |node: usize| {
        let client = cluster.nodes[node].client();
        let request = v1::JoinClusterRequest { server: server.clone(), token: token.clone() };
        async move {
            eventually("the daemon answers", || async {
                client.status(v1::ClusterStatusRequest {}).await.map(drop)
            })
            .await;
            client.join_cluster(request).await
        }
    };
    join(1).await.expect("the first use");
    let refused = join(2).await.expect_err("the second use");
    assert_eq!(refused.code(), ErrorCode::JoinTokenConsumed);
    audited(&cluster, "join_token_consumed").await;
}

/// A join token that was revoked, through any member, admits nobody: the refusal says why and is audited.
#[tokio::test(flavor = "multi_thread")]
async fn revoked_join_token_is_refused() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    let request = v1::IssueJoinTokenRequest { ttl_secs: 600, uses: 5 };
    let token = cluster.nodes[1].client().issue_join_token(request).await.expect("issued").token;
    let id: jaco_pki::JoinToken = token.parse().expect("a token");
    let revoke = v1::RevokeTokenRequest { name: id.id.to_string(), ..Default::default() };
    let revoked = cluster.nodes[2].client().revoke_token(revoke).await.expect("revoked");
    assert_eq!(revoked.role, "join");
    cluster.add_daemon();
    let joiner = cluster.nodes[3].client();
    eventually("the daemon answers", || async {
        joiner.status(v1::ClusterStatusRequest {}).await.map(drop)
    })
    .await;
    let request = v1::JoinClusterRequest { server: cluster.nodes[0].address.clone(), token };
    let refused = joiner.join_cluster(request).await.expect_err("a revoked token");
    assert_eq!(refused.code(), ErrorCode::TokenRevoked, "{refused}");
    assert!(refused.to_string().contains("was revoked"), "{refused}");
    audited(&cluster, "token_revoked").await;
    let listed = cluster.client().list_tokens(v1::ListTokensRequest {}).await.expect("listed");
    let listed = listed.tokens.iter().find(|listed| listed.id == id.id.as_str());
    assert!(listed.is_some_and(|token| token.revoked_at_ms > 0), "{listed:?}");
}

/// An operator token with an expiry stops working when it is over.
#[tokio::test(flavor = "multi_thread")]
async fn operator_tokens_expire() {
    let cluster = Cluster::start(1, Engine::Fake).await;
    let node = &cluster.nodes[0];
    let ca = std::fs::read_to_string(node.folder().join("data/node/ca.crt")).expect("a member's");
    let trust = jaco_pki::TrustBundle::from_pem(&ca).expect("a certificate");
    let request = v1::IssueOperatorTokenRequest {
        name: "brief".to_owned(),
        ttl_secs: 2,
        ..Default::default()
    };
    let issued = node.client().issue_operator_token(request).await.expect("issued");
    assert!(issued.expires_at_ms > 0);
    let token: jaco_pki::OperatorToken = issued.token.parse().expect("a token");
    let client =
        Client::new(Target::servers(std::slice::from_ref(&node.address), trust, token).unwrap());
    client.read_status(v1::StatusRequest::default()).await.expect("it works at first");
    eventually("the token has expired", || async {
        match client.read_status(v1::StatusRequest::default()).await {
            Ok(_) => Err("it still works".to_owned()),
            Err(refused) if refused.code() == ErrorCode::TokenExpired => Ok(()),
            Err(other) => panic!("{other}"),
        }
    })
    .await;
}

/// R-CLI-6: a token that is shown to a follower is listed with its last use on every node; further uses within the hour
/// write nothing.
#[tokio::test(flavor = "multi_thread")]
async fn t107_the_last_use_of_a_token_is_known_on_all_nodes() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let follower = (cluster.leader().await + 1) % 3;
    let node = &cluster.nodes[follower];
    let ca = std::fs::read_to_string(node.folder().join("data/node/ca.crt")).expect("a member's");
    let trust = jaco_pki::TrustBundle::from_pem(&ca).expect("a certificate");
    let request = v1::IssueOperatorTokenRequest { name: "ann".to_owned(), ..Default::default() };
    let issued = node.client().issue_operator_token(request).await.expect("issued");
    let token: jaco_pki::OperatorToken = issued.token.parse().expect("a token");
    let servers = std::slice::from_ref(&node.address);
    let client = Client::new(Target::servers(servers, trust, token).expect("a target"));
    client.read_status(v1::StatusRequest::default()).await.expect("it is accepted");
    for other in &cluster.nodes {
        eventually("its use is listed", || async {
            let listed = other.client().list_tokens(v1::ListTokensRequest {}).await;
            let listed = listed.map_err(|error| error.to_string())?.tokens;
            let used = listed.iter().any(|one| one.id == "ann" && one.last_used_at_ms > 0);
            if used { Ok(()) } else { Err(format!("{listed:?}")) }
        })
        .await;
    }
    let index = cluster.idle_index(follower).await;
    for _ in 0..20 {
        client.read_status(v1::StatusRequest::default()).await.expect("it is accepted");
    }
    // Uses are written 10 s after the last ones at the earliest.
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    assert_eq!(cluster.idle_index(follower).await, index, "a read is no write");
}

/// An invented token, or one of another cluster, is refused.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_join_token_is_refused() {
    let other = Cluster::start(1, Engine::Fake).await;
    let mut cluster = Cluster::start(1, Engine::Fake).await;
    let foreign = other.join_token().await;
    cluster.add_daemon();
    let client = cluster.nodes[1].client();
    eventually("the daemon answers", || async {
        client.status(v1::ClusterStatusRequest {}).await.map(drop)
    })
    .await;
    let server = cluster.nodes[0].address.clone();
    // The joiner refuses: the server's CA is not the one in the token.
    let request = v1::JoinClusterRequest { server: server.clone(), token: foreign };
    let refused = client.join_cluster(request).await.expect_err("a foreign token");
    assert_eq!(refused.code(), ErrorCode::Unavailable, "{refused}");
    let request = v1::JoinClusterRequest { server, token: "jt1.made.up".to_owned() };
    let refused = client.join_cluster(request).await.expect_err("a made-up token");
    assert_eq!(refused.code(), ErrorCode::JoinTokenInvalid, "{refused}");
}

/// Over TLS an operator token is needed; a revoked one stops working, and refusals are audited.
#[tokio::test(flavor = "multi_thread")]
async fn operators_need_a_token() {
    let mut cluster = Cluster::without_nodes(Engine::Fake);
    cluster.add_daemon();
    let socket = cluster.nodes[0].client();
    let init = eventually("the daemon answers", || async {
        socket.init(v1::InitRequest::default()).await
    })
    .await;
    let trust = jaco_pki::TrustBundle::from_pem(&init.ca_certificate_pem).unwrap();
    let servers = vec![cluster.nodes[0].address.clone()];
    let remote = |token: jaco_pki::OperatorToken| {
        Client::new(Target::servers(&servers, trust.clone(), token).unwrap())
    };
    let right = remote(init.operator_token.parse().unwrap());
    right.read_status(v1::StatusRequest::default()).await.expect("the first token works");

    let mut wrong = jaco_pki::OperatorToken::mint();
    let answer = remote(wrong.clone()).read_status(v1::StatusRequest::default()).await;
    assert_eq!(answer.unwrap_err().code(), ErrorCode::TokenInvalid);
    audited(&cluster, "token_invalid").await;
    wrong.id = jaco_types::TokenId::new("bootstrap").unwrap();
    let answer = remote(wrong).read_status(v1::StatusRequest::default()).await;
    assert_eq!(answer.unwrap_err().code(), ErrorCode::TokenInvalid, "the name alone is no key");

    let request = v1::RevokeTokenRequest { name: "bootstrap".to_owned(), ..Default::default() };
    socket.revoke_token(request).await.expect("revoked");
    let answer = right.read_status(v1::StatusRequest::default()).await;
    assert_eq!(answer.unwrap_err().code(), ErrorCode::TokenRevoked);
}

/// RPCs of peers are refused for operators and anonymous callers.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_listens_in_plaintext() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let cluster = Cluster::start(1, Engine::Fake).await;
    let mut plain = tokio::net::TcpStream::connect(&cluster.nodes[0].address).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // Refused by an alert and a close; never an HTTP/2 frame.
    let read = plain.read_to_end(&mut answer).await;
    assert!(read.is_err() || answer.len() < 16, "{answer:?}");
    audited(&cluster, "certificate_invalid").await;
}

/// A client of a node over TLS, with an operator token.
fn with_token(cluster: &Cluster, node: usize, token: &str) -> Client {
    let node = &cluster.nodes[node];
    let ca = std::fs::read_to_string(node.folder().join("data/node/ca.crt")).expect("a member's");
    let trust = jaco_pki::TrustBundle::from_pem(&ca).expect("a certificate");
    let token: jaco_pki::OperatorToken = token.parse().expect("a token");
    let servers = std::slice::from_ref(&node.address);
    Client::new(Target::servers(servers, trust, token).expect("a target"))
}

async fn issued(cluster: &Cluster, name: &str) -> String {
    let request = v1::IssueOperatorTokenRequest {
        name: name.to_owned(),
        role: "viewer".to_owned(),
        ..Default::default()
    };
    cluster.client().issue_operator_token(request).await.expect("issued").token
}

async fn rotated(cluster: &Cluster, name: &str, overlap_secs: u64) -> String {
    let request = v1::RotateOperatorTokenRequest { name: name.to_owned(), overlap_secs };
    cluster.client().rotate_operator_token(request).await.expect("rotated").token
}

async fn becomes_refused(client: &Client, code: ErrorCode) {
    eventually("it is refused", || async {
        match client.read_status(v1::StatusRequest::default()).await {
            Ok(_) => Err("it works".to_owned()),
            Err(refused) if refused.code() == code => Ok(()),
            Err(other) => panic!("{other}"),
        }
    })
    .await;
}

/// R-CLI-6: the secret of a token is replaced in a running cluster. On every node both count until the overlap is over, and then the
/// new one alone; the role and the name stay, and an event tells of it.
#[tokio::test(flavor = "multi_thread")]
async fn operator_tokens_are_rotated() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let former = issued(&cluster, "ci").await;
    let new = rotated(&cluster, "ci", 8).await;
    assert_ne!(former, new);
    let clients = |token: &str| [0, 1, 2].map(|node| with_token(&cluster, node, token));
    for client in clients(&new).iter().chain(&clients(&former)) {
        eventually("it works", || async {
            let asked = client.read_status(v1::StatusRequest::default()).await;
            asked.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }
    let listed = cluster.client().list_tokens(v1::ListTokensRequest {}).await.expect("listed");
    let listed = listed.tokens.iter().find(|token| token.id == "ci").expect("it is listed");
    assert!(listed.former_until_ms > 0 && listed.role == "viewer", "{listed:?}");
    for client in clients(&former) {
        becomes_refused(&client, ErrorCode::TokenInvalid).await;
    }
    let viewer = with_token(&cluster, 0, &new);
    let changes = viewer.set_labels(v1::SetLabelsRequest {
        hostname: "n1".to_owned(),
        set: [("zone".to_owned(), "a".to_owned())].into(),
        ..Default::default()
    });
    assert_eq!(changes.await.expect_err("a viewer").code(), ErrorCode::PermissionDenied);

    let newest = rotated(&cluster, "ci", 0).await;
    for client in clients(&new) {
        becomes_refused(&client, ErrorCode::TokenInvalid).await;
    }
    for client in clients(&newest) {
        client.read_status(v1::StatusRequest::default()).await.expect("it works");
    }
    let mut events = cluster.client().events(v1::AuditRequest::default());
    let mut rotations = 0;
    while let Some(event) = events.next().await.expect("events") {
        rotations += usize::from(event.kind == "token_rotate" && event.payload["token"] == "ci");
    }
    assert_eq!(rotations, 2);
}

/// R-CLI-6, R-IN-3: what goes on ends with its credential, on every node: a stream of a token that was revoked, rotated without an
/// overlap, or has expired, says so and ends; that of another one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn t108_streams_end_with_their_credential() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let follower = (cluster.leader().await + 1) % 3;
    let open = async |token: &str| {
        let client = with_token(&cluster, follower, token);
        let mut stream = eventually("a stream is open", || async {
            client.watch_status(v1::StatusRequest::default()).await.map_err(|e| e.to_string())
        })
        .await;
        stream.next().await.expect("a status").expect("a first one");
        stream
    };
    let mut kept = open(&issued(&cluster, "kept").await).await;
    let mut revoked = open(&issued(&cluster, "revoked").await).await;
    let mut rotated_away = open(&issued(&cluster, "rotated").await).await;
    let request = v1::IssueOperatorTokenRequest {
        name: "brief".to_owned(),
        ttl_secs: 5,
        ..Default::default()
    };
    let brief = cluster.client().issue_operator_token(request).await.expect("issued").token;
    let mut brief = open(&brief).await;

    let revoke = v1::RevokeTokenRequest { name: "revoked".to_owned(), ..Default::default() };
    cluster.client().revoke_token(revoke).await.expect("revoked");
    rotated(&cluster, "rotated", 0).await;
    for (stream, code) in [
        (&mut revoked, ErrorCode::TokenRevoked),
        (&mut rotated_away, ErrorCode::TokenInvalid),
        (&mut brief, ErrorCode::TokenExpired),
    ] {
        let ended = async {
            loop {
                match stream.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it ends without a word"),
                    Err(refused) => return refused.code(),
                }
            }
        };
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), ended).await;
        assert_eq!(ended.expect("the stream ends"), code);
    }
    let request = v1::SetLabelsRequest {
        hostname: "n1".to_owned(),
        set: [("zone".to_owned(), "a".to_owned())].into(),
        ..Default::default()
    };
    cluster.client().set_labels(request).await.expect("changed");
    let shows_it = async {
        loop {
            let status = kept.next().await.expect("it goes on").expect("it goes on");
            if status.nodes.iter().any(|node| node.labels.contains_key("zone")) {
                return;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), shows_it).await.expect("it goes on");
}

/// R-CLI-6: a message whose sender takes its time is waited for no longer than its credential counts, on any node.
#[tokio::test(flavor = "multi_thread")]
async fn uploads_end_with_their_credential() {
    let cluster = Cluster::start(3, Engine::Fake).await;
    let number = (cluster.leader().await + 1) % 3;
    let follower = &cluster.nodes[number];
    let token = issued(&cluster, "slow").await;
    let ca =
        std::fs::read_to_string(follower.folder().join("data/node/ca.crt")).expect("a member's");
    let trust = jaco_pki::TrustBundle::from_pem(&ca).expect("a certificate");
    eventually("the token is known", || async {
        let client = with_token(&cluster, number, &token);
        let asked = client.read_status(v1::StatusRequest::default()).await;
        asked.map(drop).map_err(|error| error.to_string())
    })
    .await;
    let dialer = jaco_pki::Dialer::operator(trust).expect("it can be dialled");
    let stream = dialer.connect(follower.address.clone()).await.expect("connected");
    let (sender, connection) = h2::client::handshake(stream).await.expect("http/2 is spoken");
    let connection = tokio::spawn(connection);
    let request = || {
        http::Request::builder()
            .method(http::Method::POST)
            .uri("https://member.internal/jaco.v1.Query/Overview")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("authorization", format!("Bearer {token}"))
            .body(())
            .expect("a valid request")
    };
    let mut sender = sender.ready().await.expect("it is open");
    let (answer, mut message) = sender.send_request(request(), false).expect("sent");
    message.send_data(vec![0, 0, 1, 0, 0].into(), false).expect("sent");
    // Whose answer is there once the first request was let in: they are looked at in their order.
    let mut sender = sender.ready().await.expect("it is open");
    let (second, mut whole) = sender.send_request(request(), false).expect("sent");
    whole.send_data(vec![0; 5].into(), true).expect("sent");
    assert!(second.await.expect("an answer").headers().get("grpc-status").is_none());
    let drips = async {
        let mut pace = tokio::time::interval(std::time::Duration::from_millis(100));
        // Fails once the other side has ended the stream.
        while message.send_data(vec![0].into(), false).is_ok() {
            pace.tick().await;
        }
    };
    let revoked = async {
        let revoke = v1::RevokeTokenRequest { name: "slow".to_owned(), ..Default::default() };
        cluster.client().revoke_token(revoke).await.expect("revoked");
        answer.await.expect("an answer")
    };
    let both = async { tokio::join!(drips, revoked).1 };
    let limit = std::time::Duration::from_secs(60);
    let answer = tokio::time::timeout(limit, both).await.expect("the upload ends");
    // 16 is UNAUTHENTICATED.
    assert_eq!(answer.headers()["grpc-status"], "16", "{answer:?}");
    assert!(format!("{:?}", answer.headers()["grpc-message"]).contains("revoked"), "{answer:?}");
    connection.abort();
}
