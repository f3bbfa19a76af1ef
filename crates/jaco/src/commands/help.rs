//! `jaco help`

use clap::CommandFactory;
use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::{Context, Done};
use crate::cli::Cli;
use crate::error::CliError;
use crate::pages;
use crate::table::Table;
use crate::ui::{Frame, Show};
use crate::view::Said;

/// Explain a command, an error or the exit codes
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco help apply
  jaco help error no_leader
  jaco help error               all codes
  jaco help exit-codes")]
pub(crate) struct Args {
    /// A command; `error` and a code; or `exit-codes`
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

pub(crate) fn run(context: &mut Context, args: &Args) -> Done {
    let words: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["exit-codes"] => context.done(&ExitCodes),
        ["error"] => context.done(&ErrorCodes),
        ["error", code] => {
            let text = pages::page(code).ok_or_else(|| {
                let message = format!("there is no error code {code:?}");
                CliError::usage(message, "jaco help error lists them")
            })?;
            let json = json!({ "code": code, "page": text });
            context.done(&Said { json, text: text.to_owned() })
        }
        words => {
            let mut command = Cli::command();
            command.build();
            let mut found = &mut command;
            for word in words {
                found = found.find_subcommand_mut(word).ok_or_else(|| {
                    let message = format!("there is no command {:?}", words.join(" "));
                    CliError::usage(message, "jaco --help lists them")
                })?;
            }
            let text = found.render_long_help().to_string();
            context.done(&Said { json: json!({ "help": text }), text })
        }
    }
}

/// What each exit code means (R-CLI-7).
const EXIT_CODES: [(ExitCode, &str); 13] = [
    (ExitCode::Converged, "converged, or nothing to do"),
    (ExitCode::Unexpected, "something unexpected; also a replica that failed too often"),
    (ExitCode::Usage, "the command line is wrong"),
    (ExitCode::Rejected, "the manifest or the request was refused; nothing changed"),
    (ExitCode::ChangesPending, "changes are pending"),
    (ExitCode::CannotPlace, "not everything can be placed; what can be runs"),
    (ExitCode::RolledBack, "the change was rolled back; the previous revision serves"),
    (ExitCode::TimedOut, "the time given ran out; the work goes on in the cluster"),
    (ExitCode::StalePlan, "what the change was based on has moved"),
    (ExitCode::Unreachable, "no leader, no quorum, or no connection"),
    (ExitCode::NotAuthorised, "not authorised"),
    (ExitCode::WouldNotSurvive, "the loss of one node or zone would not be survived"),
    (ExitCode::Interrupted, "ended by Ctrl-C; the work goes on in the cluster"),
];

struct ExitCodes;

impl Show for ExitCodes {
    fn json(&self) -> Value {
        let row = |(code, what): &(ExitCode, &str)| json!({ "code": *code as u8, "meaning": what });
        EXIT_CODES.iter().map(row).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["CODE", "MEANING"]);
        for (code, what) in EXIT_CODES {
            table.row([(code as u8).to_string(), what.to_owned()]);
        }
        table.render()
    }
}

struct ErrorCodes;

impl Show for ErrorCodes {
    fn json(&self) -> Value {
        let row = |code: &ErrorCode| json!({ "code": code.as_str(), "exit_code": code.exit_code() as u8, "advice": pages::advice(*code) });
        ErrorCode::ALL.iter().map(row).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["CODE", "EXIT", "WHAT TO DO"]);
        for code in ErrorCode::ALL {
            let exit = (code.exit_code() as u8).to_string();
            table.row([code.to_string(), exit, pages::advice(*code)]);
        }
        table.render()
    }
}
