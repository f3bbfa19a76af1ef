//! The command line: global flags and the list of commands. What each takes stands in its own file.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands;
use crate::ui::Format;

/// Run compose files on a cluster
///
/// Results go to stdout, progress and errors to stderr. `jaco help exit-codes` lists the exit codes,
/// `jaco help error CODE` explains an error.
#[derive(Debug, Parser)]
#[command(name = "jaco", version, disable_help_subcommand = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
///
/// Whom to ask, in this order: --server, --socket or --context; the environment; the current
/// context; the socket of this machine's daemon.
#[derive(Debug, Clone, Default, Args)]
pub struct GlobalArgs {
    /// How results are printed: table, wide, json or yaml
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub output: Format,
    /// Print results and errors, nothing else
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Ask these nodes, over TLS: host:port[,host:port…] [env: JACO_SERVER]
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT",
        value_delimiter = ',',
        conflicts_with = "socket",
        help_heading = "Global options"
    )]
    pub server: Vec<String>,
    /// Ask the daemon behind this unix socket [env: JACO_SOCKET]
    #[arg(long, global = true, value_name = "PATH", help_heading = "Global options")]
    pub socket: Option<PathBuf>,
    /// Ask the cluster of this context [env: JACO_CONTEXT]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        conflicts_with_all = ["server", "socket"],
        help_heading = "Global options"
    )]
    pub context: Option<String>,
    /// With --server: the cluster's CA certificate, PEM [env: JACO_CA_CERT]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub ca_cert: Option<PathBuf>,
    /// With --server: a file with the operator token, `-` for stdin [env: JACO_TOKEN, the token]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Apply(commands::apply::Args),
    Plan(commands::plan::Args),
    Explain(commands::explain::Args),
    Whatif(commands::whatif::Args),
    Top(commands::top::Args),
    Rebalance(commands::rebalance::Args),
    Status(commands::status::Args),
    Get(commands::get::Args),
    Logs(commands::logs::Args),
    Exec(commands::exec::Args),
    Scale(commands::scale::Args),
    Restart(commands::restart::Args),
    Rollback(commands::rollback::Args),
    History(commands::history::Args),
    Diff(commands::diff::Args),
    Delete(commands::delete::Args),
    Gc(commands::gc::Args),
    Disable(commands::disable::Args),
    Enable(commands::disable::EnableArgs),
    Audit(commands::audit::Args),
    Backup(commands::backup::Args),
    Restore(commands::restore::Args),
    Node(commands::node::Args),
    Constraints(commands::constraints::Args),
    Cluster(commands::cluster::Args),
    Doctor(commands::doctor::Args),
    Token(commands::token::Args),
    Secret(commands::secret::Args),
    Configs(commands::configs::Args),
    Registry(commands::registry::Args),
    Validate(commands::validate::Args),
    Config(commands::config::Args),
    Schema(commands::schema::Args),
    Compose(commands::compose::Args),
    Context(commands::context::Args),
    Dev(commands::dev::Args),
    Completion(commands::completion::Args),
    Version(commands::version::Args),
    Help(commands::help::Args),
}

/// The whole command line as Markdown: `docs/cli.md`.
#[must_use]
pub fn reference() -> String {
    let mut command = <Cli as clap::CommandFactory>::command().term_width(100);
    command.build();
    let mut text = "# The command line\n\n\
        Generated from the program: `UPDATE_EXPECT=1 cargo test -p jaco` writes it anew. The options \
        of\n`jaco` itself are taken by every command.\n"
        .to_owned();
    section(&mut command, "jaco", &mut text);
    text
}

fn section(command: &mut clap::Command, name: &str, text: &mut String) {
    let help = command.render_long_help().to_string();
    // Said once, at `jaco`.
    let own = match help.split_once("\nGlobal options:") {
        Some((own, _)) if name != "jaco" => own,
        Some(_) | None => &help,
    };
    let lines: Vec<&str> = own.trim_end().lines().map(str::trim_end).collect();
    text.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n")));
    for subcommand in command.get_subcommands_mut() {
        let name = format!("{name} {}", subcommand.get_name());
        section(subcommand, &name, text);
    }
}
