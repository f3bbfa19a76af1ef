//! `jaco configs`

use std::path::PathBuf;

use jaco_types::NamedKind;

use super::content::{create, list, remove};
use super::{Context, Done};

/// Keep configs in the cluster, for compose files to take by name
///
/// A compose file takes one with `external: true`. It gets the content that is the newest when it is
/// applied; another content rolls the services that use it at the next `jaco apply`. What must not be
/// read is a secret: `jaco secret`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Store a config, or give one that there is another content
    ///
    /// The content is the file's or stdin's, to the last byte.
    #[command(after_long_help = "Examples:
  jaco configs create nginx nginx.conf
  envsubst < app.conf.in | jaco configs create app")]
    Create {
        /// What it is called
        name: String,
        /// The file that holds it; stdin if left out, or `-`
        file: Option<PathBuf>,
    },
    /// List the configs
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco configs ls
  jaco configs ls -o json"
    )]
    Ls,
    /// Remove a config that no deployment uses
    #[command(after_long_help = "Examples:
  jaco configs rm nginx")]
    Rm {
        /// What it is called
        name: String,
    },
}

pub(crate) async fn run(context: &mut Context, args: Args) -> Done {
    match args.what {
        What::Create { name, file } => create(context, NamedKind::Config, name, file).await,
        What::Ls => list(context, NamedKind::Config).await,
        What::Rm { name } => remove(context, NamedKind::Config, name).await,
    }
}
