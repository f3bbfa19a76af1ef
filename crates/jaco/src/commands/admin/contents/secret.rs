//! `jaco secret`

use std::path::PathBuf;
use std::time::Duration;

use jaco_proto::v1::ContentUsers;
use jaco_types::NamedKind;

use super::actions;
use super::edit::edit;
use super::expiry::Expiry;
use super::roll::{Rolling, roll};
use super::set::{Terms, set};
use super::source::Source;
use crate::deploy::After;
use crate::format::time;
use crate::opening::Opening;
use crate::session::{CommandResult, Session};

/// Manage secrets that compose files refer to by name
///
/// A compose file refers to a secret with `external: true`, and gets the newest version when it is
/// applied. After a new version is stored, `jaco secret roll` or the next `jaco apply` rolls the services that
/// use it; until then they keep the version they have. A secret is encrypted before it is stored, and
/// `jaco secret edit` alone shows it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco secret set db-password password.txt
  jaco secret roll db-password
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
    /// Show the version, size, expiry and users of a secret
    ///
    /// The users are services, with the versions that their replicas have. The content itself is not printed.
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
    /// The content is read from the file, from stdin or from what a command prints, to the last byte: a line break at
    /// its end is part of it. It is never an argument, which other users of the machine can see.
    ///
    /// Services that use it keep the version they have until they are rolled: by --roll, by `jaco secret roll`, or by their
    /// next `jaco apply`. An expiry belongs to the version: before and after it `jaco secret ls`, `jaco doctor` and the metrics
    /// warn, and nothing stops.
    #[command(
        aliases = ["create", "store"],
        after_long_help = "Examples:
  jaco secret set db-password password.txt
  openssl rand -hex 32 | jaco secret set session-key
  jaco secret set tls-key - < tls.key
  jaco secret set db-password --command 'pass show db'
  jaco secret set db-password db.txt.age --identity key.txt
  jaco secret set db-password password.txt --roll --expires 90d
  jaco secret set db-password password.txt --for shop,blog"
    )]
    Set {
        /// The secret's name
        name: String,
        /// The file that holds the content; stdin if omitted, or `-`. One that ends in `.age` is opened
        file: Option<PathBuf>,
        /// Open a file that ends in `.age` with the keys of this file, as `age-keygen` writes it; can be repeated
        #[arg(
            long = "identity",
            value_name = "FILE",
            env = "JACO_AGE_IDENTITY",
            hide_env_values = true
        )]
        identities: Vec<PathBuf>,
        /// Run this in a shell of this machine, and store what it prints. If it fails, nothing is stored, and what it
        /// printed is not shown
        #[arg(long, value_name = "COMMAND", conflicts_with = "file")]
        command: Option<String>,
        /// The deployments that may use it [default: as before; none for a new one]
        #[arg(long = "for", value_name = "DEPLOYMENT", value_delimiter = ',')]
        deployments: Vec<String>,
        /// All deployments may use it
        #[arg(long, conflicts_with = "deployments")]
        for_all: bool,
        #[command(flatten)]
        then: ThenArgs,
    },
    /// Edit a secret in an editor and store it as a new version
    ///
    /// Opens the present version in $VISUAL, else $EDITOR, else vi, on a file that only you can read: in memory
    /// where the machine has XDG_RUNTIME_DIR or /dev/shm. The file is removed at the end, by whatever way; what the editor keeps
    /// elsewhere, such as its history, is the editor's. What was typed is lost if it cannot be stored. Each edit is in the audit
    /// log before the editor opens.
    ///
    /// Works for text only. Refused (`stale_plan`) if another user has stored a version meanwhile; nothing is stored if
    /// nothing was changed. A line break that the editor adds to a last line without one is not stored.
    #[command(after_long_help = "Examples:
  jaco secret edit db-password
  jaco secret edit app-env --roll
  VISUAL='code --wait' jaco secret edit app-env --expires 90d")]
    Edit {
        /// The secret's name
        name: String,
        #[command(flatten)]
        then: ThenArgs,
    },
    /// Roll the services that use a secret to its newest version
    ///
    /// Each deployment gets a new revision that differs in the version of this secret alone. The rollout is that of any
    /// change: start-first where the service says so, watched, and rolled back if the new replicas do not become healthy. Until
    /// a replica is replaced it keeps the version that it has, over restarts too. Deployments are rolled one after
    /// another, and the first that fails is the last.
    #[command(after_long_help = "Examples:
  jaco secret roll db-password
  jaco secret roll db-password shop        one of the deployments that use it
  jaco secret roll db-password --detach")]
    Roll {
        /// The secret's name
        name: String,
        /// The deployments [default: all that use it]
        #[arg(value_name = "DEPLOYMENT")]
        deployments: Vec<String>,
        #[command(flatten)]
        waiting: WaitingArgs,
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

/// What is said of a new version, and what follows.
#[derive(Debug, clap::Args)]
struct ThenArgs {
    /// Until when it is good: a duration, a day or a time in UTC, or never [default: never; for the same content, as before]
    #[arg(long, value_name = "TIME")]
    expires: Option<Expiry>,
    /// Roll the services that use it to this version afterwards
    #[arg(long)]
    roll: bool,
    /// With --roll: return as soon as the cluster has accepted the rollouts
    #[arg(long, requires = "roll")]
    detach: bool,
    /// With --roll: maximum time to wait for each deployment
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5m",
        value_parser = time::duration,
        requires = "roll"
    )]
    timeout: Duration,
}

