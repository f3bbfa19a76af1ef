//! Where the program's lines go: one write and one flush per line, so that nothing is lost when it is killed.
//!
//! A closed pipe is no reason to stop serving, so write errors are dropped here and nowhere else.

use std::io::Write;

/// Writes one line to stdout.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{text}").is_ok() {
        out.flush().ok();
    }
}

/// Writes one line to stderr.
pub(crate) fn error(text: &str) {
    writeln!(std::io::stderr().lock(), "{text}").ok();
}
