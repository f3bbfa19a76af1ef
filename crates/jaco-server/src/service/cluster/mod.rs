//! The cluster service: bootstrap, members, tokens, and settings of the whole cluster.

mod backup_schedules;
mod constraints;
pub(super) mod disabled;
mod edges;
mod join;
mod kek;
mod labels;
mod network_key;
pub(crate) mod networks;
mod nodes;
pub(super) mod notify;
mod notify_store;
mod operator_certificates;
mod policy;
mod registries;
mod retention;
mod rotation;
mod routes;
mod sign_in;
pub(super) mod status;
mod tokens;
pub(super) mod volumes;

use std::sync::Arc;

use async_trait::async_trait;
use jaco_proto::v1;
use jaco_proto::v1::cluster_server::Cluster;
use jaco_types::{Author, ErrorCode, Identity, Rejection};
use tonic::{Request, Response, Status};

pub(in crate::service) use self::nodes::find_node;
use super::context::{Context, on_leader};
use crate::auth::connection::Caller;
use crate::auth::{address, asked_from, caller};
use crate::forward;
use crate::member::Lifecycle;
use crate::status::to_status;

/// The service.
#[allow(missing_debug_implementations, reason = "holds a trait object that has nothing to show")]
pub(crate) struct ClusterService {
    context: Context,
    lifecycle: Arc<dyn Lifecycle>,
}

impl ClusterService {
    /// The service over this context; `lifecycle` makes the node a member.
    #[must_use]
    pub(crate) fn new(context: Context, lifecycle: Arc<dyn Lifecycle>) -> Self {
        Self { context, lifecycle }
    }
}

#[async_trait]
impl Cluster for ClusterService {
    jaco_proto::leader_methods!(Cluster, on_leader);

    async fn init(
        &self,
        request: Request<v1::InitRequest>,
    ) -> Result<Response<v1::InitResponse>, Status> {
        let by = local_only(&request)?;
        let done = self.lifecycle.init(request.into_inner(), by).await;
        done.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn join_cluster(
        &self,
        request: Request<v1::JoinClusterRequest>,
    ) -> Result<Response<v1::JoinClusterResponse>, Status> {
        local_only(&request)?;
        let request = request.into_inner();
        let done = self.lifecycle.join(&request.server, &request.token).await;
        done.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn admit_node(
        &self,
        request: Request<v1::AdmitNodeRequest>,
    ) -> Result<Response<v1::AdmitNodeResponse>, Status> {
        let member = self.context.member().map_err(|rejection| to_status(&rejection))?;
        let caller = caller(&request)?;
        let from = address(caller);
        let nobody =
            Author { by: Identity::Anonymous, origin: Some(asked_from(caller, member.id)) };
        // The token in the request is the credential.
        let admitted = forward::write(&member, nobody, request.into_inner()).await;
        admitted.map(Response::new).map_err(|rejection| {
            member.refusals.note(&from, &Identity::Anonymous, &rejection);
            to_status(&rejection)
        })
    }

    async fn status(
        &self,
        request: Request<v1::ClusterStatusRequest>,
    ) -> Result<Response<v1::ClusterStatusResponse>, Status> {
        let uninitialized = v1::ClusterStatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..v1::ClusterStatusResponse::default()
        };
        if self.context.member().is_err() {
            return Ok(Response::new(uninitialized));
        }
        let (member, _) = self.context.identify(&request)?;
        Ok(Response::new(status::cluster_status(&member).await))
    }

    async fn renew_operator_certificate(
        &self,
        request: Request<v1::RenewOperatorCertificateRequest>,
    ) -> Result<Response<v1::RenewOperatorCertificateResponse>, Status> {
        let (member, author) = self.context.identify(&request)?;
        operator_certificates::renew(&member, &author, &request.into_inner())
            .await
            .map(Response::new)
            .map_err(|rejection| to_status(&rejection))
    }

    async fn list_tokens(
        &self,
        request: Request<v1::ListTokensRequest>,
    ) -> Result<Response<v1::ListTokensResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let tokens = member.store.read(tokens::list);
        Ok(Response::new(v1::ListTokensResponse { tokens }))
    }

