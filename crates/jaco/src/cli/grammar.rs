//! The list of commands. The arguments of each are declared in its own file.

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{admin, compose, local, placement, workload};
use crate::options::GlobalOptions;

/// Run compose files on a cluster
///
/// Results go to stdout, progress and errors to stderr. `jaco help exit-codes` lists the exit codes,
/// `jaco help error CODE` explains an error.
#[derive(Debug, Parser)]
#[command(
    name = "jaco",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_long_help = "Examples:
  jaco apply                        deploy the compose file of this folder
  jaco status -w                    watch deployments, replicas and nodes
  jaco logs shop/web -f             follow the logs of a service"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The grammar of the command line, for tests and documentation.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Apply(workload::apply::Args),
    Plan(workload::plan::Args),
    Explain(placement::explain::Args),
    Whatif(placement::whatif::Args),
    Top(placement::top::Args),
    Rebalance(placement::rebalance::Args),
    Status(workload::status::Args),
    Ui(workload::ui::Args),
    Wait(workload::wait::Args),
    Get(workload::get::Args),
    Logs(workload::logs::Args),
    Exec(workload::exec::Args),
    Run(workload::run::Args),
    Cp(workload::cp::Args),
    PortForward(workload::port_forward::Args),
    Scale(workload::scale::Args),
    Restart(workload::restart::Args),
    Rollback(workload::rollback::Args),
    History(workload::history::Args),
    Diff(workload::diff::Args),
    Edit(workload::edit::Args),
    Delete(workload::delete::Args),
    Gc(workload::gc::Args),
    Disable(workload::disable::Args),
    Enable(workload::disable::EnableArgs),
    Audit(admin::audit::Args),
    Backup(admin::backup::Args),
    Restore(admin::restore::Args),
    Node(admin::node::Args),
    Constraints(placement::constraints::Args),
    Cluster(admin::cluster::Args),
    Doctor(admin::doctor::Args),
    Notify(admin::notify::Args),
    Token(admin::token::Args),
    Config(admin::contents::config::Args),
    Secret(admin::contents::secret::Args),
    Image(admin::image::Args),
    Volume(admin::volume::Args),
    Registry(admin::registry::Args),
    Policy(admin::policy::Args),
    Network(admin::network::Args),
    Route(admin::route::Args),
    Certificate(admin::certificate::Args),
    Validate(compose::validate::Args),
    Schema(compose::schema::Args),
    Compose(compose::Args),
    ComposeImport(compose::import::Args),
    Context(local::context::Args),
    Dev(local::dev::Args),
    Completion(local::completion::Args),
    Version(local::version::Args),
    Help(local::help::Args),
    #[command(hide = true)]
    ManPages(local::man_pages::Args),
}
