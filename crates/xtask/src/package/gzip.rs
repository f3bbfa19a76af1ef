//! Compression of what is compressed inside of a package: pages and changelogs.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Compresses as Debian's packages do, without name and time.
///
/// # Errors
/// If gzip is not there or fails.
pub(super) fn compressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut command = Command::new("gzip");
    command.args(["-9", "--no-name", "--stdout"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start gzip")?;
    let mut stdin = child.stdin.take().expect("stdin was asked for");
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(move || stdin.write_all(bytes));
        let output = child.wait_with_output();
        (writer.join(), output)
    });
    match written {
        (Ok(Ok(())), Ok(output)) if output.status.success() => Ok(output.stdout),
        (_, output) => bail!("gzip failed: {output:?}"),
    }
}