    async fn get_disabled(
        &self,
        request: Request<v1::GetDisabledRequest>,
    ) -> Result<Response<v1::GetDisabledResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let disabled = member.store.read(disabled::of_cluster);
        Ok(Response::new(v1::GetDisabledResponse { disabled }))
    }

    async fn collect_volumes(
        &self,
        request: Request<v1::CollectVolumesRequest>,
    ) -> Result<Response<v1::CollectVolumesResponse>, Status> {
        let (member, by) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let collected = volumes::collect(&member, by, request.into_inner()).await;
        collected.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn get_constraints(
        &self,
        request: Request<v1::GetConstraintsRequest>,
    ) -> Result<Response<v1::GetConstraintsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let pairs = member.store.read(constraints::of_cluster);
        Ok(Response::new(v1::GetConstraintsResponse { pairs }))
    }

    async fn list_registries(
        &self,
        request: Request<v1::ListRegistriesRequest>,
    ) -> Result<Response<v1::ListRegistriesResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let registries = member.store.read(registries::list);
        Ok(Response::new(v1::ListRegistriesResponse { registries }))
    }

    async fn list_notify_targets(
        &self,
        request: Request<v1::ListNotifyTargetsRequest>,
    ) -> Result<Response<v1::ListNotifyTargetsResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let targets = member.store.read(notify::list);
        Ok(Response::new(v1::ListNotifyTargetsResponse { targets }))
    }

    async fn list_backup_schedules(
        &self,
        request: Request<v1::ListBackupSchedulesRequest>,
    ) -> Result<Response<v1::ListBackupSchedulesResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let reached = member.reached(request.get_ref().min_index).await;
        reached.map_err(|rejection| to_status(&rejection))?;
        let now = member.clock.now();
        let schedules = member.store.read(|state| backup_schedules::list(state, now));
        Ok(Response::new(v1::ListBackupSchedulesResponse { schedules }))
    }

    async fn list_undelivered(
        &self,
        request: Request<v1::ListUndeliveredRequest>,
    ) -> Result<Response<v1::ListUndeliveredResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let target = request.into_inner().target;
        let found = member.store.read(|state| notify::undelivered(state, &target));
        let notifications = found.map_err(|rejection| to_status(&rejection))?;
        Ok(Response::new(v1::ListUndeliveredResponse { notifications }))
    }

    async fn get_policy(
        &self,
        request: Request<v1::GetPolicyRequest>,
    ) -> Result<Response<v1::GetPolicyResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let policy = Some(member.store.read(policy::info));
        Ok(Response::new(v1::GetPolicyResponse { policy }))
    }

    async fn rotate_network_key(
        &self,
        request: Request<v1::RotateNetworkKeyRequest>,
    ) -> Result<Response<v1::RotateNetworkKeyResponse>, Status> {
        let (member, by) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let rotated = network_key::rotate(&member, by, request.into_inner()).await;
        rotated.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn get_authority(
        &self,
        request: Request<v1::GetAuthorityRequest>,
    ) -> Result<Response<v1::GetAuthorityResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let authority = member.store.read(rotation::authority);
        authority.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn get_kek_rotation(
        &self,
        request: Request<v1::GetKekRotationRequest>,
    ) -> Result<Response<v1::GetKekRotationResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let rotation = member.store.read(kek::info);
        Ok(Response::new(v1::GetKekRotationResponse { rotation }))
    }

    async fn list_networks(
        &self,
        request: Request<v1::ListNetworksRequest>,
    ) -> Result<Response<v1::ListNetworksResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let (request, now) = (request.into_inner(), member.clock.now());
        let listed = member.store.read(|state| networks::list(state, &request, now));
        listed.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn list_routes(
        &self,
        request: Request<v1::ListRoutesRequest>,
    ) -> Result<Response<v1::ListRoutesResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        let listed = routes::list(&member, request.into_inner()).await;
        listed.map(Response::new).map_err(|rejection| to_status(&rejection))
    }

    async fn list_certificates(
        &self,
        request: Request<v1::ListCertificatesRequest>,
    ) -> Result<Response<v1::ListCertificatesResponse>, Status> {
        let (member, _) = self.context.identify(&request)?;
        member.caught_up().await.map_err(|rejection| to_status(&rejection))?;
        let certificates = member.store.read(edges::list_certificates);
        Ok(Response::new(v1::ListCertificatesResponse { certificates }))
    }

    async fn issue_sign_in_link(
        &self,
        request: Request<v1::IssueSignInLinkRequest>,
    ) -> Result<Response<v1::IssueSignInLinkResponse>, Status> {
        let (member, author) = self.context.identify(&request)?;
        sign_in::link(&member, author.by, caller(&request)?, request.metadata())
            .map(Response::new)
            .map_err(|rejection| to_status(&rejection))
    }
}

/// Only a local user may make the machine a member of a cluster.
fn local_only<T>(request: &Request<T>) -> Result<Identity, Status> {
    match caller(request)? {
        Caller::Unix { uid } => Ok(Identity::Local { uid: *uid }),
        Caller::Tls { .. } | Caller::Browser { .. } => {
            let message = "this rpc is for local users: run the command on the node itself, over its unix \
                           socket";
            Err(to_status(&Rejection::new(ErrorCode::PermissionDenied, message)))
        }
    }
}
