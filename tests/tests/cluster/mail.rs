//! R-OPS-1: events are told by mail: encrypted, again until the server has taken them, and under the same id whoever leads.

use std::process::Command;
use std::time::Duration;

use jaco_testkit::{Cluster, Engine, binary, eventually, eventually_within, said, succeeded, v1};
use serde_json::Value;

use crate::mail_server::{Encryption, MailServer, PASSWORD, Received};
use crate::notifications::{events, file, is_done, label, nothing_is_told, target};

/// A cluster whose nodes trust this server.
async fn trusting(size: usize, server: &MailServer) -> (Cluster, tempfile::NamedTempFile) {
    let authorities = file(&server.certificate.pem());
    let mut cluster = Cluster::start(size, Engine::Fake).await;
    for node in &mut cluster.nodes {
        node.stop();
    }
    for node in 0..size {
        start(&mut cluster, node, &authorities);
    }
    cluster.settled().await;
    (cluster, authorities)
}

fn start(cluster: &mut Cluster, node: usize, authorities: &tempfile::NamedTempFile) {
    let variable = format!("SSL_CERT_FILE={}", authorities.path().display());
    cluster.nodes[node].start_under(Command::new("env").arg(variable).arg(binary("jacod")));
}

/// Adds a target of mail for changes of labels.
fn add(cluster: &Cluster, node: usize, name: &str, url: &str, password: &str) -> String {
    let password = file(password);
    let password = password.path().to_str().expect("text");
    let line = ["notify", "add", name, "email", url, "--password-file", password];
    let people =
        ["--from", "jaco@example.com", "--to", "ann@example.com", "--to", "bob@example.com"];
    let all = [&line[..], &people, &["--type", "node_labels"]].concat();
    succeeded(&cluster.cli(node, &all))
}

async fn gets(server: &MailServer, count: usize) -> Vec<Received> {
    eventually_within(Duration::from_secs(60), &format!("{count} mails"), || async {
        let received = server.received();
        if received.len() >= count { Ok(received) } else { Err(received.len()) }
    })
    .await
}

/// R-OPS-1: mail is delivered in order and once, encrypted and signed in; a leader that dies while one is on its way takes
/// nothing along: the next one sends it, under the same id. What is secret is nowhere in clear text.
#[tokio::test(flavor = "multi_thread")]
async fn mail_outlives_the_leader() {
    let server = MailServer::start(Encryption::StartTls);
    let (mut cluster, authorities) = trusting(3, &server).await;
    let leader = cluster.leader().await;
    let other = (leader + 1) % 3;
    let added = add(&cluster, other, "mail", &server.url(), PASSWORD);
    let shown = format!("smtp://localhost:{} to ann@example.com, bob@example.com", server.port);
    assert_eq!(added, format!("notification target mail added: {shown} (node_labels)"));
    let tested = succeeded(&cluster.cli(other, &["notify", "test", "mail"]));
    assert!(tested.contains("accepted the test: 250 after "), "{tested}");
    let test = gets(&server, 1).await.remove(0);
    assert_eq!(test.user.as_deref(), Some("jaco"));
    assert_eq!(test.to, ["ann@example.com", "bob@example.com"]);
    assert!(test.header("Subject").ends_with(": test of the notification target mail"));

    for number in 1..=3 {
        label(&cluster, other, number).await;
    }
    let told = gets(&server, 4).await;
    is_done(&cluster, other, "mail").await;
    for (number, one) in (1..).zip(&told[1..]) {
        let expected = format!("node_labels labels=number={number} node=");
        assert!(one.data.contains(&expected), "{}", one.data);
        assert!(one.header("Subject").starts_with("[info] "), "{}", one.data);
    }
    let id = told[1].header("X-Jaco-Event-Id");
    assert_eq!(told[1].header("Message-ID"), format!("<{}@example.com>", id.replace('/', ".")));
    assert_eq!(server.received().len(), 4, "each was sent once");

    server.answers(".", "");
    label(&cluster, other, 4).await;
    let unanswered = gets(&server, 5).await.remove(4);
    cluster.nodes[leader].kill();
    server.works();
    let again = gets(&server, 6).await.split_off(5);
    assert!(again.iter().all(|one| one.data == unanswered.data), "{again:#?}");
    is_done(&cluster, other, "mail").await;
    let in_clear = server.in_clear();
    assert!(["AUTH", "MAIL", "RCPT", "node_labels"].iter().all(|word| !in_clear.contains(word)));
    start(&mut cluster, leader, &authorities);
    cluster.settled().await;
    nothing_is_told(&cluster, other).await;
}

/// R-OPS-1: a test says what is wrong with user, password, encryption and certificate; a recipient that the server refuses is
/// named in the list of what was given up, and from there the mail is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn refused_mail_says_why() {
    let server = MailServer::start(Encryption::Whole);
    let (cluster, _authorities) = trusting(1, &server).await;
    let failed = |name: &str| {
        let tested = cluster.cli(0, &["notify", "test", name]);
        assert!(!tested.status.success());
        said(&tested)
    };
    add(&cluster, 0, "wrong", &server.url(), "hunter3");
    let text = failed("wrong");
    assert!(text.contains("answered 535 to user and password"), "{text}");
    assert!(text.contains("check user and password"), "{text}");
    let plain = MailServer::start(Encryption::Nothing);
    add(&cluster, 0, "plain", &plain.url(), PASSWORD);
    let text = failed("plain");
    assert!(text.contains("the server offers no encryption (STARTTLS)"), "{text}");
    assert!(!plain.in_clear().contains("AUTH") && plain.received().is_empty());
    let stranger = MailServer::start(Encryption::StartTls);
    add(&cluster, 0, "stranger", &stranger.url(), PASSWORD);
    let text = failed("stranger");
    assert!(text.contains("cannot connect: ") && text.contains("certificate"), "{text}");
    for name in ["wrong", "plain", "stranger"] {
        succeeded(&cluster.cli(0, &["notify", "rm", name]));
    }

    add(&cluster, 0, "mail", &server.url(), PASSWORD);
    server.answers("RCPT", &format!("550 nobody of that name, {PASSWORD}"));
    label(&cluster, 0, 1).await;
    let lost = eventually_within(Duration::from_secs(60), "it is given up", || async {
        let request = v1::ListUndeliveredRequest { target: "mail".to_owned() };
        let listed = cluster.client().list_undelivered(request).await;
        let listed = listed.map_err(|error| error.to_string())?.notifications;
        listed.into_iter().next().ok_or_else(|| "none".to_owned())
    })
    .await;
    assert_eq!(lost.reason, "answered 550 to the recipient ann@example.com");
    assert_eq!((lost.attempts, server.received()), (5, vec![]));
    let shown = succeeded(&cluster.cli(0, &["notify", "failed", "-o", "json"]));
    let shown: Value = serde_json::from_str(&shown).expect("json");
    assert_eq!(shown[0]["reason"], lost.reason);
    server.works();
    succeeded(&cluster.cli(0, &["notify", "retry", "mail"]));
    let received = gets(&server, 1).await;
    assert!(received[0].data.contains("labels=number=1"), "{}", received[0].data);
    eventually("nothing is left", || async {
        let now = target(&cluster, 0, "mail").await?;
        if now.undelivered == 0 { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    let stored = events(&cluster, &["notify_stored"]).await;
    assert!(stored.iter().all(|event| event.payload["form"] == "email"));
    nothing_is_told(&cluster, 0).await;
}
