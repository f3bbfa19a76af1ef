//! What a token of each role may call, over TLS: every rpc of the descriptor with every role, by the table (ADR 0119).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use jaco_proto::rpc::{self, Rpc};
use jaco_proto::v1::deploy_client::DeployClient;
use jaco_proto::v1::peer_client::PeerClient;
use jaco_proto::v1::query_client::QueryClient;
use jaco_proto::v1::{self, Access};
use jaco_proto::{storage, v1::cluster_client::ClusterClient};
use jaco_server::permission::{Needs, ROWS};
use jaco_state::audit::AuditKind;
use jaco_state::command::{Batch, Change, NewInstance};
use jaco_store::{Proposal, Store};
use jaco_types::{
    Author, DeploymentName, DesiredState, ErrorCode, Identity, NodeId, Ordinal, ReplicaId,
    Revision, Role, ServiceKey, ServiceName, SpecHash, TokenId,
};
use prost::Message;
use tonic::Request;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;

use crate::raw::Raw;
use crate::rpcs::code;
use crate::served::Served;

/// A cluster with the deployments `shop` and `other`, and a token of each role; the deployer's is for `shop`.
struct WithTokens {
    served: Served,
    tokens: BTreeMap<Role, String>,
}

const ROLES: [Role; 4] = Role::ALL;

impl WithTokens {
    async fn start() -> Self {
        let served = Served::start().await;
        served.found().await;
        let mut tokens = BTreeMap::new();
        let mut cluster = ClusterClient::new(served.local.clone());
        for role in ROLES {
            let deployments = match role {
                Role::Deployer => vec!["shop".to_owned()],
                Role::Viewer | Role::Operator | Role::Admin => Vec::new(),
            };
            let request = v1::IssueOperatorTokenRequest {
                name: role.to_string(),
                role: role.to_string(),
                deployments,
                ..v1::IssueOperatorTokenRequest::default()
            };
            let issued = cluster.issue_operator_token(request).await.unwrap();
            tokens.insert(role, issued.into_inner().token);
        }
        let this = Self { served, tokens };
        for name in ["shop", "other"] {
            for image in ["web:1", "web:2"] {
                let mut deploy = DeployClient::new(this.served.local.clone());
                deploy.apply(apply(name, image)).await.unwrap();
            }
            this.place(name).await;
        }
        this
    }

    /// Gives a deployment a replica, which nothing runs.
    async fn place(&self, deployment: &str) {
        let service = ServiceKey {
            deployment: DeploymentName::new(deployment).unwrap(),
            service: ServiceName::new("web").unwrap(),
        };
        let ordinal = Ordinal::Index(0);
        let instance = NewInstance {
            node: NodeId::FIRST,
            revision: Revision(2),
            spec_hash: SpecHash([9; 32]),
            gpus: Vec::new(),
        };
        let change = Change::SlotCreate {
            id: ReplicaId::new(&service, &ordinal),
            service,
            ordinal,
            instance,
            desired_state: DesiredState::Active,
        };
        let based_on = self.served.node.store.read(|state| state.index);
        let command = Batch::new(based_on, vec![change]).into();
        let proposal = Proposal { by: Identity::Scheduler, request: None, command };
        self.served.node.store.propose(proposal).await.unwrap();
        let replica = format!("{deployment}-web-0");
        let is_there = self
            .served
            .node
            .store
            .read(|state| state.slots.values().any(|slot| slot.id.as_str() == replica));
        assert!(is_there, "{replica}");
    }

    fn as_role<T>(&self, role: Role, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let bearer = format!("Bearer {}", self.tokens[&role]);
        request.metadata_mut().insert("authorization", MetadataValue::try_from(bearer).unwrap());
        request
    }

    /// What an rpc is refused with at once for a token of this role, if it is.
    async fn refusal(&self, role: Role, rpc: &Rpc, message: Bytes) -> Option<ErrorCode> {
        let mut grpc = Grpc::new(self.served.stranger.clone());
        grpc.ready().await.unwrap();
        let path = rpc.method.parse().unwrap();
        let answered = match (rpc.client_streaming, rpc.server_streaming) {
            (false, false) => {
                let request = self.as_role(role, message);
                grpc.unary(request, path, Raw).await.map(drop)
            }
            (false, true) => {
                let request = self.as_role(role, message);
                grpc.server_streaming(request, path, Raw).await.map(drop)
            }
            (true, _) => {
                let messages = futures::stream::iter([message]).chain(futures::stream::pending());
                let request = self.as_role(role, messages);
                grpc.streaming(request, path, Raw).await.map(drop)
            }
        };
        answered.err().map(|status| code(&status))
    }

