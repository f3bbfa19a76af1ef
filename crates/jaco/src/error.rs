//! Why a command did not do what it was asked to, and how that is told: `error[code]: sentence`,
//! `because:` for each cause, `help:` for each advice. Pure.

use std::error::Error;
use std::fmt::Write as _;
use std::io;

use jaco_client::ClientError;
use jaco_compose::Problems;
use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use crate::pages;
use crate::ui::Colour;

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The cluster said no, or nobody answered.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// As before, while something goes on that the user should know how to get back to.
    #[error("{source}")]
    ClientDuring {
        /// What happened.
        source: ClientError,
        /// How to get back.
        help: String,
    },
    /// The manifest has problems; all of them are listed.
    #[error("the manifest has {}", count(problems.errors().count() + problems.omitted, "problem"))]
    Manifest {
        /// What is wrong, with places.
        problems: Problems,
    },
    /// One of the closed set of codes, found without asking the cluster.
    #[error("{message}")]
    Refused {
        /// The code.
        code: ErrorCode,
        /// What happened.
        message: String,
        /// What to do, more to the point than the code's page.
        help: Option<String>,
    },
    /// The cluster took the change and it did not end well.
    #[error("{message}")]
    Outcome {
        /// What it came to; it says what to exit with, too.
        code: ErrorCode,
        /// What happened.
        message: String,
        /// The facts, one line each.
        because: Vec<String>,
        /// What to do next.
        help: Vec<String>,
    },
    /// The command line asks for something that makes no sense.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What would be right.
        help: Option<String>,
    },
    /// Something on this machine failed.
    #[error("{what}")]
    Local {
        /// What was being done.
        what: String,
        /// Why it failed.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// Nobody reads the results any more.
    #[error("results could not be printed")]
    Output(#[source] io::Error),
    /// The user pressed Ctrl-C.
    #[error("{message}")]
    Interrupted {
        /// What goes on, and how to get back to it.
        message: String,
    },
}

/// An error as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The code, or nothing where no code applies.
    pub label: Option<String>,
    /// What happened.
    pub sentence: String,
    /// Why, outermost first.
    pub because: Vec<String>,
    /// What to do.
    pub help: Vec<String>,
    /// Facts for programs.
    pub details: Value,
    /// What is printed as it is, before everything else.
    pub preface: String,
    /// What to exit with.
    pub exit: ExitCode,
}

impl CliError {
    /// Something on this machine failed.
    pub fn local(what: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Local { what: what.into(), source: source.into() }
    }

    /// A command line that makes no sense.
    pub fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: Some(help.into()) }
    }

    /// What to tell the user.
    #[must_use]
    pub fn report(&self) -> Report {
        match self {
            Self::Client(error) => client_report(error, None),
            Self::ClientDuring { source, help } => client_report(source, Some(help)),
            Self::Manifest { problems } => Report {
                preface: format!("{problems}\n"),
                details: problems.to_json(),
                help: Vec::new(),
                ..coded(ErrorCode::InvalidManifest, self.to_string())
            },
            Self::Refused { code, message, help } => {
                let mut report = coded(*code, message.clone());
                if let Some(help) = help {
                    report.help.insert(0, help.clone());
                }
                report
            }
            Self::Outcome { code, message, because, help } => Report {
                label: Some(code.as_str().to_owned()),
                because: because.clone(),
                help: help.clone(),
                ..plain(code.exit_code(), message.clone())
            },
            Self::Usage { message, help } => Report {
                help: help.iter().cloned().collect(),
                ..plain(ExitCode::Usage, message.clone())
            },
            Self::Local { what, source } => Report {
                because: chain(Some(&**source)),
                ..plain(ExitCode::Unexpected, what.clone())
            },
            // A reader that went away, as `head` does, is no news to anybody.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                plain(ExitCode::Unexpected, String::new())
            }
            Self::Output(error) => Report {
                because: vec![error.to_string()],
                ..plain(ExitCode::Unexpected, self.to_string())
            },
            Self::Interrupted { message } => {
                Report { preface: message.clone(), ..plain(ExitCode::Interrupted, String::new()) }
            }
        }
    }
}

fn client_report(error: &ClientError, help: Option<&String>) -> Report {
    let code = error.code();
    let mut report = coded(code, error.to_string());
    report.because = chain(error.source());
    report.exit = error.exit_code();
    if let Some(rejection) = error.rejection() {
        let facts = rejection.details.iter();
        report.because = facts.flat_map(|(key, fact)| told(key, fact)).collect();
        report.details = json!(rejection.details);
    }
    if let Some(help) = help {
        report.help.insert(0, help.clone());
    }
    report
}

/// A fact of a refusal; a list of problems in a manifest is one line for each.
fn told(key: &str, fact: &str) -> Vec<String> {
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

/// With the advice of the code's page.
fn coded(code: ErrorCode, sentence: String) -> Report {
    Report {
        label: Some(code.as_str().to_owned()),
        help: vec![pages::advice(code), format!("more: jaco help error {code}")],
        ..plain(code.exit_code(), sentence)
    }
}

fn plain(exit: ExitCode, sentence: String) -> Report {
    Report {
        label: None,
        sentence,
        because: Vec::new(),
        help: Vec::new(),
        details: json!({}),
        preface: String::new(),
        exit,
    }
}

fn chain(mut source: Option<&(dyn Error + 'static)>) -> Vec<String> {
    let mut causes = Vec::new();
    while let Some(error) = source {
        let cause = error.to_string();
        if causes.last() != Some(&cause) {
            causes.push(cause);
        }
        source = error.source();
    }
    causes
}

impl Report {
    /// Whether something went wrong, as opposed to being ended by the user or a reader.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !self.sentence.is_empty()
    }

    /// For people.
    #[must_use]
    pub fn text(&self, colour: Colour) -> String {
        let mut text = String::new();
        if !self.preface.is_empty() {
            writeln!(text, "{}", self.preface).expect("a string takes it");
        }
        if !self.is_error() {
            return text;
        }
        let (red, bold, plain) = match colour {
            Colour::On => ("\x1b[1;31m", "\x1b[1m", "\x1b[0m"),
            Colour::Off => ("", "", ""),
        };
        let label = self.label.as_ref().map(|label| format!("[{label}]")).unwrap_or_default();
        writeln!(text, "{red}error{label}{plain}{bold}: {}{plain}", self.sentence)
            .expect("a string takes it");
        let lines = |word: &str, lines: &[String], text: &mut String| {
            for line in lines {
                writeln!(text, "  {bold}{word}:{plain} {line}").expect("a string takes it");
            }
        };
        lines("because", &self.because, &mut text);
        lines("help", &self.help, &mut text);
        text
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({ "error": {
            "code": self.label,
            "message": self.sentence,
            "because": self.because,
            "help": self.help,
            "details": self.details,
            "exit_code": self.exit as u8,
        }})
    }
}

/// A number of things: `1 problem`, `2 problems`.
#[must_use]
pub fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}
