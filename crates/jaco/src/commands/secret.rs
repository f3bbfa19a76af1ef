//! `jaco secret`

use std::path::PathBuf;

use jaco_types::NamedKind;

use super::content::{create, list, remove};
use super::{Context, Done};

/// Keep secrets in the cluster, for compose files to take by name
///
/// A compose file takes one with `external: true`. It gets the content that is the newest when it is
/// applied; another content rolls the services that use it at the next `jaco apply`. A secret is sealed
/// before it is stored, and no command shows it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Store a secret, or give one that there is another content
    ///
    /// The content is the file's or stdin's, to the last byte: a line break at its end counts.
    #[command(after_long_help = "Examples:
  jaco secret create db-password password.txt
  openssl rand -hex 32 | jaco secret create session-key
  jaco secret create tls-key - < tls.key")]
    Create {
        /// What it is called
        name: String,
        /// The file that holds it; stdin if left out, or `-`
        file: Option<PathBuf>,
    },
    /// List the secrets, without their contents
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco secret ls
  jaco secret ls -o json"
    )]
    Ls,
    /// Remove a secret that no deployment uses
    #[command(after_long_help = "Examples:
  jaco secret rm db-password")]
    Rm {
        /// What it is called
        name: String,
    },
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    match args.what {
        What::Create { name, file } => create(context, NamedKind::Secret, name, file).await,
        What::Ls => list(context, NamedKind::Secret).await,
        What::Rm { name } => remove(context, NamedKind::Secret, name).await,
    }
}
