//! `jaco config`

use std::path::PathBuf;

use clap::{ArgMatches, FromArgMatches};
use jaco_types::NamedKind;

use super::actions;
use super::set::{Terms, set};
use super::source::Source;
use crate::commands::compose::config as model;
use crate::session::{CommandResult, Session};

/// Manage configs that compose files refer to by name
///
/// A compose file refers to a config with `external: true`, and gets the newest version when it is
/// applied. After a new version is stored, the next `jaco apply` rolls the services that use it. Content
/// that must stay private is a secret: `jaco secret`.
///
/// Without a subcommand this prints the resolved compose model, as `jaco compose config` does.
#[derive(Debug, clap::Args)]
#[command(
    alias = "configs",
    args_conflicts_with_subcommands = true,
    after_long_help = "Examples:
  jaco config set nginx nginx.conf
  jaco config ls
  jaco config rm nginx"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    model: HiddenModelArgs,
}

/// The arguments of `jaco compose config`, which work here but are not in the help.
#[derive(Debug)]
struct HiddenModelArgs(model::Args);

impl clap::Args for HiddenModelArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        <model::Args as clap::Args>::augment_args(command).mut_args(|arg| arg.hide(true))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for HiddenModelArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        model::Args::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the configs
    #[command(
        visible_alias = "list",
        after_long_help = "Examples:
  jaco config ls
  jaco config ls -o json"
    )]
    Ls,
    /// Show the version, size and users of a config
    ///
    /// The content itself is not printed.
    #[command(
        aliases = ["inspect", "show"],
        after_long_help = "Examples:
  jaco config get nginx
  jaco config get nginx -o json"
    )]
    Get {
        /// The config's name
        name: String,
    },
    /// Store a config, or a new version of it
    ///
    /// The content is read from the file or stdin to the last byte.
    #[command(
        aliases = ["create", "store"],
        after_long_help = "Examples:
  jaco config set nginx nginx.conf
  envsubst < app.conf.in | jaco config set app"
    )]
    Set {
        /// The config's name
        name: String,
        /// The file that holds the content; stdin if omitted, or `-`
        file: Option<PathBuf>,
    },
    /// Remove a config that no deployment uses
    #[command(
        visible_alias = "remove",
        alias = "delete",
        after_long_help = "Examples:
  jaco config rm nginx"
    )]
    Rm {
        /// The config's name
        name: String,
    },
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    let Some(action) = args.action else { return model::run(session, &args.model.0) };
    match action {
        Action::Ls => actions::list(session, NamedKind::Config).await,
        Action::Get { name } => actions::get(session, NamedKind::Config, &name).await,
        Action::Set { name, file } => {
            let source = Source::file(file);
            set(session, NamedKind::Config, name, &source, Terms::default()).await
        }
        Action::Rm { name } => actions::remove(session, NamedKind::Config, name).await,
    }
}
