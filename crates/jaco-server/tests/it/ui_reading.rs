//! Pages that look back and closer: earlier moments, differences, log lines, links between nodes.

use jaco_proto::v1;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_types::Role;
use tonic::codegen::http::StatusCode;

use crate::served::Served;
use crate::ui::{get, sign_in, token, with_deployment};

async fn apply(served: &Served, model: &str) -> u64 {
    let request = v1::ApplyRequest { compose_json: model.to_owned(), ..Default::default() };
    DeployClient::new(served.local.clone()).apply(request).await.unwrap();
    served.node.store.read(|state| state.index.0)
}

/// R-OPS-1: the pages show the cluster at the index of an event, say so, and lead to the moments beside it and back to now.
#[tokio::test(flavor = "multi_thread")]
async fn pages_show_an_earlier_moment() {
    let served = with_deployment().await;
    let first = served.node.store.read(|state| state.index.0);
    let second = apply(&served, r#"{"name":"blog","services":{"web":{"image":"web:1"}}}"#).await;
    let third = apply(&served, r#"{"name":"shop","services":{"web":{"image":"web:2"}}}"#).await;

    let page = get(&served.local, &format!("/ui?at={first}"), "").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let said = format!("▲ This is the cluster as it was at index {first}");
    assert!(page.text.contains(&said), "{}", page.text);
    assert!(page.text.contains(&format!("/ui/deployments/shop?at={first}")), "{}", page.text);
    assert!(!page.text.contains("/ui/deployments/blog?"), "{}", page.text);
    assert!(page.text.contains(&format!("<a href=\"/ui?at={second}\">Event after</a>")));
    assert!(page.text.contains("Event before</a>"));
    assert!(page.text.contains("<a href=\"/ui\">Back to now</a>"));
    assert!(!page.text.contains("data-live"), "it does not change");
    let later = get(&served.local, &format!("/ui?at={second}"), "").await;
    assert!(later.text.contains("/ui/deployments/blog?at="), "{}", later.text);
    assert!(later.text.contains(&format!("<a href=\"/ui?at={third}\">Event after</a>")));

    let node = get(&served.local, &format!("/ui/nodes/n1?at={second}"), "").await;
    assert_eq!(node.status, StatusCode::OK, "{}", node.text);
    assert!(node.text.contains(&format!("Node n1 at index {second}")), "{}", node.text);
    assert!(node.text.contains("<a href=\"/ui/nodes/n1\">Back to now</a>"), "{}", node.text);
    let missing = get(&served.local, &format!("/ui/nodes/n9?at={second}"), "").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND, "{}", missing.text);
    assert!(missing.text.contains(&format!("there was no node n9 at index {second}")));

    let path = |index| format!("/ui/deployments/shop?at={index}");
    let then = get(&served.local, &path(first), "").await;
    let (old, new) = ("<td>web:1</td>", "<td>web:2</td>");
    assert!(then.text.contains(old) && !then.text.contains(new), "{}", then.text);
    let now = get(&served.local, &path(third), "").await;
    assert!(now.text.contains(new) && !now.text.contains(old), "{}", now.text);
    assert!(now.text.contains("What happened around it"), "{}", now.text);

    let audit = get(&served.local, "/ui/audit", "").await;
    assert!(audit.text.contains(&format!("href=\"/ui?at={second}\"")), "{}", audit.text);
    let audit = get(&served.local, "/ui/audit?deployment=shop", "").await;
    assert!(audit.text.contains(&path(third)), "{}", audit.text);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: a moment that cannot be shown is refused with those that can, and what is no index is told.
#[tokio::test(flavor = "multi_thread")]
async fn moments_that_are_not_kept_are_refused() {
    let served = with_deployment().await;
    for path in ["/ui?at=100000", "/ui/deployments/shop?at=100000"] {
        let page = get(&served.local, path, "").await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}: {}", page.text);
        assert!(page.text.contains("index_not_kept"), "{path}: {}", page.text);
        assert!(page.text.contains("from index 1 to"), "{path}: {}", page.text);
    }
    for wrong in ["x", "0", "-1", "1.5"] {
        let page = get(&served.local, &format!("/ui?at={wrong}"), "").await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{wrong}: {}", page.text);
        assert!(page.text.contains("it is an index of the log"), "{wrong}: {}", page.text);
    }
    let gone = get(&served.local, "/ui/deployments/blog?at=1", "").await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND, "{}", gone.text);
    assert!(gone.text.contains("there was no deployment blog at index 1"), "{}", gone.text);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: revisions are compared as `jaco diff` does, the newest with the one before unless others are named.
#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_compared() {
    let served = with_deployment().await;
    let path = "/ui/deployments/shop/diff";
    let single = get(&served.local, path, "").await;
    assert_eq!(single.status, StatusCode::NOT_FOUND, "{}", single.text);
    assert!(single.text.contains("shop keeps no revision before 1"), "{}", single.text);
    apply(&served, r#"{"name":"shop","services":{"web":{"image":"web:2"}}}"#).await;
    let added = r#"{"name":"shop","services":{"web":{"image":"web:2"},"db":{"image":"db:1"}}}"#;
    apply(&served, added).await;

    let newest = get(&served.local, path, "").await;
    assert_eq!(newest.status, StatusCode::OK, "{}", newest.text);
    assert!(newest.text.contains("shop: revision 2 to 3"), "{}", newest.text);
    assert!(newest.text.contains("services.db.image"), "{}", newest.text);
    assert!(!newest.text.contains("services.web.image"), "{}", newest.text);
    let named = get(&served.local, &format!("{path}?from=1&to=2"), "").await;
    let image = "<th scope=\"row\">services.web.image</th><td><code>&quot;web:1&quot;</code></td>\
                 <td><code>&quot;web:2&quot;</code></td>";
    assert!(named.text.contains(image), "{}", named.text);
    let equal = get(&served.local, &format!("{path}?from=2&to=2"), "").await;
    assert!(equal.text.contains("They are equal."), "{}", equal.text);
    let page = get(&served.local, "/ui/deployments/shop", "").await;
    assert!(page.text.contains(&format!("{path}?from=2&amp;to=3")), "{}", page.text);
    for (wrong, status) in [("?from=9", StatusCode::NOT_FOUND), ("?to=x", StatusCode::BAD_REQUEST)]
    {
        let page = get(&served.local, &format!("{path}{wrong}"), "").await;
        assert_eq!(page.status, status, "{wrong}: {}", page.text);
    }
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: log lines are shown to who may change the deployment, and to nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn log_lines_need_the_role_of_the_rpc() {
    let served = with_deployment().await;
    let path = "/ui/logs?deployment=shop&service=web";
    for (role, status) in [
        (Role::Viewer, StatusCode::FORBIDDEN),
        (Role::Deployer, StatusCode::OK),
        (Role::Operator, StatusCode::OK),
        (Role::Admin, StatusCode::OK),
    ] {
        let token = token(&served, role.as_str(), role, 0).await;
        let cookie = sign_in(&served, &token).await.cookie();
        let page = get(&served.stranger, path, &cookie).await;
        assert_eq!(page.status, status, "{role}: {}", page.text);
        let is_refused = page.text.contains("permission_denied");
        assert_eq!(is_refused, status == StatusCode::FORBIDDEN, "{role}: {}", page.text);
    }
    let page = get(&served.local, path, "").await;
    assert!(page.text.contains("Log lines of web"), "{}", page.text);
    let lines = "data-lines=\"/ui/events/lines?deployment=shop&amp;service=web\"";
    assert!(page.text.contains(lines), "{}", page.text);
    for (wrong, status) in [
        ("?replica=shop-web-9", StatusCode::NOT_FOUND),
        ("?deployment=blog", StatusCode::NOT_FOUND),
        ("?deployment=shop&tail=5000", StatusCode::BAD_REQUEST),
        ("", StatusCode::BAD_REQUEST),
    ] {
        for path in ["/ui/logs", "/ui/events/lines"] {
            let page = get(&served.local, &format!("{path}{wrong}"), "").await;
            assert_eq!(page.status, status, "{path}{wrong}: {}", page.text);
        }
    }
    let path = "/ui/events/lines?deployment=shop&service=web";
    let stranger = get(&served.stranger, path, "").await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED, "a script is told by the status");
    let token = token(&served, "eve", Role::Viewer, 0).await;
    let viewer = get(&served.stranger, path, &sign_in(&served, &token).await.cookie()).await;
    assert_eq!(viewer.status, StatusCode::FORBIDDEN, "{}", viewer.text);
    let wrong = get(&served.local, &format!("{path}&since=x"), "").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST, "{}", wrong.text);
    served.node.store.raft().shutdown().await.unwrap();
}