    async fn stop(self) {
        self.served.node.store.raft().shutdown().await.unwrap();
    }
}

fn compose(name: &str, image: &str) -> String {
    format!(r#"{{"name":"{name}","services":{{"web":{{"image":"{image}"}}}}}}"#)
}

fn apply(name: &str, image: &str) -> v1::ApplyRequest {
    v1::ApplyRequest { compose_json: compose(name, image), ..v1::ApplyRequest::default() }
}

/// Requests of an rpc about a deployment. Panics for an rpc that the table limits to deployments and that is not here.
fn about(method: &str, deployment: &str) -> Vec<Bytes> {
    let deployment = deployment.to_owned();
    let others = if deployment == "shop" { "other" } else { "shop" };
    let messages = match method {
        "/jaco.v1.Cluster/SetDisabled" => ["disable", "enable"]
            .map(|change| v1::SetDisabledRequest {
                change: change.to_owned(),
                allocations: vec![v1::AllocationRef {
                    deployment: deployment.clone(),
                    service: "web".to_owned(),
                    ..v1::AllocationRef::default()
                }],
                ..v1::SetDisabledRequest::default()
            })
            .map(|message| message.encode_to_vec())
            .into(),
        "/jaco.v1.Deploy/Apply" => {
            let named = apply(&deployment, "web:3");
            let renamed =
                v1::ApplyRequest { deployment: deployment.clone(), ..apply(others, "web:3") };
            let by_overlay = v1::ApplyRequest {
                overlay_yaml: format!("deployment: {deployment}\n"),
                deployment: others.to_owned(),
                ..apply(&deployment, "web:3")
            };
            let planned = v1::ApplyRequest { dry_run: true, ..named.clone() };
            [planned, named, renamed, by_overlay].map(|message| message.encode_to_vec()).into()
        }
        "/jaco.v1.Deploy/Delete" => {
            vec![v1::DeleteRequest { deployment, ..Default::default() }.encode_to_vec()]
        }
        "/jaco.v1.Deploy/Rollback" => {
            vec![v1::RollbackRequest { deployment, to: 1, ..Default::default() }.encode_to_vec()]
        }
        "/jaco.v1.Deploy/PinRevision" => {
            let pin = v1::PinRevisionRequest { deployment, revision: 1, ..Default::default() };
            vec![pin.encode_to_vec()]
        }
        "/jaco.v1.Deploy/RunJob" => {
            let service = "web".to_owned();
            let run = v1::RunJobRequest { deployment, service, ..Default::default() };
            vec![run.encode_to_vec()]
        }
        "/jaco.v1.Exec/Run" | "/jaco.v1.Exec/RunBeside" => {
            let replica = format!("{deployment}-web-0");
            let start =
                v1::ExecStart { replica, command: vec!["id".to_owned()], ..Default::default() };
            let input = v1::exec_input::Input::Start(start);
            vec![v1::ExecInput { input: Some(input) }.encode_to_vec()]
        }
        "/jaco.v1.Exec/Copy" => {
            let (replica, path) = (format!("{deployment}-web-0"), "/etc".to_owned());
            let start = v1::CopyStart { replica, path, direction: "out".to_owned() };
            let input = v1::copy_input::Input::Start(start);
            vec![v1::CopyInput { input: Some(input) }.encode_to_vec()]
        }
        "/jaco.v1.Exec/Forward" => {
            let (replica, purpose) = (format!("{deployment}-web-0"), "announce".to_owned());
            let start =
                v1::ForwardStart { replica, purpose, port: 80, session: Default::default() };
            let input = v1::forward_input::Input::Start(start);
            vec![v1::ForwardInput { input: Some(input) }.encode_to_vec()]
        }
        "/jaco.v1.Volumes/ReadVolume" => {
            let volume = "data".to_owned();
            let read = v1::ReadVolumeRequest { deployment, volume, ..Default::default() };
            vec![read.encode_to_vec()]
        }
        "/jaco.v1.Volumes/SettleVolumeMove" => {
            let to = "n1".to_owned();
            let settle = v1::SettleVolumeMoveRequest { deployment, to, ..Default::default() };
            vec![settle.encode_to_vec()]
        }
        "/jaco.v1.VolumeWrites/WriteVolume" => {
            let volume = "data".to_owned();
            let start = v1::WriteVolumeStart { deployment, volume, ..Default::default() };
            let input = v1::volume_input::Input::Start(start);
            vec![v1::VolumeInput { input: Some(input) }.encode_to_vec()]
        }
        "/jaco.v1.Query/Logs" => {
            vec![v1::LogsRequest { deployment, ..Default::default() }.encode_to_vec()]
        }
        other => panic!("{other} is limited to deployments by the table: add its requests here"),
    };
    messages.into_iter().map(Bytes::from).collect()
}

/// A request with the field that raises the role.
fn raised(method: &str) -> Bytes {
    let message = match method {
        "/jaco.v1.Cluster/SetAuditRetention" => {
            v1::SetAuditRetentionRequest { age_ms: 86_400_000, ..Default::default() }
                .encode_to_vec()
        }
        "/jaco.v1.Routing/Watch" => attach("edge-1"),
        other => panic!("{other} has a field that raises its role by the table: add it here"),
    };
    message.into()
}

fn attach(consumer: &str) -> Vec<u8> {
    let attach = v1::RoutingAttach { consumer: consumer.to_owned(), ..Default::default() };
    v1::RoutingRequest { kind: Some(v1::routing_request::Kind::Attach(attach)) }.encode_to_vec()
}

/// A request without it.
fn plain(method: &str) -> Bytes {
    if method == "/jaco.v1.Routing/Watch" { attach("").into() } else { Bytes::new() }
}

/// R-CLI-7: the table has a row for each rpc of the descriptor and no other, and exactly those whose credential is no
/// token's need no role.
#[test]
fn every_rpc_has_a_row() {
    let named: BTreeSet<&str> = ROWS.iter().map(|(method, _)| *method).collect();
    assert_eq!(named.len(), ROWS.len(), "a method has two rows");
    let declared: BTreeSet<&str> = rpc::ALL.iter().map(|rpc| rpc.method).collect();
    assert_eq!(named, declared);
    for rpc in rpc::ALL {
        let takes_tokens = rpc.access == Access::Credential;
        assert_eq!(Needs::of(rpc.method).least_role().is_some(), takes_tokens, "{}", rpc.method);
    }
    assert_eq!(Needs::of("/jaco.v1.Deploy/New"), Needs::Role(Role::Admin), "closed without a row");
}

/// R-CLI-7: each rpc answers each role as the table says, for a deployer by the deployment: a name in the compose file, in
/// jaco.yaml or in the request, a replica or an allocation of another one is refused.
#[tokio::test(flavor = "multi_thread")]
async fn every_rpc_admits_the_roles_of_the_table() {
    let with = WithTokens::start().await;
    let mut wrong = Vec::new();
    // In this order, because a deletion comes last of all that needs a deployment.
    let (deletes, others): (Vec<&Rpc>, Vec<&Rpc>) =
        rpc::ALL.iter().partition(|rpc| rpc.method == "/jaco.v1.Deploy/Delete");
    for rpc in others.into_iter().chain(deletes) {
        for role in ROLES {
            let cases: Vec<(Bytes, bool)> = match Needs::of(rpc.method) {
                Needs::NoRole => vec![(Bytes::new(), false)],
                Needs::Role(least) => vec![(Bytes::new(), role >= least)],
                Needs::RoleWith { role: least, with, .. } => {
                    vec![(plain(rpc.method), role >= least), (raised(rpc.method), role >= with)]
                }
                Needs::Deployment { .. } => {
                    let of = |name, admitted| {
                        about(rpc.method, name).into_iter().map(move |one| (one, admitted))
                    };
                    let shop = of("shop", role >= Role::Deployer);
                    shop.chain(of("other", role >= Role::Operator)).collect()
                }
            };
            for (number, (message, admitted)) in cases.into_iter().enumerate() {
                let answer = with.refusal(role, rpc, message);
                let answer = tokio::time::timeout(Duration::from_secs(30), answer).await;
                let answer = answer.expect("every call has a deadline");
                let refused = matches!(
                    answer,
                    Some(ErrorCode::PermissionDenied | ErrorCode::Unauthenticated)
                );
                let is_right = match rpc.access {
                    Access::Credential => refused != admitted,
                    Access::Socket | Access::Member => refused,
                    // Nothing but its message counts, and that is empty.
                    Access::JoinToken => answer == Some(ErrorCode::CsrInvalid),
                    // Not served: `unimplemented` carries no code of ours.
                    Access::Forwarded => answer == Some(ErrorCode::Internal),
                };
                if !is_right {
                    wrong.push(format!("{} case {number} as {role}: {answer:?}", rpc.method));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    with.stop().await;
}

/// R-CLI-7: a deployer does what its deployment needs, a refusal says which role it takes and who grants it, and both are
/// in the audit log with token and role.
#[tokio::test(flavor = "multi_thread")]
async fn a_deployer_changes_its_deployment_only() {
    let with = WithTokens::start().await;
    let mut deploy = DeployClient::new(with.served.stranger.clone());
    let done = deploy.apply(with.as_role(Role::Deployer, apply("shop", "web:3"))).await.unwrap();
    assert_eq!(done.into_inner().change, "updated");
    let applied = with.served.node.store.read(|state| {
        let applied = state.audit.events.values().rfind(|event| event.kind == AuditKind::Apply);
        applied.map(|event| (event.by.to_string(), event.payload["by_role"].clone()))
    });
    assert_eq!(applied, Some(("operator:deployer".to_owned(), "deployer".to_owned())));
    let back = v1::RollbackRequest { deployment: "shop".to_owned(), to: 1, ..Default::default() };
    deploy.rollback(with.as_role(Role::Deployer, back)).await.unwrap();

    let refused = deploy.apply(with.as_role(Role::Deployer, apply("other", "web:3"))).await;
    let refused = jaco_server::status::from_status(&refused.unwrap_err());
    assert_eq!(refused.code, ErrorCode::PermissionDenied);
    assert_eq!(
        refused.message,
        "this needs role deployer of other, and operator:deployer is deployer of shop: an admin can issue a token that \
         allows it, `jaco token issue NAME --role deployer --deployment other`"
    );
    let untouched = with.served.node.store.read(|state| {
        let other = state.deployments.get(&DeploymentName::new("other").unwrap());
        other.map(|other| other.revision)
    });
    assert_eq!(untouched, Some(Revision(2)));
    with.stop().await;
}

/// R-IN-6: what reaches the nodes reaches all deployments, so a deployer needs a grant where the policy only warns; volumes
/// by their names on the nodes may be another deployment's.
#[tokio::test(flavor = "multi_thread")]
async fn a_deployer_reaches_no_node_without_a_grant() {
    let with = WithTokens::start().await;
    let mut deploy = DeployClient::new(with.served.stranger.clone());
    let of = |rest: &str| v1::ApplyRequest {
        compose_json: [r#"{"name":"shop","services":{"web":{"image":"web:4","#, rest].concat(),
        ..v1::ApplyRequest::default()
    };
    let reaching = of(r#""volumes":[{"type":"bind","source":"/srv","target":"/x"}]}}}"#);
    let refused = deploy.apply(with.as_role(Role::Deployer, reaching.clone())).await;
    assert_eq!(code(&refused.unwrap_err()), ErrorCode::PolicyRefused);
    for volume in [r#"{"external":true,"name":"other_data"}"#, r#"{"name":"other_data"}"#] {
        let mount = r#"[{"type":"volume","source":"x","target":"/x"}]"#;
        let taken = of(&format!(r#""volumes":{mount}}}}},"volumes":{{"x":{volume}}}}}"#));
        let refused = deploy.apply(with.as_role(Role::Deployer, taken.clone())).await.unwrap_err();
        assert_eq!(code(&refused), ErrorCode::PermissionDenied, "{refused}");
        deploy.apply(with.as_role(Role::Operator, taken)).await.unwrap();
    }
    let own = r#""volumes":[{"type":"volume","source":"x","target":"/x"}]}},"volumes":{"x":{"name":"shop_x"}}}"#;
    deploy.apply(with.as_role(Role::Deployer, of(own))).await.unwrap();

    let grant = v1::AllowReachesRequest {
        deployment: "shop".to_owned(),
        reaches: vec!["host-path=/srv".to_owned()],
        ..v1::AllowReachesRequest::default()
    };
    let mut cluster = ClusterClient::new(with.served.stranger.clone());
    cluster.allow_reaches(with.as_role(Role::Admin, grant)).await.unwrap();
    deploy.apply(with.as_role(Role::Deployer, reaching)).await.unwrap();
    with.stop().await;
}

/// R-CLI-7: who may not change a deployment is not told which contents its secrets have, as they could be mounted
/// elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn contents_of_secrets_are_not_told() {
    let with = WithTokens::start().await;
    let mut deploy = DeployClient::new(with.served.local.clone());
    let stored = v1::StoreContentRequest {
        kind: "secret".to_owned(),
        name: "key".to_owned(),
        content: Bytes::from_static(b"s"),
        ..v1::StoreContentRequest::default()
    };
    deploy.store_content(stored).await.unwrap();
    let uses = v1::ApplyRequest {
        compose_json:
            r#"{"name":"other","services":{"web":{"image":"web:5","secrets":[{"source":"key"}]}},
            "secrets":{"key":{"external":true,"name":"key"}}}"#
                .to_owned(),
        ..v1::ApplyRequest::default()
    };
    deploy.apply(uses).await.unwrap();
    let mut query = QueryClient::new(with.served.stranger.clone());
    let mut listed = DeployClient::new(with.served.stranger.clone());
    for role in ROLES {
        let request = v1::GetDeploymentRequest {
            name: "other".to_owned(),
            revision: 0,
            ..Default::default()
        };
        let found = query.get_deployment(with.as_role(role, request)).await.unwrap().into_inner();
        let told = found.secrets.iter().any(|secret| !secret.tree.is_empty());
        assert_eq!((found.secrets.len(), told), (1, role >= Role::Operator), "{role}");
        let request = v1::ListContentsRequest { kind: "secret".to_owned() };
        let found = listed.list_contents(with.as_role(role, request)).await.unwrap().into_inner();
        assert_eq!(!found.contents[0].tree.is_empty(), role >= Role::Operator, "{role}");
    }
    with.stop().await;
}

/// R-CLI-7, R-IN-5: a new secret is for no deployment of a deployer until it says so, with the same content; a new version
/// is for the same ones.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_for_the_deployments_that_they_list() {
    let with = WithTokens::start().await;
    let mut deploy = DeployClient::new(with.served.stranger.clone());
    let store = |content: &'static [u8], users| v1::StoreContentRequest {
        kind: "secret".to_owned(),
        name: "key".to_owned(),
        content: Bytes::from_static(content),
        users,
        ..v1::StoreContentRequest::default()
    };
    deploy.store_content(with.as_role(Role::Operator, store(b"s", None))).await.unwrap();
    let uses = |image: &str| v1::ApplyRequest {
        compose_json: format!(
            r#"{{"name":"shop","services":{{"web":{{"image":"{image}","secrets":[{{"source":"key"}}]}}}},
            "secrets":{{"key":{{"external":true,"name":"key"}}}}}}"#
        ),
        ..v1::ApplyRequest::default()
    };
    let refused = deploy.apply(with.as_role(Role::Deployer, uses("web:6"))).await.unwrap_err();
    assert_eq!(code(&refused), ErrorCode::PolicyRefused, "{refused}");
    assert!(refused.message().contains("jaco secret allow key shop"), "{refused}");

    let own = Some(v1::ContentUsers { all: false, deployments: vec!["shop".to_owned()] });
    let share = store(b"", own.clone());
    let denied = deploy.store_content(with.as_role(Role::Deployer, share.clone())).await;
    assert_eq!(code(&denied.unwrap_err()), ErrorCode::PermissionDenied);
    let kept = deploy.store_content(with.as_role(Role::Operator, share)).await.unwrap();
    assert_eq!(kept.into_inner().version, 1, "the content is the same");
    deploy.apply(with.as_role(Role::Deployer, uses("web:6"))).await.unwrap();
    deploy.store_content(with.as_role(Role::Operator, store(b"t", None))).await.unwrap();
    let request = v1::ListContentsRequest { kind: "secret".to_owned() };
    let listed = deploy.list_contents(with.as_role(Role::Viewer, request)).await.unwrap();
    let listed = listed.into_inner().contents;
    assert_eq!((listed[0].version, &listed[0].users), (2, &own));
    let both = Some(v1::ContentUsers { all: true, deployments: vec!["shop".to_owned()] });
    let invalid = deploy.store_content(with.as_role(Role::Operator, store(b"t", both))).await;
    assert_eq!(code(&invalid.unwrap_err()), ErrorCode::InvalidRequest);
    with.stop().await;
}

/// R-CLI-7: the leader checks by its own state what another member has let through: the role, and whether the token still
/// counts.
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_checks_what_is_forwarded() {
    let with = WithTokens::start().await;
    let forward = async |role: Role, method: &str, body: Vec<u8>| {
        let by = Identity::Operator { token: TokenId::new(role.as_str()).unwrap() };
        let message = v1::ForwardRequest {
            method: method.to_owned(),
            body: body.into(),
            identity: storage::encode_author(&Author { by, origin: None }),
        };
        let answered = PeerClient::new(with.served.member.clone()).forward(message).await;
        answered.err().map(|status| code(&status))
    };
    let (remove, delete) = ("/jaco.v1.Cluster/RemoveNetwork", "/jaco.v1.Deploy/Delete");
    let network = v1::RemoveNetworkRequest { name: "lan".to_owned(), ..Default::default() };
    let network = network.encode_to_vec();
    let other = v1::DeleteRequest { deployment: "other".to_owned(), ..Default::default() };
    let other = other.encode_to_vec();
    for role in [Role::Viewer, Role::Deployer] {
        for (method, body) in [(remove, &network), (delete, &other)] {
            let refused = forward(role, method, body.clone()).await;
            assert_eq!(refused, Some(ErrorCode::PermissionDenied), "{method} as {role}");
        }
    }
    let mut cluster = ClusterClient::new(with.served.local.clone());
    let request = v1::RevokeTokenRequest { name: "admin".to_owned(), ..Default::default() };
    assert_eq!(cluster.revoke_token(request).await.unwrap().into_inner().role, "admin");
    let refused = forward(Role::Admin, delete, other.clone()).await;
    assert_eq!(refused, Some(ErrorCode::TokenRevoked));
    assert_eq!(forward(Role::Operator, delete, other).await, None);
    with.stop().await;
}

/// R-CLI-6: the list of tokens says when each was last used, by one entry of the log for many uses, and never of one that was
/// not.
#[tokio::test(flavor = "multi_thread")]
async fn last_uses_are_listed() {
    let with = WithTokens::start().await;
    let mut query = QueryClient::new(with.served.stranger.clone());
    for _ in 0..3 {
        let request =
            with.as_role(Role::Viewer, v1::HistoryRequest { deployment: "shop".to_owned() });
        query.history(request).await.unwrap();
    }
    let mut cluster = ClusterClient::new(with.served.local.clone());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let tokens = loop {
        let tokens =
            cluster.list_tokens(v1::ListTokensRequest {}).await.unwrap().into_inner().tokens;
        let used = |token: &v1::TokenInfo| token.id == "viewer" && token.last_used_at_ms > 0;
        if tokens.iter().any(used) {
            break tokens;
        }
        assert!(tokio::time::Instant::now() < deadline, "{tokens:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let used = tokens.iter().filter(|token| token.last_used_at_ms > 0);
    assert_eq!(used.map(|token| token.id.as_str()).collect::<Vec<_>>(), ["viewer"]);
    let at =
        |tokens: &[v1::TokenInfo]| -> i64 { tokens.iter().map(|one| one.last_used_at_ms).sum() };
    let (index, recorded) = (with.served.node.store.read(|state| state.index), at(&tokens));
    let request = with.as_role(Role::Viewer, v1::HistoryRequest { deployment: "shop".to_owned() });
    query.history(request).await.unwrap();
    let tokens = cluster.list_tokens(v1::ListTokensRequest {}).await.unwrap().into_inner().tokens;
    assert_eq!(at(&tokens), recorded);
    assert_eq!(
        with.served.node.store.read(|state| state.index),
        index,
        "reading writes nothing more"
    );
    with.stop().await;
}
