//! The printed form of an error: `error[code]: sentence`, `because:` for each cause, `help:` for each
//! piece of advice. Pure.

use std::error::Error;
use std::fmt::Write as _;

use jaco_types::ErrorCode;
use jaco_types::code::ExitCode;
use serde_json::{Value, json};

use super::pages;

/// Whether text is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// With ANSI escape sequences: on a terminal, unless `NO_COLOR` is set.
    On,
    /// Plain text.
    Off,
}

/// An error as it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The error code, if one applies.
    pub label: Option<String>,
    /// What happened.
    pub sentence: String,
    /// The causes, outermost first.
    pub because: Vec<String>,
    /// Advice.
    pub help: Vec<String>,
    /// Details for programs.
    pub details: Value,
    /// Text that is printed unchanged before everything else.
    pub preface: String,
    /// The exit code.
    pub exit: ExitCode,
}

impl Report {
    /// An error with a code and the advice of its page.
    pub(super) fn coded(code: ErrorCode, sentence: String) -> Self {
        Self {
            label: Some(code.as_str().to_owned()),
            help: vec![pages::advice(code.as_str()), format!("more: jaco help error {code}")],
            ..Self::plain(code.exit_code(), sentence)
        }
    }

    /// An error without a code.
    pub(super) fn plain(exit: ExitCode, sentence: String) -> Self {
        Self {
            label: None,
            sentence,
            because: Vec::new(),
            help: Vec::new(),
            details: json!({}),
            preface: String::new(),
            exit,
        }
    }

    /// Whether there is something to report; an interrupted command or a closed pipe is no error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        !self.sentence.is_empty()
    }

    /// The text for stderr.
    #[must_use]
    pub fn text(&self, colour: Colour) -> String {
        let mut text = String::new();
        if !self.preface.is_empty() {
            writeln!(text, "{}", self.preface).expect("writing to a string cannot fail");
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
            .expect("writing to a string cannot fail");
        let lines = |word: &str, lines: &[String], text: &mut String| {
            for line in lines {
                writeln!(text, "  {bold}{word}:{plain} {line}")
                    .expect("writing to a string cannot fail");
            }
        };
        lines("because", &self.because, &mut text);
        lines("help", &self.help, &mut text);
        text
    }

    /// The JSON for stdout.
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

/// The messages of an error and its sources.
pub(super) fn chain(mut source: Option<&(dyn Error + 'static)>) -> Vec<String> {
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
