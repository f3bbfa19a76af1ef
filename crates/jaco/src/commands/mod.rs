//! The commands, one file each, and what they share.

pub(crate) mod apply;
pub(crate) mod audit;
pub(crate) mod backup;
pub(crate) mod cluster;
pub(crate) mod completion;
pub(crate) mod compose;
pub(crate) mod config;
pub(crate) mod configs;
pub(crate) mod constraints;
mod content;
pub(crate) mod context;
pub(crate) mod delete;
pub(crate) mod dev;
pub(crate) mod diff;
pub(crate) mod disable;
pub(crate) mod doctor;
pub(crate) mod exec;
pub(crate) mod explain;
pub(crate) mod gc;
pub(crate) mod get;
pub(crate) mod help;
pub(crate) mod history;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod rebalance;
pub(crate) mod registry;
pub(crate) mod restart;
pub(crate) mod restore;
pub(crate) mod rollback;
pub(crate) mod scale;
pub(crate) mod schema;
pub(crate) mod secret;
pub(crate) mod status;
pub(crate) mod token;
pub(crate) mod top;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod whatif;

use std::future::Future;

use jaco_client::Client;
use jaco_types::code::ExitCode;

use crate::cli::{Command, GlobalArgs};
use crate::connect::{self, Environment};
use crate::contexts::{self, Contexts};
use crate::error::CliError;
use crate::ui::{Show, Ui};
use crate::wait::interrupted;

/// What a command gives back.
pub(crate) type Done = Result<ExitCode, CliError>;

/// What commands work with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) ui: Ui,
    global: GlobalArgs,
    client: Option<Client>,
}

impl Context {
    pub(crate) fn new(global: GlobalArgs, ui: Ui) -> Self {
        Self { ui, global, client: None }
    }

    pub(crate) fn into_ui(self) -> Ui {
        self.ui
    }

    /// The cluster that the user means. Nothing is connected before the first call.
    pub(crate) fn client(&mut self) -> Result<Client, CliError> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let environment = Environment::of_process();
        let contexts = load_contexts()?;
        let choice = connect::choose(&self.global, &environment, &contexts)?;
        let client = Client::new(connect::target(&choice, &environment)?);
        Ok(self.client.insert(client).clone())
    }

    /// Asks this cluster from now on.
    pub(crate) fn ask(&mut self, client: Client) {
        self.client = Some(client);
    }

    /// Prints the result of a command that has done what it was asked to.
    pub(crate) fn done(&mut self, result: &dyn Show) -> Done {
        self.ui.result(result).map_err(CliError::Output)?;
        Ok(ExitCode::Converged)
    }
}

/// The user's contexts.
pub(crate) fn load_contexts() -> Result<Contexts, CliError> {
    let Some(path) = contexts::default_path() else { return Ok(Contexts::default()) };
    Contexts::load(&path).map_err(|error| CliError::local("the contexts cannot be read", error))
}

/// Runs a command. Returns what to exit with: a code of [`ExitCode`], unless somebody else's command was
/// run, whose code it is then.
pub(crate) async fn run(command: Command, context: &mut Context) -> Result<u8, CliError> {
    let done = match command {
        Command::Exec(args) => return exec::run(context, args).await,
        // These change something, and say what becomes of it when they are interrupted.
        Command::Apply(args) => apply::run(context, args).await,
        Command::Scale(args) => scale::run(context, args).await,
        Command::Restart(args) => restart::run(context, args).await,
        Command::Rollback(args) => rollback::run(context, args).await,
        Command::Delete(args) => delete::run(context, args).await,
        Command::Gc(args) => stoppable(gc::run(context, args)).await,
        Command::Disable(args) => disable::disable(context, args).await,
        Command::Enable(args) => disable::enable(context, args).await,
        Command::Restore(args) => restore::run(context, args).await,
        Command::Backup(args) => stoppable(backup::run(context, args)).await,
        Command::Node(args) => node::run(context, args).await,
        Command::Constraints(args) => constraints::run(context, args).await,
        Command::Dev(args) => dev::run(context, args).await,
        Command::Secret(args) => stoppable(secret::run(context, args)).await,
        Command::Configs(args) => stoppable(configs::run(context, args)).await,
        Command::Registry(args) => stoppable(registry::run(context, args)).await,
        Command::Plan(args) => stoppable(plan::run(context, args)).await,
        Command::Explain(args) => stoppable(explain::run(context, args)).await,
        Command::Whatif(args) => stoppable(whatif::run(context, args)).await,
        Command::Top(args) => stoppable(top::run(context, args)).await,
        Command::Rebalance(args) => rebalance::run(context, args).await,
        Command::Status(args) => stoppable(status::run(context, args)).await,
        Command::Get(args) => stoppable(get::run(context, args)).await,
        Command::History(args) => stoppable(history::run(context, args)).await,
        Command::Diff(args) => stoppable(diff::run(context, args)).await,
        Command::Logs(args) => stoppable(logs::run(context, args)).await,
        Command::Audit(args) => stoppable(audit::run(context, args)).await,
        Command::Cluster(args) => stoppable(cluster::run(context, args)).await,
        Command::Doctor(args) => stoppable(doctor::run(context, args)).await,
        Command::Token(args) => stoppable(token::run(context, args)).await,
        Command::Version(args) => stoppable(version::run(context, args)).await,
        Command::Validate(args) => validate::run(context, &args),
        Command::Config(args) => config::run(context, &args),
        Command::Schema(args) => schema::run(context, &args),
        Command::Compose(args) => compose::run(context, &args),
        Command::Context(args) => context::run(context, args),
        Command::Completion(args) => completion::run(context, &args),
        Command::Help(args) => help::run(context, &args),
    };
    done.map(|code| code as u8)
}

/// Ends quietly on Ctrl-C: nothing was changed that would have to be told.
async fn stoppable(command: impl Future<Output = Done>) -> Done {
    tokio::select! {
        biased;
        done = command => done,
        () = interrupted() => Err(CliError::Interrupted { message: String::new() }),
    }
}
