//! `jaco get`

use std::collections::BTreeMap;

use jaco_proto::v1::{
    AllocationInfo, AllocationsRequest, DeploymentInfo, GetDeploymentRequest,
    GetDeploymentResponse, ReplicaInfo, StatusRequest,
};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::key_values;
use crate::ui::{Detail, Frame, Show};
use crate::view::{List, allocation, deployment, key_value, node, replica, without_null};
use crate::when;
use crate::yaml::to_yaml;

/// Show one kind of thing, or one thing
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco get replicas -o json
  jaco get deployment shop -o yaml
  jaco get replica shop-web-3")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// All deployments
    Deployments,
    /// One deployment with its spec, as the cluster keeps it
    Deployment {
        /// The deployment
        name: String,
        /// An earlier revision
        #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
        revision: u64,
    },
    /// All replicas
    Replicas {
        /// Only those of this deployment
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        deployment: String,
        /// Only those of this service
        #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
        service: String,
    },
    /// What services have on nodes
    #[command(after_long_help = "Examples:
  jaco get allocations --service shop/web
  jaco get allocations --node n2 -o wide
  jaco get allocations -o json")]
    Allocations {
        /// Only those of this service, as DEPLOYMENT/SERVICE or by its name alone
        #[arg(long, value_name = "SERVICE", default_value = "", hide_default_value = true)]
        service: String,
        /// Only those on this node
        #[arg(long, value_name = "HOST", default_value = "", hide_default_value = true)]
        node: String,
    },
    /// One replica
    Replica {
        /// Its id
        id: String,
    },
    /// What follows from reservations and from jaco.services.toml, by service
    ///
    /// The bounds and the reservation of memory in MB and of cpu in MHz, and every other key of the
    /// service's table; zero is no bound. Wide shows the variable that a key is read by in `${…}`.
    #[command(after_long_help = "Examples:
  jaco get kv
  jaco get kv --service shop/api -o wide
  jaco get kv -o json")]
    Kv {
        /// Only those of this service, as DEPLOYMENT/SERVICE or by its name alone
        #[arg(long, value_name = "SERVICE", default_value = "", hide_default_value = true)]
        service: String,
    },
    /// All nodes
    Nodes,
    /// One node
    Node {
        /// Its host name
        hostname: String,
    },
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    let client = context.client()?;
    match args.what {
        What::Deployments => {
            let status = client.overview(StatusRequest::default()).await?;
            let found = client.allocations(AllocationsRequest::default()).await?;
            let (deployments, allocations) = (&status.deployments, &found.allocations);
            context.done(&Deployments { deployments, allocations })
        }
        What::Deployment { name, revision } => {
            let request = GetDeploymentRequest { name, revision };
            let found = client.get_deployment(request).await?;
            context.done(&Spec::new(&found)?)
        }
        What::Replicas { deployment, service } => {
            let all =
                client.overview(StatusRequest { deployment, ..StatusRequest::default() }).await?;
            let wanted = |replica: &ReplicaInfo| service.is_empty() || replica.service == service;
            let items: Vec<_> = all.replicas.into_iter().filter(wanted).collect();
            context.done(&List { items: &items, json: replica::json, text: replica::table })
        }
        What::Allocations { service, node } => {
            let (deployment, service) = match service.split_once('/') {
                Some((deployment, service)) => (deployment.to_owned(), service.to_owned()),
                None => (String::new(), service),
            };
            let request = AllocationsRequest { deployment, service, node, with_removed: true };
            let found = client.allocations(request).await?;
            let unreachable: BTreeMap<_, _> = found.unreachable.iter().collect();
            for (node, why) in unreachable {
                context
                    .ui
                    .note(&format!("warning: what was removed from {node} is not listed: {why}"));
            }
            let items = &found.allocations;
            context.done(&List { items, json: allocation::json, text: allocation::table })
        }
        What::Replica { id } => {
            let status = client.overview(StatusRequest::default()).await?;
            let found = status.replicas.iter().find(|replica| replica.id == id);
            let missing = || not_found(ErrorCode::ReplicaNotFound, "replica", &id);
            context.done(&One::new(found.ok_or_else(missing)?, replica::json))
        }
        What::Kv { service } => {
            let status = client.overview(StatusRequest::default()).await?;
            let mut rows = Vec::new();
            for known in status.deployments {
                let request = GetDeploymentRequest { name: known.name, revision: 0 };
                rows.extend(key_values::of_deployment(&client.get_deployment(request).await?)?);
            }
            rows.retain(|row| {
                let alone = row.service.split_once('/').map_or("", |(_, name)| name);
                service.is_empty() || row.service == service || alone == service
            });
            context.done(&List { items: &rows, json: key_value::json, text: key_value::table })
        }
        What::Nodes => {
            let status = client.overview(StatusRequest::default()).await?;
            context.done(&List { items: &status.nodes, json: node::json, text: node::table })
        }
        What::Node { hostname } => {
            let status = client.overview(StatusRequest::default()).await?;
            let found = status.nodes.iter().find(|node| node.hostname == hostname);
            let missing = || not_found(ErrorCode::NodeNotFound, "node", &hostname);
            context.done(&One::new(found.ok_or_else(missing)?, node::json))
        }
    }
}

