//! The JSON gateway on a member: by which table it admits, and what it may compute.

use futures::FutureExt;
use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_server::endpoints::{ENDPOINTS, Subject};
use jaco_types::Role;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response, StatusCode};
use tonic::transport::Channel;
use tower::{Service, ServiceExt};

use crate::node::GATE;
use crate::served::Served;

async fn get(channel: &Channel, path: &str, token: Option<&str>) -> Response<Body> {
    let mut request = Request::get(format!("http://node.internal{path}"));
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Body::empty()).unwrap();
    let mut channel = channel.clone();
    let channel = <Channel as ServiceExt<Request<Body>>>::ready(&mut channel).await.unwrap();
    channel.call(request).await.unwrap()
}

async fn token(served: &Served, role: Role) -> String {
    let request = v1::IssueOperatorTokenRequest {
        name: role.to_string(),
        role: role.to_string(),
        deployments: if role == Role::Deployer { vec!["shop".to_owned()] } else { Vec::new() },
        ..Default::default()
    };
    let issued = ClusterClient::new(served.local.clone()).issue_operator_token(request).await;
    issued.unwrap().into_inner().token
}

async fn with_deployment() -> Served {
    let served = Served::start().await;
    served.found().await;
    let model = r#"{"name":"shop","services":{"web":{"image":"web:1"}}}"#;
    let request = v1::ApplyRequest { compose_json: model.to_owned(), ..Default::default() };
    DeployClient::new(served.local.clone()).apply(request).await.unwrap();
    served
}

/// R-FAULT-3, R-OPS-1: each path needs the role of the rpcs that it asks, and no credential gets nothing, whether or not there
/// is anything; members and users of the socket may read all of it.
#[tokio::test(flavor = "multi_thread")]
async fn every_path_is_admitted_as_its_rpcs_are() {
    let served = with_deployment().await;
    for role in Role::ALL {
        let token = token(&served, role).await;
        for endpoint in ENDPOINTS {
            let path = endpoint.path.replace("NAME", "shop");
            let answer = get(&served.stranger, &path, Some(&token)).await;
            let is_allowed = endpoint.subject != Subject::Tokens || role == Role::Admin;
            let expected = if is_allowed { StatusCode::OK } else { StatusCode::FORBIDDEN };
            assert_eq!(answer.status(), expected, "{role} {path}");
        }
    }
    for endpoint in ENDPOINTS {
        let path = endpoint.path.replace("NAME", "shop");
        for (channel, expected) in [
            (&served.stranger, StatusCode::UNAUTHORIZED),
            (&served.member, StatusCode::OK),
            (&served.local, StatusCode::OK),
        ] {
            assert_eq!(get(channel, &path, None).await.status(), expected, "{path}");
        }
    }
    assert_eq!(get(&served.stranger, "/api/v1/x", None).await.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(get(&served.local, "/api/v1/x", None).await.status(), StatusCode::NOT_FOUND);
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-FAULT-3: JSON is written as a computation of the gate: while that is full it is refused, and not computed beside it.
#[tokio::test(flavor = "multi_thread")]
async fn json_is_computed_by_the_gate() {
    let served = with_deployment().await;
    let mut turns = Vec::new();
    for _ in 0..GATE.computing {
        turns.push(served.node.gate.turn().await.unwrap());
    }
    let queue = 0..GATE.long + GATE.queue;
    let mut waiting: Vec<_> = queue.map(|_| Box::pin(served.node.gate.turn())).collect();
    assert!(
        waiting.iter_mut().all(|one| one.as_mut().now_or_never().is_none()),
        "all turns are taken"
    );
    let refused = get(&served.local, "/api/v1/nodes", None).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "1");
    drop(turns);
    drop(waiting);
    assert_eq!(get(&served.local, "/api/v1/nodes", None).await.status(), StatusCode::OK);
    served.node.store.raft().shutdown().await.unwrap();
}
