//! The names that a cluster has, within a time in which a shell may keep its user waiting.

use std::time::Duration;

use jaco_client::{Client, ClientError};
use jaco_proto::v1::{
    ListBackupSchedulesRequest, ListCertificatesRequest, ListContentsRequest, ListImagesRequest,
    ListNetworksRequest, ListNotifyTargetsRequest, ListRegistriesRequest, ListTokensRequest,
    ListVolumesRequest, StatusRequest, StatusResponse, StatusScope, TokenInfo,
};
use tokio::time::Instant;

use super::kind::Kind;
use crate::connect::{self, Contexts, Environment};
use crate::options::GlobalOptions;

/// The longest that a shell waits. A first server that is off costs 200 ms, a handshake three ways there and back.
const LIMIT: Duration = Duration::from_millis(500);

/// The names of a kind that begin with a word, sorted. Empty if the cluster cannot be asked, refuses, or does not answer
/// in time.
pub(super) fn of(kind: Kind, word: &str, options: &GlobalOptions) -> Vec<String> {
    let names: Vec<String> = if kind == Kind::Context {
        let contexts = Contexts::load_default().unwrap_or_default();
        contexts.contexts.into_keys().collect()
    } else {
        of_cluster(kind, word, options).unwrap_or_default()
    };
    let mut names: Vec<String> = names.into_iter().filter(|name| name.starts_with(word)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn of_cluster(kind: Kind, word: &str, options: &GlobalOptions) -> Option<Vec<String>> {
    let environment = Environment::of_process();
    let contexts = Contexts::load_default().ok()?;
    let choice = connect::choose(options, &environment, &contexts).ok()?;
    let target = connect::target(&choice, &environment).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let names = runtime.block_on(async {
        let client = Client::new(target).until(Some(Instant::now() + LIMIT));
        tokio::time::timeout(LIMIT, ask(kind, word, &client)).await
    });
    // A look-up of a server's name may go on for as long as it likes; nobody waits for it.
    runtime.shutdown_background();
    names.ok()?.ok()
}

async fn ask(kind: Kind, word: &str, client: &Client) -> Result<Vec<String>, ClientError> {
    Ok(match kind {
        Kind::Context => Vec::new(),
        Kind::Deployment => deployments(&status(client, StatusScope::Deployments).await?),
        Kind::Service => services(&status(client, StatusScope::Deployments).await?),
        Kind::DeploymentOrService => {
            let status = status(client, StatusScope::Deployments).await?;
            either(word, deployments(&status), services(&status))
        }
        Kind::Workload => {
            let status = status(client, StatusScope::Deployments).await?;
            let mut names = either(word, deployments(&status), services(&status));
            names.extend(replicas(word, &status, client).await?);
            names
        }
        Kind::ServiceOrReplica => {
            let status = status(client, StatusScope::Deployments).await?;
            let mut names = services(&status);
            names.extend(replicas(word, &status, client).await?);
            names
        }
        Kind::CopySide => {
            let status = status(client, StatusScope::Deployments).await?;
            let mut names = services(&status);
            names.extend(replicas(word, &status, client).await?);
            names.into_iter().map(|name| format!("{name}:")).collect()
        }
        Kind::Replica => {
            let status = status(client, StatusScope::Deployments).await?;
            let found = replicas(word, &status, client).await?;
            // Too short a word for replicas: the services that it may go on with.
            if found.is_empty() { prefixes(&status) } else { found }
        }
        Kind::Node => {
            let nodes = status(client, StatusScope::Nodes).await?.nodes;
            nodes.into_iter().map(|node| node.hostname).collect()
        }
        Kind::Token => {
            let tokens = tokens(client).await?.into_iter();
            tokens.filter(|token| token.role != "join").map(|token| token.id).collect()
        }
        Kind::AnyToken => tokens(client).await?.into_iter().map(|token| token.id).collect(),
        Kind::Config => contents("config", client).await?,
        Kind::Secret => contents("secret", client).await?,
        Kind::Network => networks(client).await?,
        Kind::SharedNetwork => {
            let names = networks(client).await?;
            names.into_iter().filter(|name| !name.contains('/')).collect()
        }
        Kind::Registry => {
            let known = client.list_registries(ListRegistriesRequest {}).await?.registries;
            known.into_iter().map(|registry| registry.registry).collect()
        }
        Kind::Certificate => {
            let known = client.list_certificates(ListCertificatesRequest {}).await?.certificates;
            known.into_iter().map(|certificate| certificate.name).collect()
        }
        Kind::NotifyTarget => {
            let known = client.list_notify_targets(ListNotifyTargetsRequest {}).await?.targets;
            known.into_iter().map(|target| target.name).collect()
        }
        Kind::BackupSchedule => {
            let known = client.list_backup_schedules(ListBackupSchedulesRequest::default()).await?;
            known.schedules.into_iter().map(|schedule| schedule.name).collect()
        }
        Kind::Image => {
            let known = client.list_images(ListImagesRequest::default()).await?.images;
            known.into_iter().flat_map(|image| image.names).collect()
        }
        Kind::Volume => {
            let known = client.list_volumes(ListVolumesRequest::default()).await?.volumes;
            let named = known.into_iter().map(|one| format!("{}/{}", one.deployment, one.volume));
            named.collect()
        }
    })
}

async fn status(client: &Client, scope: StatusScope) -> Result<StatusResponse, ClientError> {
    client.read_status(StatusRequest { scope: scope.into(), ..StatusRequest::default() }).await
}

fn deployments(status: &StatusResponse) -> Vec<String> {
    status.deployments.iter().map(|deployment| deployment.name.clone()).collect()
}

/// As in `shop/web`.
fn services(status: &StatusResponse) -> Vec<String> {
    joined(status, '/').map(|(name, _, _)| name).collect()
}

/// What the ids of a service's replicas begin with, as in `shop-web-`.
fn prefixes(status: &StatusResponse) -> Vec<String> {
    joined(status, '-').map(|(name, _, _)| format!("{name}-")).collect()
}

/// Deployment and service, joined by a character, with both names.
fn joined(status: &StatusResponse, by: char) -> impl Iterator<Item = (String, &str, &str)> {
    status.deployments.iter().flat_map(move |deployment| {
        let name = &deployment.name;
        let services = deployment.services.iter();
        services.map(move |service| {
            (format!("{name}{by}{}", service.name), name.as_str(), service.name.as_str())
        })
    })
}

/// Services once a deployment is chosen, deployments before: a list of both is longer than anybody reads.
fn either(word: &str, deployments: Vec<String>, services: Vec<String>) -> Vec<String> {
    if word.contains('/') {
        return services;
    }
    let only = deployments.iter().filter(|name| name.starts_with(word)).count() == 1;
    if only { deployments.into_iter().chain(services).collect() } else { deployments }
}

/// The ids of replicas of the one service that the word names already: a cluster may have 100,000 of them.
async fn replicas(
    word: &str,
    status: &StatusResponse,
    client: &Client,
) -> Result<Vec<String>, ClientError> {
    let mut names = Vec::new();
    let services = joined(status, '-').filter(|(prefix, _, _)| {
        word.strip_prefix(prefix.as_str()).is_some_and(|rest| rest.starts_with('-'))
    });
    for (_, deployment, service) in services {
        let request = StatusRequest {
            deployment: deployment.to_owned(),
            service: service.to_owned(),
            ..StatusRequest::default()
        };
        let replicas = client.read_status(request).await?.replicas;
        names.extend(replicas.into_iter().map(|replica| replica.id));
    }
    Ok(names)
}

/// Those that are not revoked.
async fn tokens(client: &Client) -> Result<Vec<TokenInfo>, ClientError> {
    let mut tokens = client.list_tokens(ListTokensRequest {}).await?.tokens;
    tokens.retain(|token| token.revoked_at_ms == 0);
    Ok(tokens)
}

async fn contents(kind: &str, client: &Client) -> Result<Vec<String>, ClientError> {
    let request = ListContentsRequest { kind: kind.to_owned() };
    let contents = client.list_contents(request).await?.contents;
    Ok(contents.into_iter().map(|content| content.name).collect())
}

async fn networks(client: &Client) -> Result<Vec<String>, ClientError> {
    let networks = client.list_networks(ListNetworksRequest::default()).await?.networks;
    Ok(networks.into_iter().map(|network| network.name).collect())
}