/// Deployments, each with the version of what it has on each node (R-SEL-5).
struct Deployments<'a> {
    deployments: &'a [DeploymentInfo],
    allocations: &'a [AllocationInfo],
}

impl Show for Deployments<'_> {
    fn json(&self) -> Value {
        let with_allocations = |known: &DeploymentInfo| {
            let own = self.allocations.iter().filter(|one| one.deployment == known.name);
            let mut json = deployment::json(known);
            json["allocations"] = own.map(allocation::json).collect();
            json
        };
        self.deployments.iter().map(with_allocations).collect()
    }

    fn text(&self, frame: &Frame) -> String {
        let mut text = deployment::table(self.deployments, frame);
        if frame.detail == Detail::Wide && !self.allocations.is_empty() {
            text.push('\n');
            text.push_str(&allocation::table(self.allocations, frame));
        }
        text
    }
}

fn not_found(code: ErrorCode, what: &str, name: &str) -> CliError {
    CliError::Refused { code, message: format!("there is no {what} {name}"), help: None }
}

/// One thing: people read all of it, too.
struct One {
    json: Value,
}

impl One {
    fn new<T>(item: &T, json: fn(&T) -> Value) -> Self {
        Self { json: json(item) }
    }
}

impl Show for One {
    fn json(&self) -> Value {
        self.json.clone()
    }

    fn text(&self, _: &Frame) -> String {
        to_yaml(&self.json)
    }
}

/// A stored spec.
struct Spec<'a> {
    found: &'a GetDeploymentResponse,
    compose: Value,
}

impl<'a> Spec<'a> {
    fn new(found: &'a GetDeploymentResponse) -> Result<Self, CliError> {
        let compose = serde_json::from_str(&found.compose_json).map_err(|error| {
            CliError::local("the cluster's compose model is not understood", error)
        })?;
        Ok(Self { found, compose })
    }
}

impl Show for Spec<'_> {
    fn json(&self) -> Value {
        let found = self.found;
        without_null(json!({
            "name": found.name,
            "revision": found.revision,
            "revisions": found.revisions,
            "applied_at": when::rfc3339(found.applied_at_ms),
            "applied_by": found.applied_by,
            "compose": self.compose,
            "overlay_yaml": found.overlay_yaml,
            "environment_toml": found.environment_toml,
        }))
    }

    /// As files that could be applied again.
    fn text(&self, _: &Frame) -> String {
        let found = self.found;
        let revisions: Vec<String> = found.revisions.iter().map(u64::to_string).collect();
        let mut text = format!(
            "# {}, revision {} of {}, applied {} by {}\n",
            found.name,
            found.revision,
            revisions.join(", "),
            when::rfc3339(found.applied_at_ms).unwrap_or_default(),
            found.applied_by,
        );
        text.push_str(&to_yaml(&self.compose));
        if !found.overlay_yaml.is_empty() {
            text.push_str("\n# jaco.yaml\n");
            text.push_str(found.overlay_yaml.trim_end());
            text.push('\n');
        }
        if !found.environment_toml.is_empty() {
            text.push_str("\n# jaco.services.toml\n");
            text.push_str(found.environment_toml.trim_end());
            text.push('\n');
        }
        text
    }
}
