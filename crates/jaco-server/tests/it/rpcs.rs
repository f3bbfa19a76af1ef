//! Each rpc is served as its options in `proto/jaco/v1` declare. The tests iterate over the descriptor,
//! so a new rpc is covered without a line here.

use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use jaco_proto::rpc::{self, Rpc};
use jaco_proto::storage;
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_proto::v1::peer_client::PeerClient;
use jaco_proto::v1::query_client::QueryClient;
use jaco_proto::v1::{self, Access, Handling};
use jaco_server::status;
use jaco_types::{Author, ErrorCode, Identity, NodeId};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::node::GATE;
use crate::served::Served;

/// Calls an rpc with empty messages and returns its refusal, if it is refused at once.
async fn refusal(channel: &Channel, rpc: &Rpc) -> Option<ErrorCode> {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let path = rpc.method.parse().unwrap();
    let codec = ProstCodec::<(), ()>::default();
    let answered = match (rpc.client_streaming, rpc.server_streaming) {
        (false, false) => grpc.unary(Request::new(()), path, codec).await.map(drop),
        (false, true) => grpc.server_streaming(Request::new(()), path, codec).await.map(drop),
        (true, _) => {
            let requests = Request::new(futures::stream::iter([()]));
            grpc.streaming(requests, path, codec).await.map(drop)
        }
    };
    answered.err().map(|status| code(&status))
}

pub(crate) fn code(status: &Status) -> ErrorCode {
    status::from_status(status).code
}

/// The refusals of several rpcs, called at once because those without a leader wait for one.
async fn refusals(channel: &Channel, chosen: impl Fn(&Rpc) -> bool) -> Vec<Refused> {
    let chosen: Vec<&Rpc> = rpc::ALL.iter().filter(|rpc| chosen(rpc)).collect();
    assert!(!chosen.is_empty(), "no rpc is declared so");
    let calls = chosen.iter().map(|rpc| async {
        let answer = tokio::time::timeout(Duration::from_secs(30), refusal(channel, rpc));
        (rpc.method, answer.await.expect("every call has a deadline"))
    });
    join_all(calls).await
}

/// A method and the code that it was refused with.
type Refused = (&'static str, Option<ErrorCode>);

#[track_caller]
fn assert_all(refused: &[Refused], expected: ErrorCode) {
    let other: Vec<_> = refused.iter().filter(|(_, code)| *code != Some(expected)).collect();
    assert!(other.is_empty(), "not refused as {expected}: {other:#?}");
}

/// R-CLI-7, R-IN-3: whatever needs a credential is refused without one, with the code that exits with 10.
#[tokio::test(flavor = "multi_thread")]
async fn every_rpc_is_refused_without_its_credential() {
    let served = Served::start().await;
    let needs = |access: Access| move |rpc: &Rpc| rpc.access == access;
    let refused = refusals(&served.stranger, needs(Access::Credential)).await;
    assert_all(&refused, ErrorCode::Unauthenticated);
    let refused = refusals(&served.stranger, needs(Access::Member)).await;
    assert_all(&refused, ErrorCode::Unauthenticated);
    let refused = refusals(&served.local, needs(Access::Member)).await;
    assert_all(&refused, ErrorCode::PermissionDenied);
    let refused = refusals(&served.stranger, needs(Access::Socket)).await;
    assert_all(&refused, ErrorCode::Unauthenticated);
    let refused = refusals(&served.member, needs(Access::Socket)).await;
    assert_all(&refused, ErrorCode::PermissionDenied);
    assert_eq!(ErrorCode::Unauthenticated.exit_code() as u8, 10);
    assert_eq!(ErrorCode::PermissionDenied.exit_code() as u8, 10);
}

/// Every rpc that is declared for the leader accepts a local user and a member, and is not executed by a
/// node that does not lead.
#[tokio::test(flavor = "multi_thread")]
async fn every_rpc_of_the_leader_needs_a_leader() {
    let served = Served::start().await;
    let led = |rpc: &Rpc| rpc.handling != Handling::Local && rpc.access != Access::Forwarded;
    for channel in [&served.local, &served.member] {
        assert_all(&refusals(channel, led).await, ErrorCode::NoLeader);
    }
}

/// A member executes exactly those rpcs for another that are declared for the leader; one that does not
/// lead refuses them, so that a request is never forwarded twice.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_rpcs_of_the_leader_are_forwarded() {
    let served = Served::start().await;
    for rpc in rpc::ALL {
        let by = Author { by: Identity::Local { uid: 0 }, origin: None };
        let message = v1::ForwardRequest {
            method: rpc.method.to_owned(),
            identity: storage::encode_author(&by),
            ..v1::ForwardRequest::default()
        };
        let refused = PeerClient::new(served.member.clone()).forward(message).await.unwrap_err();
        let expected = match rpc.handling {
            Handling::Write | Handling::LeaderRead => ErrorCode::NoLeader,
            Handling::Local | Handling::Unspecified => ErrorCode::InvalidRequest,
        };
        assert_eq!(code(&refused), expected, "{}", rpc.method);
    }
}

