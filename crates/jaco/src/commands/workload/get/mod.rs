//! `jaco get`

mod deployments;
mod key_values;

use std::collections::BTreeMap;

use jaco_client::Client;
use jaco_proto::v1::{
    AllocationsRequest, ExamineRequest, GetDeploymentRequest, JobsRequest, ReplicaInfo,
    StatusRequest, StatusScope,
};
use jaco_types::ErrorCode;
use serde_json::Value;

use self::deployments::{Deployments, StoredSpec};
use crate::error::CliError;
use crate::format::yaml::to_yaml;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::node_reasons::{self, ListedNode};
use crate::view::replica::{self, Replicas};
use crate::view::{List, allocation, job};

/// Show objects of one kind, or one object
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco get replicas -o json
  jaco get deployment shop -o yaml
  jaco get replica shop-web-3")]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    /// List the deployments
    #[command(after_long_help = "Examples:
  jaco get deployments
  jaco get deployments -o wide     with the version on each node")]
    Deployments,
    /// Show the stored spec of a deployment
    #[command(after_long_help = "Examples:
  jaco get deployment shop
  jaco get deployment shop --revision 4 -o yaml")]
    Deployment {
        /// The deployment
        name: String,
        /// An earlier revision
        #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
        revision: u64,
    },
    /// List the replicas
    #[command(after_long_help = "Examples:
  jaco get replicas
  jaco get replicas --deployment shop --service web -o wide")]
    Replicas {
        /// Only replicas of this deployment
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        deployment: String,
        /// Only replicas of this service
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        service: String,
    },
    /// List the allocations of services on nodes
    ///
    /// Includes disabled allocations, and removed ones that left volumes or logs on a node.
    #[command(after_long_help = "Examples:
  jaco get allocations --service shop/web
  jaco get allocations --node n2 -o wide
  jaco get allocations -o json")]
    Allocations {
        /// Only allocations of this service: DEPLOYMENT/SERVICE or its name alone
        #[arg(long, value_name = "SERVICE", default_value = "", hide_default_value = true)]
        service: String,
        /// Only allocations on this node
        #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
        node: String,
    },
    /// List the jobs, with their schedules and last runs
    #[command(after_long_help = "Examples:
  jaco get jobs
  jaco get jobs --deployment shop -o json")]
    Jobs {
        /// Only jobs of this deployment
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        deployment: String,
    },
    /// Show one job with its runs, and what was missed and why
    #[command(after_long_help = "Examples:
  jaco get job shop/report
  jaco get job shop/report -o json")]
    Job {
        /// The job
        #[arg(value_name = "DEPLOYMENT/SERVICE")]
        of: String,
    },
    /// Show one replica
    #[command(after_long_help = "Examples:
  jaco get replica shop-web-3
  jaco get replica shop-web-3 -o json")]
    Replica {
        /// The replica's id
        id: String,
    },
    /// List the resource values and variables of services
    ///
    /// Shows bounds and reservation of memory in MB and of CPU in MHz, and every other key of the
    /// service's table in jaco.services.toml. Values that are not set are left out of the table. With
    /// -o wide the variable is shown that `${…}` reads the key by.
    #[command(after_long_help = "Examples:
  jaco get kv
  jaco get kv --service shop/api -o wide
  jaco get kv -o json")]
    Kv {
        /// Only values of this service: DEPLOYMENT/SERVICE or its name alone
        #[arg(long, value_name = "SERVICE", default_value = "", hide_default_value = true)]
        service: String,
    },
    /// List the nodes
    #[command(after_long_help = "Examples:
  jaco get nodes
  jaco get nodes -o wide")]
    Nodes,
    /// Show one node
    #[command(after_long_help = "Examples:
  jaco get node n1
  jaco get node n1 -o json")]
    Node {
        /// The node's host name
        hostname: String,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let client = session.client()?;
    match args.kind {
        Kind::Deployments => {
            let status = client.read_status(scoped(StatusScope::Deployments)).await?;
            let found = client.allocations(AllocationsRequest::default()).await?;
            let (deployments, allocations) = (&status.deployments, &found.allocations);
            session.done(&Deployments { deployments, allocations })
        }
        Kind::Deployment { name, revision } => {
            let request = GetDeploymentRequest { name, revision, ..Default::default() };
            let stored = client.get_deployment(request).await?;
            session.done(&StoredSpec::new(&stored)?)
        }
        Kind::Replicas { deployment, service } => {
            let request = StatusRequest { deployment, ..StatusRequest::default() };
            let all = client.read_status(request).await?.replicas;
            let is_asked = |replica: &ReplicaInfo| service.is_empty() || replica.service == service;
            let items: Vec<_> = all.into_iter().filter(is_asked).collect();
            session.done(&Replicas(&items))
        }
        Kind::Allocations { service, node } => allocations(session, &client, service, node).await,
        Kind::Jobs { deployment } => {
            let request = JobsRequest { deployment, service: String::new() };
            let jobs = client.jobs(request).await?.jobs;
            session.done(&List { items: &jobs, json: job::json, text: job::table })
        }
        Kind::Job { of } => {
            let missing = || not_found(ErrorCode::ServiceNotFound, "job", &of);
            let (deployment, service) = of.split_once('/').ok_or_else(missing)?;
            let (deployment, service) = (deployment.to_owned(), service.to_owned());
            let found = client.jobs(JobsRequest { deployment, service }).await?.jobs;
            session.done(&job::Job(found.first().ok_or_else(missing)?))
        }
        Kind::Replica { id } => {
            let status = client.read_status(StatusRequest::default()).await?;
            let found = status.replicas.iter().find(|replica| replica.id == id);
            let missing = || not_found(ErrorCode::ReplicaNotFound, "replica", &id);
            session.done(&Object { json: replica::json(found.ok_or_else(missing)?) })
        }
        Kind::Kv { service } => key_values(session, &client, &service).await,
        Kind::Nodes => show_nodes(session).await,
        Kind::Node { hostname } => show_node(session, &hostname).await,
    }
}

