//! Links to the page that sign in once: who gets one, what it is good for, and for how long.

use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_types::Role;
use tonic::codegen::http::{Method, StatusCode};
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::served::Served;
use crate::ui::{Answer, get, request, send, token, with_deployment};

/// Asks for a link, with a token or as who the connection is.
async fn link(channel: &Channel, token: Option<&str>) -> Result<String, tonic::Status> {
    let mut request = Request::new(v1::IssueSignInLinkRequest {});
    if let Some(token) = token {
        let bearer = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", bearer);
    }
    let made = ClusterClient::new(channel.clone()).issue_sign_in_link(request).await?.into_inner();
    assert_eq!((made.node.as_str(), made.valid_secs), ("n1", 300));
    assert!(made.server_name.ends_with(".internal"), "{}", made.server_name);
    Ok(made.path)
}

/// Confirms as a browser does on the page that a link leads to.
async fn confirm(served: &Served, link: &str) -> Answer {
    let once = link.split("once=").nth(1).unwrap();
    let headers = [("origin", "https://node.internal"), ("sec-fetch-site", "same-origin")];
    let form = format!("next=%2Fui%2Faudit&once={once}");
    send(&served.stranger, request(Method::POST, "/ui/login", &headers, &form)).await
}

/// R-OPS-1, R-IN-3: a link signs in, once, in the name of who asked for it and with that user's role; to look at it does not
/// use it up.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_signs_in_who_asked_for_it() {
    let served = with_deployment().await;
    for role in [Role::Viewer, Role::Operator] {
        let token = token(&served, role.as_str(), role, 0).await;
        let link = link(&served.stranger, Some(&token)).await.unwrap();
        for _ in 0..2 {
            let shown = get(&served.stranger, &link, "").await;
            assert_eq!(shown.status, StatusCode::OK);
            assert!(shown.text.contains(&format!("<b>operator:{role}</b>")), "{}", shown.text);
            assert_eq!(shown.header("set-cookie"), "");
        }
        let signed_in = confirm(&served, &link).await;
        assert_eq!(signed_in.status, StatusCode::SEE_OTHER, "{}", signed_in.text);
        assert_eq!(signed_in.header("location"), "/ui/audit");
        let page = get(&served.stranger, "/ui", &signed_in.cookie()).await;
        assert!(page.text.contains(&format!("operator:{role}, {role}")), "{}", page.text);

        let again = confirm(&served, &link).await;
        assert_eq!((again.status, again.header("set-cookie")), (StatusCode::UNAUTHORIZED, ""));
        assert!(again.text.contains("the link was used already"), "{}", again.text);
        let shown = get(&served.stranger, &link, "").await;
        assert!(shown.text.contains("the link was used already"), "{}", shown.text);
        assert!(!shown.text.contains("operator:"), "{}", shown.text);
    }
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: whoever may open the socket gets a link that signs in with the rights that the socket gives; what is done with
/// it has the browser's address in the audit log.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_of_the_socket_has_its_rights() {
    let served = with_deployment().await;
    let link = link(&served.local, None).await.unwrap();
    let signed_in = confirm(&served, &link).await;
    assert_eq!(signed_in.status, StatusCode::SEE_OTHER, "{}", signed_in.text);
    let cookie = signed_in.cookie();
    let page = get(&served.stranger, "/ui", &cookie).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("local:0, admin"), "{}", page.text);
    // It is for the page, and for nothing else.
    let api = get(&served.stranger, "/api/v1/status", &cookie).await;
    assert_eq!(api.status, StatusCode::UNAUTHORIZED);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1, R-FAULT-3: a link of a token that was revoked meanwhile signs nobody in, and a session that began by a link ends
/// with the token.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_ends_with_its_token() {
    let served = with_deployment().await;
    let token = token(&served, "ann", Role::Viewer, 0).await;
    let (used, unused) = (
        link(&served.stranger, Some(&token)).await.unwrap(),
        link(&served.stranger, Some(&token)).await.unwrap(),
    );
    let cookie = confirm(&served, &used).await.cookie();
    assert_eq!(get(&served.stranger, "/ui", &cookie).await.status, StatusCode::OK);
    let revoke = v1::RevokeTokenRequest { name: "ann".to_owned(), ..Default::default() };
    ClusterClient::new(served.local.clone()).revoke_token(revoke).await.unwrap();
    let refused = confirm(&served, &unused).await;
    assert_eq!((refused.status, refused.header("set-cookie")), (StatusCode::UNAUTHORIZED, ""));
    assert!(refused.text.contains("operator token ann: token was revoked"), "{}", refused.text);
    assert_eq!(get(&served.stranger, "/ui", &cookie).await.status, StatusCode::UNAUTHORIZED);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1, R-IN-3: neither members nor strangers get a link, and no page of another site can use one.
#[tokio::test(flavor = "multi_thread")]
async fn links_are_for_users() {
    let served = with_deployment().await;
    let refused = link(&served.member, None).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    let refused = link(&served.stranger, None).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    let link = link(&served.local, None).await.unwrap();
    let form = format!("once={}", link.split("once=").nth(1).unwrap());
    let headers = [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    let answer = send(&served.stranger, request(Method::POST, "/ui/login", &headers, &form)).await;
    assert_eq!((answer.status, answer.header("set-cookie")), (StatusCode::FORBIDDEN, ""));
    assert_eq!(confirm(&served, &link).await.status, StatusCode::SEE_OTHER, "it is still good");
    served.node.store.raft().shutdown().await.unwrap();
}