/// Only members forward what is declared as forwarded: no listener serves it.
#[tokio::test(flavor = "multi_thread")]
async fn no_listener_serves_a_forwarded_rpc() {
    let served = Served::start().await;
    let forwarded = |rpc: &Rpc| rpc.access == Access::Forwarded;
    for channel in [&served.member, &served.local] {
        // `unimplemented` carries no code of ours.
        assert_all(&refusals(channel, forwarded).await, ErrorCode::Internal);
    }
    // A stranger does not even learn that.
    assert_all(&refusals(&served.stranger, forwarded).await, ErrorCode::Unauthenticated);
}

/// A flood of dry runs occupies its own turns and places alone: what is one too many is told so, and everything else is
/// answered meanwhile, heartbeats and deletes among it.
#[tokio::test(flavor = "multi_thread")]
async fn dry_runs_do_not_keep_others_from_the_leader() {
    let served = Served::start().await;
    served.node.store.raft().initialize("127.0.0.1:1".to_owned()).await.unwrap();
    let request = v1::ApplyRequest {
        compose_json: r#"{"name":"shop","services":{"web":{"image":"web:1"}}}"#.to_owned(),
        dry_run: true,
        ..v1::ApplyRequest::default()
    };
    let deploy = || DeployClient::new(served.local.clone());
    deploy().apply(request.clone()).await.unwrap();

    let mut computing = Vec::new();
    for _ in 0..GATE.computing {
        computing.push(served.node.gate.turn().await.unwrap());
    }
    let mut waiting: Vec<_> = (0..GATE.queue).map(|_| Box::pin(served.node.gate.turn())).collect();
    for turn in &mut waiting {
        assert!(turn.as_mut().now_or_never().is_none());
    }
    let refused = deploy().apply(request.clone()).await.unwrap_err();
    assert_eq!(code(&refused), ErrorCode::Overloaded);
    let refused = deploy().apply(v1::ApplyRequest { dry_run: false, ..request.clone() }).await;
    assert_eq!(code(&refused.unwrap_err()), ErrorCode::Overloaded);
    let mut query = QueryClient::new(served.local.clone());
    let mut answer = query.overview(v1::StatusRequest::default()).await.unwrap().into_inner();
    answer.message().await.unwrap().expect("an answer has a part");
    let heartbeat = v1::HeartbeatRequest { node: NodeId::FIRST.0, ..Default::default() };
    PeerClient::new(served.member.clone()).heartbeat(heartbeat).await.unwrap();
    let gone = v1::DeleteRequest { deployment: "shop".to_owned(), ..Default::default() };
    let gone = deploy().delete(gone).await.unwrap_err();
    assert_eq!(code(&gone), ErrorCode::DeploymentNotFound);

    drop((waiting, computing));
    deploy().apply(request).await.unwrap();
    served.node.store.raft().shutdown().await.unwrap();
}

/// R-IN-3: a rollback cannot bring back more replicas than the cluster has room for.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_does_not_exceed_the_replicas_of_a_cluster() {
    let served = Served::start().await;
    served.node.store.raft().initialize("127.0.0.1:1".to_owned()).await.unwrap();
    let mut deploy = DeployClient::new(served.local.clone());
    let sized = |name: &str, replicas: u32| v1::ApplyRequest {
        compose_json: format!(
            r#"{{"name":"{name}","services":{{"web":{{"image":"web:1","scale":{replicas}}}}}}}"#
        ),
        ..v1::ApplyRequest::default()
    };
    deploy.apply(sized("a", 10_000)).await.unwrap();
    deploy.apply(sized("a", 1)).await.unwrap();
    for number in 0..9 {
        deploy.apply(sized(&format!("d{number}"), 10_000)).await.unwrap();
    }
    deploy.apply(sized("last", 9_999)).await.unwrap();
    let back = |name: &str| v1::RollbackRequest {
        deployment: name.to_owned(),
        to: 1,
        ..v1::RollbackRequest::default()
    };
    let refused = deploy.rollback(back("a")).await.unwrap_err();
    assert_eq!(code(&refused), ErrorCode::TooLarge, "{refused}");
    let gone = v1::DeleteRequest { deployment: "last".to_owned(), ..Default::default() };
    deploy.delete(gone).await.unwrap();
    deploy.rollback(back("a")).await.unwrap();
    served.node.store.raft().shutdown().await.unwrap();
}