/// Lists the nodes; also `jaco node ls`.
pub(crate) async fn show_nodes(session: &mut Session) -> CommandResult {
    let nodes = nodes(session).await?;
    let text = node_reasons::listed_table;
    session.done(&List { items: &nodes, json: node_reasons::listed_json, text })
}

/// Shows one node; also `jaco node get`.
pub(crate) async fn show_node(session: &mut Session, hostname: &str) -> CommandResult {
    let nodes = nodes(session).await?;
    let found = nodes.iter().find(|node| node.hostname() == hostname);
    let missing = || not_found(ErrorCode::NodeNotFound, "node", hostname);
    session.done(&Object { json: node_reasons::listed_json(found.ok_or_else(missing)?) })
}

async fn nodes(session: &mut Session) -> Result<Vec<ListedNode>, CliError> {
    let client = session.client()?;
    let leader = ExamineRequest { scope: "leader".to_owned() };
    let asked =
        tokio::join!(client.read_status(scoped(StatusScope::Nodes)), client.examine(leader));
    let (status, leader) = (asked.0?, asked.1);
    // A node of an earlier version does not ask it; what is known of the nodes is worth listing all the same.
    let leader = leader.unwrap_or_default().nodes.into_iter().next().unwrap_or_default();
    Ok(node_reasons::listed(status.nodes, &leader.voters))
}

async fn allocations(
    session: &mut Session,
    client: &Client,
    service: String,
    node: String,
) -> CommandResult {
    let (deployment, service) = match service.split_once('/') {
        Some((deployment, service)) => (deployment.to_owned(), service.to_owned()),
        None => (String::new(), service),
    };
    let request = AllocationsRequest { deployment, service, node, with_removed: true };
    let found = client.allocations(request).await?;
    let unreachable: BTreeMap<_, _> = found.unreachable.iter().collect();
    for (node, why) in unreachable {
        let warning = format!("warning: removed allocations on {node} are not listed: {why}");
        session.ui.note(&warning);
    }
    let items = &found.allocations;
    session.done(&List { items, json: allocation::json, text: allocation::table })
}

async fn key_values(session: &mut Session, client: &Client, service: &str) -> CommandResult {
    let status = client.read_status(scoped(StatusScope::Deployments)).await?;
    let mut rows = Vec::new();
    for deployment in status.deployments {
        let request =
            GetDeploymentRequest { name: deployment.name, revision: 0, ..Default::default() };
        rows.extend(key_values::of_deployment(&client.get_deployment(request).await?)?);
    }
    rows.retain(|row| {
        let name = row.service.split_once('/').map_or("", |(_, name)| name);
        service.is_empty() || row.service == service || name == service
    });
    session.done(&List { items: &rows, json: key_values::json, text: key_values::table })
}

/// Everything of a kind, of all deployments.
fn scoped(scope: StatusScope) -> StatusRequest {
    StatusRequest { scope: scope.into(), ..StatusRequest::default() }
}

fn not_found(code: ErrorCode, kind: &str, name: &str) -> CliError {
    CliError::Refused { code, message: format!("there is no {kind} {name}"), help: None }
}

/// One object with all its fields, which are printed as YAML.
struct Object {
    json: Value,
}

impl Show for Object {
    fn json(&self) -> Value {
        self.json.clone()
    }

    fn text(&self, _: &Frame) -> String {
        to_yaml(&self.json)
    }
}
