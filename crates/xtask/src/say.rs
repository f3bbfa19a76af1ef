//! Where lines go: results to stdout, everything about the way there to stderr.
//!
//! A reader that went away is no reason to stop half way through a clean-up, so write errors are dropped here.

use std::io::Write;
use std::time::Instant;

/// Writes one line of the result.
pub(crate) fn result(text: &str) {
    writeln!(std::io::stdout().lock(), "{text}").ok();
}

/// Writes one line of progress.
pub(crate) fn note(text: &str) {
    writeln!(std::io::stderr().lock(), "xtask: {text}").ok();
}

/// Writes what went wrong.
pub(crate) fn error(text: &str) {
    note(&format!("error: {text}"));
}

/// Writes what must not be overlooked.
pub(crate) fn loud(text: &str) {
    let bar = "!".repeat(80);
    writeln!(std::io::stderr().lock(), "{bar}\n!!  {text}\n{bar}").ok();
}

/// A failure that has been reported in full: there is nothing to add but the exit code.
#[derive(Debug)]
pub(crate) struct Reported;

impl std::fmt::Display for Reported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed, as reported")
    }
}

impl std::error::Error for Reported {}

/// Numbered steps with the time since they began.
#[derive(Debug)]
pub(crate) struct Steps {
    begun: Instant,
    count: usize,
}

impl Steps {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now(), count: 0 }
    }

    /// Counts the time from here.
    pub(crate) fn restart_clock(&mut self) {
        self.begun = Instant::now();
    }

    /// Announces the next step.
    pub(crate) fn next(&mut self, text: &str) {
        self.count += 1;
        let (seconds, count) = (self.begun.elapsed().as_secs_f64(), self.count);
        writeln!(std::io::stderr().lock(), "[{seconds:6.1} s] {count:2}. {text}").ok();
    }
}
