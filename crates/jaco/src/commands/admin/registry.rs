//! `jaco registry`

use jaco_client::fresh_request_id;
use jaco_proto::v1::{ListRegistriesRequest, RemoveRegistryRequest, StoreRegistryRequest};
use jaco_types::RegistryName;
use serde_json::json;

use super::password::{self, PasswordSource};
use crate::error::CliError;
use crate::session::{CommandResult, Session};
use crate::view::{List, Summary, registry};

/// Manage credentials of image registries
///
/// All nodes pull images with these credentials. A password is encrypted before it is stored, and no
/// command prints it. Pulls that a registry refused are retried as soon as its credentials change.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco registry login ghcr.io -u robot
  jaco registry ls
  jaco registry logout ghcr.io")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Store credentials of a registry
    ///
    /// The credentials apply to all images of the registry and replace earlier ones. They are not
    /// verified: a replica whose image they do not give access to stays pending with the registry's error.
    /// The password is prompted for without echo, and never read from the command line.
    #[command(after_long_help = "Examples:
  jaco registry login ghcr.io -u robot
  jaco registry login localhost:5000 -u robot --password-stdin < password.txt
  jaco registry login docker.io -u team             images without a registry in their name")]
    Login {
        /// The registry, as in the names of images, with the port if they have one
        #[arg(value_name = "REGISTRY")]
        registry: String,
        /// The user at the registry
        #[arg(short, long, value_name = "USER")]
        username: String,
        /// Read the password from stdin; one line break at its end is removed
        #[arg(long)]
        password_stdin: bool,
    },
    /// Remove the credentials of a registry
    ///
    /// Running containers are not affected; later pulls are anonymous.
    #[command(
        aliases = ["rm", "remove", "delete"],
        after_long_help = "Examples:
  jaco registry logout ghcr.io"
    )]
    Logout {
        /// The registry
        #[arg(value_name = "REGISTRY")]
        registry: String,
    },
    /// List the registries that have credentials, without passwords
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco registry ls
  jaco registry ls -o json"
    )]
    Ls,
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Login { registry, username, password_stdin } => {
            let source =
                if password_stdin { PasswordSource::Stdin } else { PasswordSource::Prompt };
            login(session, &name(&registry)?, username, source).await
        }
        Action::Logout { registry } => logout(session, &name(&registry)?).await,
        Action::Ls => {
            let listed = session.client()?.list_registries(ListRegistriesRequest {}).await?;
            let items = &listed.registries;
            session.done(&List { items, json: registry::json, text: registry::table })
        }
    }
}

async fn login(
    session: &mut Session,
    name: &RegistryName,
    username: String,
    source: PasswordSource,
) -> CommandResult {
    let password = password::read(&mut session.ui, &format!("{username} at {name}"), source)?;
    let request = StoreRegistryRequest {
        registry: name.to_string(),
        username,
        password,
        request_id: fresh_request_id(),
        dry_run: false,
    };
    let stored = session.client()?.store_registry(request).await?.registry.unwrap_or_default();
    let text = format!("credentials of {} at {} stored\n", stored.username, stored.registry);
    session.done(&Summary { json: registry::json(&stored), text })
}

async fn logout(session: &mut Session, name: &RegistryName) -> CommandResult {
    let request =
        RemoveRegistryRequest { registry: name.to_string(), request_id: fresh_request_id() };
    let removed = session.client()?.remove_registry(request).await?;
    let (registry, username) = (&removed.registry, &removed.username);
    let summary = if username.is_empty() {
        let json = json!({ "registry": registry, "outcome": "absent" });
        Summary { json, text: format!("there are no credentials for {registry}\n") }
    } else {
        let json = json!({ "registry": registry, "username": username, "outcome": "removed" });
        Summary { json, text: format!("credentials of {username} at {registry} removed\n") }
    };
    session.done(&summary)
}

/// Parses the name before the password is prompted for.
fn name(text: &str) -> Result<RegistryName, CliError> {
    RegistryName::parse(text)
        .map_err(|invalid| CliError::usage(format!("{text:?} is not a registry"), invalid.rule))
}
