//! `jaco help`

use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use crate::error::CliError;
use crate::error::pages;
use crate::format::table::Table;
use crate::output::{Frame, Show};
use crate::session::{CommandResult, Session};
use crate::view::Summary;

/// Explain a command, an error code or the exit codes
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  jaco help apply
  jaco help error no_leader
  jaco help error               all codes
  jaco help exit-codes")]
pub(crate) struct Args {
    /// A command, `error CODE`, or `exit-codes`
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

pub(crate) fn run(session: &mut Session, args: &Args, mut command: clap::Command) -> CommandResult {
    let words: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["exit-codes"] => session.done(&ExitCodes),
        ["error"] => session.done(&ErrorCodes),
        ["error", code] => {
            let text = pages::page(code).ok_or_else(|| {
                let message = format!("there is no error code {code:?}");
                CliError::usage(message, "jaco help error lists the codes")
            })?;
            let json = json!({ "code": code, "page": text });
            session.done(&Summary { json, text: text.to_owned() })
        }
        words => {
            command.build();
            let mut found = &mut command;
            for word in words {
                found = found.find_subcommand_mut(word).ok_or_else(|| {
                    let message = format!("there is no command {:?}", words.join(" "));
                    CliError::usage(message, "jaco --help lists the commands")
                })?;
            }
            let text = found.render_long_help().to_string();
            session.done(&Summary { json: json!({ "help": text }), text })
        }
    }
}

/// The meaning of each exit code (R-CLI-7).
const EXIT_CODES: [(ExitCode, &str); 13] = [
    (ExitCode::Converged, "converged, or nothing to do"),
    (ExitCode::Unexpected, "unexpected error; also a replica that exhausted its restarts"),
    (ExitCode::Usage, "the command line is wrong"),
    (ExitCode::Rejected, "the manifest or the request was rejected; nothing was changed"),
    (ExitCode::ChangesPending, "changes are pending"),
    (ExitCode::CannotPlace, "not all replicas can be placed; the others run"),
    (ExitCode::RolledBack, "the change was rolled back; the previous revision serves"),
    (ExitCode::TimedOut, "timed out; a change that was accepted goes on in the cluster"),
    (ExitCode::StalePlan, "the state that the change is based on has changed"),
    (ExitCode::Unreachable, "no leader, no quorum, or no connection"),
    (ExitCode::NotAuthorised, "not authorised"),
    (ExitCode::WouldNotSurvive, "the loss of a node or zone would not be survived"),
    (ExitCode::Interrupted, "interrupted by Ctrl-C; a change goes on in the cluster"),
];

struct ExitCodes;

impl Show for ExitCodes {
    fn json(&self) -> Value {
        let row =
            |(code, meaning): &(ExitCode, &str)| json!({ "code": *code as u8, "meaning": meaning });
        EXIT_CODES.iter().map(row).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["CODE", "MEANING"]);
        for (code, meaning) in EXIT_CODES {
            table.row([(code as u8).to_string(), meaning.to_owned()]);
        }
        table.render()
    }
}

struct ErrorCodes;

impl Show for ErrorCodes {
    fn json(&self) -> Value {
        let row = |code| {
            let (exit_code, advice) = (pages::exit_code(code), pages::advice(code));
            json!({ "code": code, "exit_code": exit_code, "advice": advice })
        };
        pages::codes().map(row).collect()
    }

    fn text(&self, _: &Frame) -> String {
        let mut table = Table::new(&["CODE", "EXIT", "ADVICE"]);
        for code in pages::codes() {
            let exit = pages::exit_code(code).to_string();
            table.row([code.to_owned(), exit, pages::advice(code)]);
        }
        table.render()
    }
}
