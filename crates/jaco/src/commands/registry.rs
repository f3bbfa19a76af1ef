//! `jaco registry`

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ListRegistriesRequest, RemoveRegistryRequest, StoreRegistryRequest};
use jaco_types::RegistryName;
use serde_json::json;

use super::{Context, Done};
use crate::error::CliError;
use crate::password::{self, Source};
use crate::view::{List, Said, registry};

/// Keep credentials of image registries in the cluster, for every node's pulls
///
/// A password is sealed before it is stored, and no command shows it. Pulls that a registry refused are
/// tried again as soon as its credentials change.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Store credentials of a registry, or others in their place
    ///
    /// They are for all images of the registry, and not tried here: a replica whose image they do not
    /// open waits, and says what the registry says. The password is asked for, and not shown; it is
    /// never taken from the command line.
    #[command(after_long_help = "Examples:
  jaco registry login ghcr.io -u robot
  jaco registry login localhost:5000 -u robot --password-stdin < password.txt
  jaco registry login docker.io -u team             images that name no registry")]
    Login {
        /// The registry as images name it, with its port if they do
        #[arg(value_name = "REGISTRY")]
        registry: String,
        /// Who the cluster is there
        #[arg(short, long, value_name = "USER")]
        username: String,
        /// Take the password from stdin; a line break at its end is not part of it
        #[arg(long)]
        password_stdin: bool,
    },
    /// Forget the credentials of a registry
    ///
    /// What runs goes on; what is pulled from now on is pulled as nobody.
    #[command(after_long_help = "Examples:
  jaco registry logout ghcr.io")]
    Logout {
        /// The registry
        #[arg(value_name = "REGISTRY")]
        registry: String,
    },
    /// List the registries that have credentials, without passwords
    #[command(
        visible_alias = "ls",
        after_long_help = "Examples:
  jaco registry list
  jaco registry list -o json"
    )]
    List,
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    match args.what {
        What::Login { registry, username, password_stdin } => {
            let source = if password_stdin { Source::Stdin } else { Source::Prompt };
            login(context, &name(&registry)?, username, source).await
        }
        What::Logout { registry } => logout(context, &name(&registry)?).await,
        What::List => {
            let listed = context.client()?.list_registries(ListRegistriesRequest {}).await?;
            let items = &listed.registries;
            context.done(&List { items, json: registry::json, text: registry::table })
        }
    }
}

async fn login(
    context: &mut Context,
    name: &RegistryName,
    username: String,
    source: Source,
) -> Done {
    let password = password::read(&mut context.ui, &format!("{username} at {name}"), source)?;
    let request = StoreRegistryRequest {
        registry: name.to_string(),
        username,
        password,
        request_id: fresh_request_id(),
        dry_run: false,
    };
    let stored = context.client()?.store_registry(request).await?.registry.unwrap_or_default();
    let text = format!("credentials of {} at {} are stored\n", stored.username, stored.registry);
    context.done(&Said { json: registry::json(&stored), text })
}

async fn logout(context: &mut Context, name: &RegistryName) -> Done {
    let request =
        RemoveRegistryRequest { registry: name.to_string(), request_id: fresh_request_id() };
    let removed = context.client()?.remove_registry(request).await?;
    let (registry, username) = (&removed.registry, &removed.username);
    let said = if username.is_empty() {
        let json = json!({ "registry": registry, "outcome": "absent" });
        Said { json, text: format!("there are no credentials of {registry}\n") }
    } else {
        let json = json!({ "registry": registry, "username": username, "outcome": "removed" });
        Said { json, text: format!("credentials of {username} at {registry} removed\n") }
    };
    context.done(&said)
}

/// Read before anything is asked: a password should not be typed for a name that cannot be meant.
fn name(text: &str) -> Result<RegistryName, CliError> {
    RegistryName::parse(text)
        .map_err(|invalid| CliError::usage(format!("{text:?} is no registry"), invalid.rule))
}
