//! The page on a member: who sees what of it, how sessions begin and end, and with which headers it is served.

use http_body_util::BodyExt as _;
use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_types::Role;
use jaco_ui::{assets, headers};
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Method, Request, StatusCode};
use tonic::transport::Channel;
use tower::{Service, ServiceExt};

use crate::served::Served;

const PAGES: [&str; 10] = [
    "/ui",
    "/ui/",
    "/ui/deployments/shop",
    "/ui/nodes/n1",
    "/ui/why",
    "/ui/why?deployment=shop&service=web",
    "/ui/audit",
    "/ui/network",
    "/ui?at=3",
    "/ui/deployments/shop?at=4",
];

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// What a browser sends back of the cookie.
    pub(crate) fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap().to_owned()
    }
}

pub(crate) async fn send(channel: &Channel, request: Request<Body>) -> Answer {
    let mut channel = channel.clone();
    let channel = <Channel as ServiceExt<Request<Body>>>::ready(&mut channel).await.unwrap();
    let (head, body) = channel.call(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    Answer { status: head.status, headers: head.headers, text }
}

pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(format!("http://node.internal{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::new(body.to_owned())).unwrap()
}

pub(crate) async fn get(channel: &Channel, path: &str, cookie: &str) -> Answer {
    let headers = [("cookie", cookie)];
    let headers = if cookie.is_empty() { &headers[..0] } else { &headers[..] };
    send(channel, request(Method::GET, path, headers, "")).await
}

/// Sends the form as a browser does from a page of this node.
pub(crate) async fn sign_in(served: &Served, token: &str) -> Answer {
    let form = format!("token={token}&next=%2Fui%2Faudit");
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("origin", "https://node.internal"),
        ("sec-fetch-site", "same-origin"),
    ];
    send(&served.stranger, request(Method::POST, "/ui/login", &headers, &form)).await
}

pub(crate) async fn token(served: &Served, name: &str, role: Role, ttl_secs: u64) -> String {
    let request = v1::IssueOperatorTokenRequest {
        name: name.to_owned(),
        role: role.to_string(),
        ttl_secs,
        deployments: if role == Role::Deployer { vec!["shop".to_owned()] } else { Vec::new() },
    };
    let issued = ClusterClient::new(served.local.clone()).issue_operator_token(request).await;
    issued.unwrap().into_inner().token
}

pub(crate) async fn with_deployment() -> Served {
    let served = Served::start().await;
    served.found().await;
    let model = r#"{"name":"shop","services":{"web":{"image":"web:1"}}}"#;
    let request = v1::ApplyRequest { compose_json: model.to_owned(), ..Default::default() };
    DeployClient::new(served.local.clone()).apply(request).await.unwrap();
    served
}

/// R-OPS-1, R-IN-3: a stranger sees where to sign in and with what that is shown, is led there from every page, and learns
/// nothing of the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn strangers_see_where_to_sign_in() {
    let served = with_deployment().await;
    for path in PAGES {
        let answer = get(&served.stranger, path, "").await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}");
        assert!(answer.header("location").starts_with("/ui/login?next=%2Fui"), "{path}");
        assert_eq!(answer.text, "", "{path}");
    }
    let why = get(&served.stranger, "/ui/why?deployment=shop&service=web", "").await;
    let login = get(&served.stranger, why.header("location"), "").await;
    assert_eq!(login.status, StatusCode::OK);
    assert!(login.text.contains("value=\"/ui/why?deployment=shop&amp;service=web\""));
    for secret in ["shop", "test", "n1", "127.0.0.1"] {
        let text = login.text.replace("deployment=shop", "");
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    for asset in assets::ALL {
        let answer = get(&served.stranger, &asset.link().to_string(), "").await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::OK, asset.content));
        assert_eq!(answer.header("content-type"), asset.content_type);
    }
    let events = get(&served.stranger, "/ui/events", "").await;
    assert_eq!(events.status, StatusCode::UNAUTHORIZED);
    for unknown in ["__Host-jaco=00", "__Host-jaco="] {
        let answer = get(&served.stranger, "/ui", unknown).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{unknown}");
    }
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: with a token of each role a browser gets a session, and with that every page, until it signs out. The cookie has
/// nothing of the token.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_shows_the_pages_until_it_ends() {
    let served = with_deployment().await;
    for role in Role::ALL {
        let token = token(&served, role.as_str(), role, 0).await;
        let signed_in = sign_in(&served, &token).await;
        assert_eq!(signed_in.status, StatusCode::SEE_OTHER, "{role}");
        assert_eq!(signed_in.header("location"), "/ui/audit");
        let cookie = signed_in.header("set-cookie").to_owned();
        assert!(cookie.starts_with("__Host-jaco="), "{cookie}");
        for rule in ["Path=/", "Secure", "HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
            assert!(cookie.split("; ").any(|it| it == rule), "{cookie}: {rule}");
        }
        let secret = token.split('.').nth(2).unwrap();
        assert!(!cookie.contains(secret) && !cookie.contains(role.as_str()), "{cookie}");

        let cookie = signed_in.cookie();
        for path in PAGES {
            let answer = get(&served.stranger, path, &cookie).await;
            assert_eq!(answer.status, StatusCode::OK, "{role} {path}: {}", answer.text);
            assert!(answer.text.contains(&format!("operator:{role}, {role}")), "{}", answer.text);
            assert!(answer.text.contains("Sign out"), "{path}");
        }
        // It is for the page, and for nothing else.
        for path in ["/api/v1/status", "/metrics"] {
            let answer = get(&served.stranger, path, &cookie).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
        }

        let headers = [("cookie", cookie.as_str()), ("origin", "https://node.internal")];
        let out = send(&served.stranger, request(Method::POST, "/ui/logout", &headers, "")).await;
        assert_eq!(out.status, StatusCode::OK);
        assert!(out.header("set-cookie").starts_with("__Host-jaco=; Max-Age=0; "));
        assert_eq!(get(&served.stranger, "/ui", &cookie).await.status, StatusCode::SEE_OTHER);
    }
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: members, users of the socket and who shows a token with each request see the pages without a session.
#[tokio::test(flavor = "multi_thread")]
async fn other_credentials_need_no_session() {
    let served = with_deployment().await;
    let token = token(&served, "ann", Role::Viewer, 0).await;
    let bearer = format!("Bearer {token}");
    for path in PAGES {
        for channel in [&served.member, &served.local] {
            let answer = get(channel, path, "").await;
            assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
            assert!(!answer.text.contains("Sign out"), "{path}");
        }
        let shown = request(Method::GET, path, &[("authorization", &bearer)], "");
        let answer = send(&served.stranger, shown).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
    }
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1, R-FAULT-3: a session is over with its token: at the next request the page says why, and the browser is told to
/// forget it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_its_token() {
    let served = with_deployment().await;
    let revoked = token(&served, "revoked", Role::Admin, 0).await;
    let rotated = token(&served, "rotated", Role::Viewer, 0).await;
    let expiring = token(&served, "expiring", Role::Viewer, 2).await;
    let mut cookies = Vec::new();
    for token in [&revoked, &rotated, &expiring] {
        cookies.push(sign_in(&served, token).await.cookie());
    }
    for cookie in &cookies {
        assert_eq!(get(&served.stranger, "/ui", cookie).await.status, StatusCode::OK);
    }
    let mut admin = ClusterClient::new(served.local.clone());
    let revoke = v1::RevokeTokenRequest { name: "revoked".to_owned(), ..Default::default() };
    admin.revoke_token(revoke).await.unwrap();
    let rotate =
        v1::RotateOperatorTokenRequest { name: "rotated".to_owned(), ..Default::default() };
    admin.rotate_operator_token(rotate).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    let reasons = [
        "operator token revoked: token was revoked",
        "operator token rotated",
        "operator token expiring",
    ];
    for (cookie, reason) in cookies.iter().zip(reasons) {
        let answer = get(&served.stranger, "/ui/nodes/n1", cookie).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{reason}: {}", answer.text);
        assert!(answer.text.contains(reason), "{}", answer.text);
        assert!(answer.text.contains("value=\"/ui/nodes/n1\"") && !answer.text.contains("shop"));
        assert!(answer.header("set-cookie").starts_with("__Host-jaco=; Max-Age=0; "));
        // It is not known any more: as a stranger's.
        assert_eq!(get(&served.stranger, "/ui", cookie).await.status, StatusCode::SEE_OTHER);
    }
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1, R-FAULT-3: a token that does not count begins no session, and is told why.
#[tokio::test(flavor = "multi_thread")]
async fn refused_logins_begin_no_session() {
    let served = with_deployment().await;
    let sound = token(&served, "ann", Role::Viewer, 0).await;
    let wrong = sound.replace(".ann.", ".bob.");
    for (token, status) in [
        (wrong.as_str(), StatusCode::UNAUTHORIZED),
        ("nonsense", StatusCode::UNAUTHORIZED),
        ("", StatusCode::UNAUTHORIZED),
        ("a%00b", StatusCode::UNAUTHORIZED),
    ] {
        let answer = sign_in(&served, token).await;
        assert_eq!(answer.status, status, "{token}: {}", answer.text);
        assert!(answer.text.contains("Not signed in"), "{token}: {}", answer.text);
        assert_eq!(answer.header("set-cookie"), "", "{token}");
        assert!(!answer.text.contains(token) || token.is_empty(), "{}", answer.text);
    }
    let long = "x".repeat(5000);
    assert_eq!(sign_in(&served, &long).await.status, StatusCode::BAD_REQUEST);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1, R-IN-3: forms of pages of others sign nobody in or out, whatever they know.
#[tokio::test(flavor = "multi_thread")]
async fn forms_of_other_sites_are_refused() {
    let served = with_deployment().await;
    let token = token(&served, "ann", Role::Viewer, 0).await;
    let cookie = sign_in(&served, &token).await.cookie();
    let form = format!("token={token}");
    for headers in [
        &[("origin", "https://evil.example")][..],
        &[("origin", "https://node.internal"), ("sec-fetch-site", "cross-site")],
        &[("origin", "https://node.internal"), ("sec-fetch-site", "same-site")],
        &[("origin", "null")],
        &[],
    ] {
        let login = request(Method::POST, "/ui/login", headers, &form);
        let answer = send(&served.stranger, login).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
        assert_eq!(answer.header("set-cookie"), "", "{headers:?}");

        let with_cookie = [headers, &[("cookie", cookie.as_str())]].concat();
        let logout = request(Method::POST, "/ui/logout", &with_cookie, "");
        let answer = send(&served.stranger, logout).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
        assert_eq!(get(&served.stranger, "/ui", &cookie).await.status, StatusCode::OK);
    }
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: every answer has the headers of the page, whatever it is; what is about the cluster is kept nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_has_the_headers() {
    let served = with_deployment().await;
    let token = token(&served, "ann", Role::Viewer, 0).await;
    let signed_in = sign_in(&served, &token).await;
    let cookie = signed_in.cookie();
    let mut answers = vec![("signed in".to_owned(), signed_in)];
    for path in
        PAGES.into_iter().chain(["/ui/login", "/ui/x", "/ui/deployments/other", "/ui/nodes/other"])
    {
        for cookie in ["", cookie.as_str()] {
            answers.push((path.to_owned(), get(&served.stranger, path, cookie).await));
        }
        let put = request(Method::PUT, path, &[("cookie", &cookie)], "x");
        let answer = send(&served.stranger, put).await;
        if path != "/ui/login" {
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        }
        answers.push((path.to_owned(), answer));
    }
    for (path, code) in [("/ui/x", 404), ("/ui/deployments/other", 404), ("/ui/nodes/other", 404)] {
        let of_path = answers.iter().filter(|(it, _)| it == path);
        assert!(of_path.map(|(_, it)| it.status.as_u16()).any(|status| status == code), "{path}");
    }
    answers.push(("refused".to_owned(), sign_in(&served, "x").await));
    let elsewhere = request(Method::POST, "/ui/login", &[], "token=x");
    answers.push(("elsewhere".to_owned(), send(&served.stranger, elsewhere).await));
    for (path, answer) in &answers {
        for (name, value) in headers::ALWAYS {
            assert_eq!(answer.header(name), value, "{path} {}: {name}", answer.status);
        }
        assert_eq!(answer.header("cache-control"), "no-store", "{path} {}", answer.status);
    }
    let asset = get(&served.stranger, &assets::ALL[0].link().to_string(), "").await;
    for (name, value) in headers::ALWAYS {
        assert_eq!(asset.header(name), value);
    }
    assert_eq!(asset.header("cache-control"), headers::KEPT);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: `HEAD` says how long a page is, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn heads_have_no_content() {
    let served = with_deployment().await;
    let head = send(&served.local, request(Method::HEAD, "/ui/why", &[], "")).await;
    assert_eq!((head.status, head.text.as_str()), (StatusCode::OK, ""));
    assert!(head.header("content-length").parse::<usize>().unwrap() > 1000);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: older events are on the next pages, each once, in order, whichever filter is set.
#[tokio::test(flavor = "multi_thread")]
async fn audit_events_are_paged() {
    let served = with_deployment().await;
    for number in 0..120 {
        token(&served, &format!("t{number}"), Role::Viewer, 0).await;
    }
    let mut path = "/ui/audit?type=token_issue".to_owned();
    let mut seen = Vec::new();
    loop {
        let answer = get(&served.local, &path, "").await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let facts = answer.text.split("<b>token</b> ").skip(1);
        let names: Vec<String> =
            facts.map(|rest| rest.split('<').next().unwrap().to_owned()).collect();
        assert!(!names.is_empty() && names.len() <= 50, "{}", names.len());
        seen.extend(names);
        let Some((before, _)) = answer.text.split_once("\">Older events") else { break };
        let (_, link) = before.rsplit_once('"').unwrap();
        path = link.replace("&amp;", "&");
    }
    let expected: Vec<String> = (0..120).rev().map(|number| format!("t{number}")).collect();
    assert_eq!(seen, expected);
    let wrong = get(&served.local, "/ui/audit?before=x", "").await;
    assert!(wrong.text.contains("it is index and number of an event"), "{}", wrong.text);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-OPS-1: a browser that listens is told at once that there is something, and again when something has changed; and no more
/// once its token is revoked.
#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told() {
    let served = with_deployment().await;
    let token = token(&served, "ann", Role::Viewer, 0).await;
    let cookie = sign_in(&served, &token).await.cookie();
    let listen = request(Method::GET, "/ui/events", &[("cookie", &cookie)], "");
    let mut channel = served.stranger.clone();
    let channel = <Channel as ServiceExt<Request<Body>>>::ready(&mut channel).await.unwrap();
    let answer = channel.call(listen).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut events = answer.into_body();
    let first = events.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"event: changed\ndata: "), "{first:?}");

    let model = r#"{"name":"blog","services":{"web":{"image":"web:1"}}}"#;
    let apply = v1::ApplyRequest { compose_json: model.to_owned(), ..Default::default() };
    DeployClient::new(served.local.clone()).apply(apply).await.unwrap();
    let next = events.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(next.starts_with(b"event: changed\ndata: "), "{next:?}");

    let revoke = v1::RevokeTokenRequest { name: "ann".to_owned(), ..Default::default() };
    ClusterClient::new(served.local.clone()).revoke_token(revoke).await.unwrap();
    let ended = async {
        while let Some(Ok(frame)) = events.frame().await {
            if frame.is_trailers() {
                break;
            }
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), ended).await.unwrap();
    served.node.store.raft().shutdown().await.unwrap();
}
