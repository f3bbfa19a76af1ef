//! Programs that a test runs to their end.

use std::process::{Command, Output, Stdio};

/// Runs it without input, and hands back what it printed.
///
/// # Panics
/// When it is not there, or fails.
pub fn ran(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program is there");
    succeeded(&output)
}

/// All that it printed: its result, and behind that its errors.
#[must_use]
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// What it printed.
///
/// # Panics
/// When it failed.
pub fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
