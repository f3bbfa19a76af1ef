//! A cluster of real daemons, reached as operators reach it: over TLS, with a token.

use std::time::Duration;

use anyhow::{Context, Result};
use jaco_client::{Client, Target, fresh_request_id};
use jaco_pki::{OperatorToken, TrustBundle};
use jaco_proto::v1;
use jaco_testkit::{Cluster, Engine, eventually, eventually_within};

use crate::docker::Leftovers;

/// How many nodes, here and of those we are compared with.
pub(crate) const NODES: usize = 3;

/// A cluster, and what it takes to be let in.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) cluster: Cluster,
    /// Below the cluster, because the daemons end first.
    _leftovers: Option<Leftovers>,
    pub(crate) id: String,
    /// The token of its first operator.
    pub(crate) token: String,
    /// The certificate of its authority.
    pub(crate) authority_pem: String,
    trust: TrustBundle,
}

impl Ours {
    /// Three daemons that are one settled cluster.
    pub(crate) async fn start(engine: Engine) -> Result<Self> {
        let mut cluster = Cluster::without_nodes(engine);
        for _ in 0..NODES {
            cluster.add_daemon();
        }
        Self::form(cluster, engine).await
    }

    /// Makes daemons that were started one settled cluster.
    pub(crate) async fn form(cluster: Cluster, engine: Engine) -> Result<Self> {
        let first = cluster.nodes[0].client();
        eventually("the first daemon answers", || async {
            first.status(v1::ClusterStatusRequest {}).await.map_err(|error| error.to_string())
        })
        .await;
        let born = first.init(v1::InitRequest::default()).await.context("cluster init")?;
        for node in 1..cluster.nodes.len() {
            cluster.join(node).await;
        }
        cluster.settled().await;
        let trust = TrustBundle::from_pem(&born.ca_certificate_pem).context("the cluster's CA")?;
        let (id, token) = (born.cluster_id, born.operator_token);
        let _leftovers = (engine == Engine::Docker).then(|| Leftovers::of_cluster(&id));
        let authority_pem = born.ca_certificate_pem;
        Ok(Self { cluster, _leftovers, id, token, authority_pem, trust })
    }

    /// A client of one node, with a connection of its own.
    pub(crate) fn client(&self, node: usize) -> Result<Client> {
        let server = self.cluster.nodes[node].address.clone();
        let token: OperatorToken = self.token.parse().context("the operator token")?;
        Ok(Client::new(Target::servers(&[server], self.trust.clone(), token)?))
    }

    /// The index up to which the cluster has agreed.
    pub(crate) async fn raft_index(&self) -> Result<u64> {
        let leader = self.cluster.leader().await;
        let client = self.cluster.nodes[leader].client();
        let status = client.status(v1::ClusterStatusRequest {}).await?;
        Ok(status.raft_index)
    }

    /// Applies a compose model, as JSON.
    pub(crate) async fn apply(&self, client: &Client, model: serde_json::Value) -> Result<()> {
        let request = v1::ApplyRequest {
            compose_json: model.to_string(),
            request_id: fresh_request_id(),
            ..v1::ApplyRequest::default()
        };
        client.apply(request).await.context("apply")?;
        Ok(())
    }

    /// Waits until so many replicas of a deployment are running.
    pub(crate) async fn running(&self, deployment: &str, wanted: usize, limit: Duration) {
        eventually_within(limit, "all replicas are running", || async {
            let status = self.cluster.overview(0).await?;
            let replicas = status.replicas.iter().filter(|each| each.deployment == deployment);
            let running = replicas.filter(|each| each.state == "running").count();
            if running == wanted { Ok(()) } else { Err(format!("{running} of {wanted}")) }
        })
        .await;
    }
}

/// A change of the replicated state that every node sees and the audit log keeps, with a request id
/// of its own: a label that a node has not had before. What changed nothing would write nothing.
pub(crate) async fn write(client: &Client) -> Result<()> {
    let request_id = fresh_request_id();
    let set = [("bench".to_owned(), request_id.clone())].into();
    let request =
        v1::SetLabelsRequest { hostname: "n3".to_owned(), set, unset: Vec::new(), request_id };
    client.set_labels(request).await?;
    Ok(())
}

/// A read that sees every write acknowledged before it was asked.
pub(crate) async fn read(client: &Client) -> Result<()> {
    let request = v1::StatusRequest {
        deployment: "none".to_owned(),
        linearizable: true,
        ..v1::StatusRequest::default()
    };
    client.read_status(request).await?;
    Ok(())
}
