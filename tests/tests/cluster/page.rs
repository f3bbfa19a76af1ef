//! The page of real daemons: signed in over TLS at a follower, through the loss of the leader, until the token is revoked.

use jaco_testkit::{Cluster, Engine, Node, eventually, v1};

use crate::curl::{Answer, Version, ask, token};
use crate::scenario::deploy;

/// Asks as a browser that has this cookie.
pub(crate) async fn see(cluster: &Cluster, node: &Node, path: &str, cookie: &str) -> Answer {
    let cookie = format!("cookie: {cookie}");
    ask(cluster, node, Version::Http2, path, &["--header", &cookie]).await
}

/// Signs in as a browser does, and returns the cookie.
pub(crate) async fn sign_in(cluster: &Cluster, node: &Node, token: &str) -> String {
    let port = node.address.rsplit_once(':').expect("ip:port").1;
    let origin = format!("origin: https://{}.internal:{port}", cluster.id);
    let form = format!("token={token}");
    let arguments = ["--header", &origin, "--data", &form];
    let answer = ask(cluster, node, Version::Http2, "/ui/login", &arguments).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    // The name of the session is in small letters, as is all of a head here; only the cookie's name is not.
    let cookie = answer.head.split("set-cookie: __host-jaco=").nth(1).expect("a cookie");
    format!("__Host-jaco={}", cookie.split(';').next().expect("its value"))
}

/// R-OPS-1: whoever is woken signs in at any node, sees what runs, and is told the truth while the leader is lost, and
/// while the quorum is; a session ends with its token on every node.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_tells_the_truth_through_failures() {
    let mut cluster = Cluster::start(3, Engine::Fake).await;
    deploy(&cluster, "shop", "web:1", 2).await;
    let leader = cluster.leader().await;
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let (secret, _) = token(&cluster, "ann", "viewer").await;
    // The follower may learn of the token a moment later.
    let cookie = eventually("the follower knows the token", || async {
        let arguments = ["--header", &format!("authorization: Bearer {secret}")];
        let asked =
            ask(&cluster, &cluster.nodes[follower], Version::Http1, "/ui", &arguments).await;
        if asked.status != 200 {
            return Err(format!("{asked:?}"));
        }
        Ok(sign_in(&cluster, &cluster.nodes[follower], &secret).await)
    })
    .await;

    let overview = see(&cluster, &cluster.nodes[follower], "/ui", &cookie).await;
    assert_eq!(overview.status, 200, "{overview:?}");
    assert!(overview.body.contains("/ui/deployments/shop"), "{}", overview.body);
    assert!(overview.body.contains("leader <b>"), "{}", overview.body);
    for path in ["/ui/deployments/shop", "/ui/why?deployment=shop&service=web", "/ui/audit"] {
        let page = see(&cluster, &cluster.nodes[follower], path, &cookie).await;
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.body.contains("shop"), "{}", page.body);
        assert!(!page.body.contains("Not known"), "{path}: {}", page.body);
    }
    // A session is of the node that it began at.
    let elsewhere = see(&cluster, &cluster.nodes[other], "/ui", &cookie).await;
    assert_eq!(elsewhere.status, 303, "{elsewhere:?}");

    let lost = cluster.nodes[leader].name.clone();
    cluster.nodes[leader].kill();
    let node = &cluster.nodes[follower];
    let down = format!("<a href=\"/ui/nodes/{lost}\">{lost}</a>: not ready: it sends no heartbeat");
    eventually("the page says that the leader is down", || async {
        let page = see(&cluster, node, "/ui", &cookie).await;
        match page.status == 200 && page.body.contains(&down) {
            true => Ok(()),
            false => Err(page.body),
        }
    })
    .await;
    let page = see(&cluster, node, "/ui", &cookie).await.body;
    assert!(page.contains("0 of 3 voters can be lost without losing the quorum"), "{page}");

    let other_name = cluster.nodes[other].name.clone();
    cluster.nodes[other].kill();
    let node = &cluster.nodes[follower];
    eventually("the page says that it is old", || async {
        let page = see(&cluster, node, "/ui/deployments/shop", &cookie).await;
        let is_said = page.body.contains("This page is old: what ");
        if page.status == 200 && is_said { Ok(()) } else { Err(page.body) }
    })
    .await;
    let overview = see(&cluster, node, "/ui", &cookie).await;
    assert!(!overview.body.contains("Nothing, as far as"), "{}", overview.body);
    assert!(overview.head.contains("jaco-stale-ms: "), "{}", overview.head);
    let lonely = see(&cluster, node, &format!("/ui/nodes/{other_name}"), &cookie).await;
    assert!(lonely.body.contains("Not known: </b>how much of it is used"), "{}", lonely.body);

    cluster.nodes[other].start();
    eventually("the page is current again", || async {
        let page = see(&cluster, &cluster.nodes[follower], "/ui", &cookie).await;
        let is_current = page.status == 200 && !page.body.contains("This page is old");
        if is_current { Ok(()) } else { Err(page.body) }
    })
    .await;
    let revoke = v1::RevokeTokenRequest { name: "ann".to_owned(), ..Default::default() };
    cluster.nodes[follower].client().revoke_token(revoke).await.expect("revoked");
    eventually("the session has ended", || async {
        let page = see(&cluster, &cluster.nodes[follower], "/ui", &cookie).await;
        match page.status {
            401 if page.body.contains("operator token ann: token was revoked") => Ok(()),
            status => Err(format!("{status}: {}", page.body)),
        }
    })
    .await;
    let again = see(&cluster, &cluster.nodes[follower], "/ui", &cookie).await;
    assert_eq!(again.status, 303, "{again:?}");
}