/// How rollouts are waited for.
#[derive(Debug, clap::Args)]
struct WaitingArgs {
    /// Return as soon as the cluster has accepted the rollouts
    #[arg(long)]
    detach: bool,
    /// Maximum time to wait for each deployment
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time::duration)]
    timeout: Duration,
}

impl WaitingArgs {
    fn rolling(&self) -> Rolling {
        let Self { detach, timeout } = *self;
        Rolling { timeout, after: if detach { After::Return } else { After::Wait(timeout) } }
    }
}

impl ThenArgs {
    fn terms(&self, users: Option<ContentUsers>) -> Terms {
        let Self { expires: expiry, roll, detach, timeout } = *self;
        let rolling = roll.then(|| WaitingArgs { detach, timeout }.rolling());
        Terms { users, expiry, rolling }
    }
}

impl Args {
    /// Whether it waits for the editor or for rollouts, and reports itself what goes on at Ctrl-C.
    pub(crate) fn waits(&self) -> bool {
        match &self.action {
            Action::Edit { .. } | Action::Roll { .. } => true,
            Action::Set { then, .. } => then.roll,
            Action::Ls | Action::Get { .. } | Action::Allow { .. } | Action::Rm { .. } => false,
        }
    }
}

pub(crate) async fn run(session: &mut Session, args: Args) -> CommandResult {
    match args.action {
        Action::Ls => actions::list(session, NamedKind::Secret).await,
        Action::Get { name } => actions::get(session, NamedKind::Secret, &name).await,
        Action::Set { name, file, identities, command, deployments, for_all, then } => {
            let opening = Opening::by(&identities)?;
            let source = command.map_or_else(|| Source::opened(file, opening), Source::Command);
            let is_said = for_all || !deployments.is_empty();
            let users = is_said.then_some(ContentUsers { all: for_all, deployments });
            set(session, NamedKind::Secret, name, &source, then.terms(users)).await
        }
        Action::Edit { name, then } => edit(session, name, then.terms(None)).await,
        Action::Roll { name, deployments, waiting } => {
            roll(session, &name, &deployments, waiting.rolling()).await
        }
        Action::Allow { name, deployments, all, none: _ } => {
            actions::allow(session, name, ContentUsers { all, deployments }).await
        }
        Action::Rm { name } => actions::remove(session, NamedKind::Secret, name).await,
    }
}
