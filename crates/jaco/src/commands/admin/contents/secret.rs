//! `jaco secret`

use std::path::PathBuf;

use jaco_proto::v1::ContentUsers;
use jaco_types::NamedKind;

use super::actions;
use crate::session::{CommandResult, Session};

/// Manage secrets that compose files refer to by name
///
/// A compose file refers to a secret with `external: true`, and gets the newest version when it is
/// applied. After a new version is stored, the next `jaco apply` rolls the services that use it. A secret
/// is encrypted before it is stored, and no command prints it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco secret set db-password password.txt
  jaco secret ls
  jaco secret rm db-password")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the secrets, without their contents
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco secret ls
  jaco secret ls -o json"
    )]
    Ls,
    /// Show the version, size and users of a secret
    ///
    /// The content itself is never printed.
    #[command(
        aliases = ["inspect", "show"],
        after_long_help = "Examples:
  jaco secret get db-password
  jaco secret get db-password -o json"
    )]
    Get {
        /// The secret's name
        name: String,
    },
    /// Store a secret, or a new version of it
    ///
    /// The content is read from the file or stdin to the last byte: a line break at its end is part of it.
    #[command(
        aliases = ["create", "store"],
        after_long_help = "Examples:
  jaco secret set db-password password.txt
  openssl rand -hex 32 | jaco secret set session-key
  jaco secret set tls-key - < tls.key
  jaco secret set db-password password.txt --for shop,blog"
    )]
    Set {
        /// The secret's name
        name: String,
        /// The file that holds the content; stdin if omitted, or `-`
        file: Option<PathBuf>,
        /// The deployments that may use it [default: as before; none for a new one]
        #[arg(long = "for", value_name = "DEPLOYMENT", value_delimiter = ',')]
        deployments: Vec<String>,
        /// All deployments may use it
        #[arg(long, conflicts_with = "deployments")]
        for_all: bool,
    },
    /// Set which deployments may use a secret
    ///
    /// Replaces the list. A deployment that is not on it is refused the secret where a deployer applies it, and with `jaco
    /// policy set refuse` for everybody; one whose revision has the secret already keeps it. Deployments need not exist.
    #[command(after_long_help = "Examples:
  jaco secret allow db-password shop blog
  jaco secret allow db-password --all
  jaco secret allow db-password --none")]
    Allow {
        /// The secret's name
        name: String,
        /// The deployments that may use it
        #[arg(required_unless_present_any = ["all", "none"], value_name = "DEPLOYMENT")]
        deployments: Vec<String>,
        /// All deployments may use it
        #[arg(long, conflicts_with = "deployments")]
        all: bool,
        /// No deployment may use it from now on
        #[arg(long, conflicts_with_all = ["deployments", "all"])]
        none: bool,
    },
    /// Remove a secret that no deployment uses
    #[command(
        visible_alias = "remove",
        alias = "delete",
        after_long_help = "Examples:
  jaco secret rm db-password"
    )]
    Rm {
        /// The secret's name
        name: String,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Ls => actions::list(session, NamedKind::Secret).await,
        Action::Get { name } => actions::get(session, NamedKind::Secret, &name).await,
        Action::Set { name, file, deployments, for_all } => {
            let is_said = for_all || !deployments.is_empty();
            let users = is_said.then_some(ContentUsers { all: for_all, deployments });
            actions::set(session, NamedKind::Secret, name, file, users).await
        }
        Action::Allow { name, deployments, all, none: _ } => {
            actions::allow(session, name, ContentUsers { all, deployments }).await
        }
        Action::Rm { name } => actions::remove(session, NamedKind::Secret, name).await,
    }
}
