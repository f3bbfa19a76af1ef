//! Why a command failed.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use jaco_client::{ClientError, DEFAULT_SOCKET};
use jaco_compose::Problems;
use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::report::{Report, chain};
use crate::format::quantity::count;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The cluster refused the request, or could not be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A failed request during work that goes on, with advice how to get back to it.
    #[error("{source}")]
    ClientDuring {
        /// The failure.
        source: ClientError,
        /// How to get back to the work.
        help: String,
    },
    /// The manifest has problems; all of them are listed.
    #[error("the manifest has {}", count(problems.errors().count() + problems.omitted, "problem"))]
    Manifest {
        /// The problems with their positions.
        problems: Problems,
    },
    /// One of the error codes, found without asking the cluster.
    #[error("{message}")]
    Refused {
        /// The code, which also determines the exit code.
        code: ErrorCode,
        /// What happened.
        message: String,
        /// Advice that is more specific than the code's page.
        help: Option<String>,
    },
    /// The cluster accepted the change, and it failed.
    #[error("{message}")]
    Outcome {
        /// The code, which also determines the exit code.
        code: ErrorCode,
        /// What happened.
        message: String,
        /// The causes, one line each.
        because: Vec<String>,
        /// Advice, one line each.
        help: Vec<String>,
    },
    /// The command line is wrong.
    #[error("{message}")]
    Usage {
        /// The mistake.
        message: String,
        /// How to correct it.
        help: Option<String>,
    },
    /// Something on this machine failed.
    #[error("{what}")]
    Local {
        /// The operation that failed.
        what: String,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// Stdout cannot be written to.
    #[error("results could not be printed")]
    Output(#[source] io::Error),
    /// What the user wrote was not applied, and is kept.
    #[error("{source}")]
    Kept {
        /// Why it was not.
        source: Box<Self>,
        /// The folder that it is kept in.
        folder: PathBuf,
        /// The command that goes on with it.
        help: String,
    },
    /// The user pressed Ctrl-C.
    #[error("{message}")]
    Interrupted {
        /// The work that goes on, and how to get back to it.
        message: String,
    },
}

impl CliError {
    /// An operation on this machine that failed.
    pub fn local(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Local { what: what.into(), source: source.into() }
    }

    /// A wrong command line, with advice.
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: Some(help.into()) }
    }

    /// A request that changes nothing and failed. One that ran out of time has left no work that could go on.
    #[must_use]
    pub fn of_dry_run(error: ClientError) -> Self {
        if error.code() != ErrorCode::TimedOut {
            return Self::Client(error);
        }
        Self::Outcome {
            code: ErrorCode::TimedOut,
            message: format!("the plan was not computed in time: {error}"),
            because: Vec::new(),
            help: vec![
                "nothing was changed, and no work is left in the cluster; it can be asked for again"
                    .to_owned(),
            ],
        }
    }

    /// The error as it is printed.
    #[must_use]
    pub fn report(&self) -> Report {
        match self {
            Self::Client(error) => client_report(error, None),
            Self::ClientDuring { source, help } => client_report(source, Some(help)),
            Self::Manifest { problems } => Report {
                preface: format!("{problems}\n"),
                details: problems.to_json(),
                help: Vec::new(),
                ..Report::coded(ErrorCode::InvalidManifest, self.to_string())
            },
            Self::Refused { code, message, help } => {
                let mut report = Report::coded(*code, message.clone());
                if let Some(help) = help {
                    report.help.insert(0, help.clone());
                }
                report
            }
            Self::Outcome { code, message, because, help } => Report {
                label: Some(code.as_str().to_owned()),
                because: because.clone(),
                help: help.clone(),
                ..Report::plain(code.exit_code(), message.clone())
            },
            Self::Usage { message, help } => Report {
                help: help.iter().cloned().collect(),
                ..Report::plain(ExitCode::Usage, message.clone())
            },
            Self::Local { what, source } => Report {
                because: chain(Some(&**source)),
                ..Report::plain(ExitCode::Unexpected, what.clone())
            },
            // A reader that closed the pipe, such as `head`, needs no error message.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Report::plain(ExitCode::Unexpected, String::new())
            }
            Self::Output(error) => Report {
                because: vec![error.to_string()],
                ..Report::plain(ExitCode::Unexpected, self.to_string())
            },
            Self::Kept { source, folder, help } => {
                let mut report = source.report();
                report.help.insert(0, help.clone());
                if let Value::Object(details) = &mut report.details {
                    details.insert("kept".to_owned(), folder.display().to_string().into());
                }
                report
            }
            Self::Interrupted { message } => Report {
                preface: message.clone(),
                ..Report::plain(ExitCode::Interrupted, String::new())
            },
        }
    }
}

fn client_report(error: &ClientError, help: Option<&String>) -> Report {
    let code = error.code();
    let mut report = Report::coded(code, error.to_string());
    report.because = chain(error.source());
    report.exit = error.exit_code();
    if let Some(rejection) = error.rejection() {
        let facts = rejection.details.iter();
        report.because = facts.flat_map(|(key, fact)| cause_lines(key, fact)).collect();
        report.details = json!(rejection.details);
    }
    if let ClientError::NoConnection { endpoint, .. } = error
        && endpoint.ends_with(DEFAULT_SOCKET)
    {
        report.help.insert(
            0,
            "no cluster is chosen, so this machine's daemon was asked, and none answers. For a cluster on other \
             machines: jaco context set NAME --servers HOST:PORT --ca FILE --token FILE; a daemon of this \
             machine: systemctl start jacod"
                .to_owned(),
        );
    }
    if let Some(help) = help {
        report.help.insert(0, help.clone());
    }
    report
}

/// The lines of one detail of a refusal; a list of manifest problems has one line for each.
fn cause_lines(key: &str, fact: &str) -> Vec<String> {
    let list = serde_json::from_str::<Value>(fact).ok().filter(|_| key == "problems");
    let Some(Value::Array(problems)) = list.map(|mut list| list["problems"].take()) else {
        return vec![format!("{key}: {fact}")];
    };
    let text = |problem: &Value, key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    let line = |problem: &Value| {
        let place = match (text(problem, "file"), problem["line"].as_u64()) {
            (file, Some(line)) if !file.is_empty() && line > 0 => format!("{file}:{line}: "),
            (file, _) if !file.is_empty() => format!("{file}: "),
            _ => String::new(),
        };
        format!(
            "{place}{}[{}]: {}",
            text(problem, "severity"),
            text(problem, "code"),
            text(problem, "message")
        )
    };
    problems.iter().map(line).collect()
}
