//! The list of commands. The arguments of each are declared in its own file.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

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

/// Reads a command line, whose first word is the program.
///
/// # Errors
/// What is wrong with it, or the help that it asks for. A name that is empty is refused, as `"$NAME"` is where the variable
/// is not set: it would mean all of them, or none.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(words)?;
    refuse_empty_values(&mut command, &matches)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn refuse_empty_values(
    command: &mut clap::Command,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    let is_empty = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        let given = matches.value_source(id) == Some(ValueSource::CommandLine);
        let values = || matches.get_raw(id).into_iter().flatten();
        given && !may_be_empty(arg) && values().any(|value| value.is_empty())
    };
    let empty = command.get_arguments().find(is_empty).map(ToString::to_string);
    if let Some(name) = empty {
        return Err(command.error(ErrorKind::InvalidValue, format!("{name} is empty")));
    }
    match matches.subcommand() {
        Some((name, matches)) => match command.find_subcommand_mut(name) {
            Some(command) => refuse_empty_values(command, matches),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

/// What a container runs may have empty words, and where the default is empty that means none.
fn may_be_empty(arg: &Arg) -> bool {
    arg.is_trailing_var_arg_set()
        || arg.is_last_set()
        || arg.get_default_values().iter().any(|value| value.is_empty())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Cli, String> {
        let words = std::iter::once("jaco").chain(words.iter().copied()).map(OsString::from);
        parse(words).map_err(|refused| refused.to_string())
    }

    /// R-CLI-7: a name from a variable that is not set means neither all nor none.
    #[test]
    fn empty_names_are_refused() {
        for words in [
            &["status", ""][..],
            &["gc", ""],
            &["volume", "ls", ""],
            &["route", "ls", ""],
            &["node", "rm", ""],
            &["node", "drain", "n1", ""],
            &["audit", "--deployment", ""],
            &["audit", "--node="],
            &["--server", "", "status"],
            &["exec", "", "--", "sh"],
        ] {
            let refused = parsed(words).expect_err(&words.join(" "));
            assert!(refused.contains("is empty") && refused.contains("Usage"), "{refused}");
        }
        let refused = parsed(&["volume", "ls", ""]).unwrap_err();
        assert!(refused.starts_with("error: [DEPLOYMENT] is empty\n"), "{refused}");
        for words in [
            &["status"][..],
            &["status", "shop"],
            &["exec", "shop/web", "--", "printf", ""],
            &["get", "replicas", "--deployment", ""],
        ] {
            assert!(parsed(words).is_ok(), "{words:?}");
        }
    }

    /// R-CLI-7: what a join token is limited to is not turned into something else.
    #[test]
    fn join_tokens_have_limits() {
        for words in [&["token", "join", "--ttl", "0s"][..], &["token", "join", "--uses", "0"]] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
        assert!(parsed(&["token", "join", "--ttl", "1s", "--uses", "1"]).is_ok());
    }
}
