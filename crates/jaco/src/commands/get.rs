//! `jaco get`

use jaco_proto::v1::{GetDeploymentRequest, GetDeploymentResponse, ReplicaInfo, StatusRequest};
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::error::CliError;
use crate::ui::{Frame, Show};
use crate::view::{List, deployment, node, replica, without_null};
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
    /// One replica
    Replica {
        /// Its id
        id: String,
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
            let list = List {
                items: &status.deployments,
                json: deployment::json,
                text: deployment::table,
            };
            context.done(&list)
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
        What::Replica { id } => {
            let status = client.overview(StatusRequest::default()).await?;
            let found = status.replicas.iter().find(|replica| replica.id == id);
            let missing = || not_found(ErrorCode::ReplicaNotFound, "replica", &id);
            context.done(&One::new(found.ok_or_else(missing)?, replica::json))
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
