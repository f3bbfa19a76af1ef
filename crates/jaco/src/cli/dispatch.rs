//! Runs the command that was parsed.

use std::future::Future;

use super::grammar::{self, Command};
use crate::commands::{admin, compose, local, placement, workload};
use crate::error::CliError;
use crate::session::wait::interrupted;
use crate::session::{CommandResult, Session};

/// Runs a command. Returns what to exit with: a code of `jaco help exit-codes`, or with `jaco exec` and
/// `jaco run` the exit code of what ran in the container.
pub(crate) async fn dispatch(command: Command, session: &mut Session) -> Result<u8, CliError> {
    let done = match command {
        Command::Exec(args) => return workload::exec::run(session, args).await,
        Command::Run(args) => return workload::run::run(session, args).await,
        // These wait for the cluster, and report what goes on when they are interrupted.
        Command::Apply(args) => workload::apply::run(session, args).await,
        Command::Scale(args) => workload::scale::run(session, args).await,
        Command::Restart(args) => workload::restart::run(session, args).await,
        Command::Rollback(args) => workload::rollback::run(session, args).await,
        Command::Delete(args) => workload::delete::run(session, args).await,
        Command::Wait(args) => workload::wait::run(session, args).await,
        Command::Edit(args) => workload::edit::run(session, args).await,
        Command::Disable(args) => workload::disable::disable(session, args).await,
        Command::Enable(args) => workload::disable::enable(session, args).await,
        Command::Rebalance(args) => placement::rebalance::run(session, args).await,
        Command::Constraints(args) => placement::constraints::run(session, args).await,
        Command::Node(args) => admin::node::run(session, args).await,
        Command::Restore(args) => admin::restore::run(session, args).await,
        Command::Dev(args) => local::dev::run(session, args).await,
        Command::Secret(args) if args.waits() => {
            Box::pin(admin::contents::secret::run(session, args)).await
        }
        // These end at Ctrl-C without a word.
        Command::Gc(args) => interruptible(workload::gc::run(session, args)).await,
        Command::Backup(args) => interruptible(admin::backup::run(session, args)).await,
        Command::Config(args) => interruptible(admin::contents::config::run(session, args)).await,
        Command::Secret(args) => interruptible(admin::contents::secret::run(session, args)).await,
        Command::Image(args) => interruptible(Box::pin(admin::image::run(session, args))).await,
        Command::Volume(args) => interruptible(Box::pin(admin::volume::run(session, args))).await,
        Command::Registry(args) => interruptible(admin::registry::run(session, args)).await,
        Command::Policy(args) => interruptible(admin::policy::run(session, args)).await,
        Command::Network(args) => interruptible(admin::network::run(session, args)).await,
        Command::Route(args) => interruptible(admin::route::run(session, args)).await,
        Command::Certificate(args) => interruptible(admin::certificate::run(session, args)).await,
        Command::Plan(args) => interruptible(workload::plan::run(session, args)).await,
        Command::Explain(args) => interruptible(placement::explain::run(session, args)).await,
        Command::Whatif(args) => interruptible(placement::whatif::run(session, args)).await,
        Command::Top(args) => interruptible(placement::top::run(session, args)).await,
        Command::Ui(args) => interruptible(Box::pin(workload::ui::run(session, args))).await,
        Command::Status(args) => interruptible(workload::status::run(session, args)).await,
        Command::Get(args) => interruptible(workload::get::run(session, args)).await,
        Command::History(args) => interruptible(workload::history::run(session, args)).await,
        Command::Diff(args) => interruptible(workload::diff::run(session, args)).await,
        Command::Logs(args) => interruptible(workload::logs::run(session, args)).await,
        Command::Cp(args) => interruptible(Box::pin(workload::cp::run(session, args))).await,
        Command::PortForward(args) => {
            interruptible(Box::pin(workload::port_forward::run(session, args))).await
        }
        Command::Audit(args) => interruptible(admin::audit::run(session, args)).await,
        Command::Cluster(args) => interruptible(admin::cluster::run(session, args)).await,
        Command::Doctor(args) => interruptible(admin::doctor::run(session, args)).await,
        Command::Notify(args) => interruptible(admin::notify::run(session, args)).await,
        Command::Token(args) => interruptible(admin::token::run(session, args)).await,
        Command::ComposeImport(args) => interruptible(compose::import::run(session, args)).await,
        Command::Version(args) => interruptible(local::version::run(session, args)).await,
        // These ask no cluster.
        Command::Validate(args) => compose::validate::run(session, &args),
        Command::Schema(args) => compose::schema::run(session, &args),
        Command::Compose(args) => compose::run(session, &args),
        Command::Context(args) => local::context::run(session, args),
        Command::Completion(args) => local::completion::run(session, &args),
        Command::Help(args) => local::help::run(session, &args, grammar::command()),
        Command::ManPages(args) => local::man_pages::run(&args, grammar::command()),
    };
    done.map(|code| code as u8)
}

/// Ends quietly at Ctrl-C: nothing goes on that would have to be reported.
async fn interruptible(command: impl Future<Output = CommandResult>) -> CommandResult {
    tokio::select! {
        biased;
        done = command => done,
        () = interrupted() => Err(CliError::Interrupted { message: String::new() }),
    }
}
