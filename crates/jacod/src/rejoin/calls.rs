//! What a stopped node asks the other members, with the certificate of its membership.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use hyper_util::rt::TokioIo;
use jaco_pki::{CertificateStore, Credentials, Dialer};
use jaco_proto::v1;
use jaco_proto::v1::cluster_client::ClusterClient;
use jaco_server::status::from_status;
use jaco_types::{ErrorCode, Rejection};
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

/// How long all members together may refuse for a reason that passes, such as an election.
const PATIENCE: Duration = Duration::from_secs(15);
/// Pause after all of them were asked.
const PAUSE: Duration = Duration::from_millis(300);
/// Time limit of one call.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long the join token is good for, within which an interrupted run can be run again.
const TOKEN_SECS: u64 = 24 * 3600;

/// The other members.
pub(crate) struct Members {
    store: Arc<CertificateStore>,
    servers: Vec<String>,
}

/// Why a request was not carried out.
pub(crate) enum Refused {
    /// This node is no member any more.
    Removed,
    /// Anything else.
    Failed(anyhow::Error),
}

impl From<Refused> for anyhow::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Removed => anyhow!("this node was removed from its cluster"),
            Refused::Failed(error) => error,
        }
    }
}

impl Members {
    pub(crate) fn new(credentials: Credentials, servers: Vec<String>) -> anyhow::Result<Self> {
        Ok(Self { store: CertificateStore::new(credentials)?, servers })
    }

    /// The members as the cluster knows them now.
    pub(crate) async fn status(&self) -> Result<v1::ClusterStatusResponse, Refused> {
        self.ask(async |mut client| {
            let status = client.status(v1::ClusterStatusRequest {}).await?;
            match &status.get_ref().staleness {
                None => Ok(status),
                Some(stale) => Err(Status::unavailable(stale.reason.clone())),
            }
        })
        .await
    }

    /// A token that admits one node.
    pub(super) async fn join_token(&self) -> Result<String, Refused> {
        let request = v1::IssueJoinTokenRequest { ttl_secs: TOKEN_SECS, uses: 1 };
        let issued = self.ask(async |mut client| client.issue_join_token(request).await).await?;
        Ok(issued.token)
    }

    pub(super) async fn remove_node(&self, request: v1::RemoveNodeRequest) -> Result<(), Refused> {
        self.ask(async |mut client| client.remove_node(request.clone()).await).await.map(drop)
    }

    pub(super) async fn set_labels(&self, request: v1::SetLabelsRequest) -> Result<(), Refused> {
        self.ask(async |mut client| client.set_labels(request.clone()).await).await.map(drop)
    }

    pub(super) async fn set_availability(
        &self,
        request: v1::SetAvailabilityRequest,
    ) -> Result<(), Refused> {
        self.ask(async |mut client| client.set_availability(request.clone()).await).await.map(drop)
    }

    /// Asks one after the other until one answers, or refuses for a reason that does not pass.
    async fn ask<T>(
        &self,
        call: impl AsyncFn(ClusterClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, Refused> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut refusals = Vec::new();
            for server in &self.servers {
                let refused = match self.ask_one(server, &call).await {
                    Ok(answer) => return Ok(answer),
                    Err(refused) => refused,
                };
                if self.store.removal().is_cancelled() {
                    return Err(Refused::Removed);
                }
                if !passes(refused.code) {
                    return Err(Refused::Failed(anyhow!("{server}: {}", refused.message)));
                }
                refusals.push(format!("{server}: {}", refused.message));
            }
            if Instant::now() >= deadline {
                let message = format!(
                    "no member could do it ({}): bring back a majority of the voters, or name other members with --server",
                    refusals.join("; ")
                );
                return Err(Refused::Failed(anyhow!(message)));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn ask_one<T>(
        &self,
        server: &str,
        call: impl AsyncFn(ClusterClient<Channel>) -> Result<Response<T>, Status>,
    ) -> Result<T, Rejection> {
        let asked = async {
            let channel = self.connect(server).await?;
            call(ClusterClient::new(channel)).await.map_err(|status| from_status(&status))
        };
        let late = |_| Rejection::new(ErrorCode::TimedOut, "no answer in time");
        tokio::time::timeout(DEADLINE, asked).await.map_err(late)?.map(Response::into_inner)
    }

    async fn connect(&self, server: &str) -> Result<Channel, Rejection> {
        let (dialer, address) = (Dialer::member(Arc::clone(&self.store)), server.to_owned());
        let connect = tower::service_fn(move |_| {
            let (dialer, address) = (dialer.clone(), address.clone());
            async move { dialer.connect(address).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://member.internal");
        endpoint.connect_with_connector(connect).await.map_err(|error| {
            Rejection::new(ErrorCode::Unavailable, format!("{:#}", anyhow::Error::from(error)))
        })
    }
}

/// Whether another attempt, or another member, may have another answer.
const fn passes(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Unavailable
            | ErrorCode::NoLeader
            | ErrorCode::QuorumLost
            | ErrorCode::TimedOut
            | ErrorCode::Overloaded
            // A member that has applied the removal says so; one that refuses handshakes proves it.
            | ErrorCode::CertificateInvalid
    )
}
