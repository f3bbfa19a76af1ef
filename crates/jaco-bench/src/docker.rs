//! The engine's own interface, just enough to look at it and to clean up after a measurement.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::figure::say;

const SOCKET: &str = "/var/run/docker.sock";
/// An engine that takes longer is not fit to be measured.
const LIMIT: Duration = Duration::from_secs(10);
/// Longest answer that is read: a thousand tasks.
const ANSWER_MAX: u64 = 16 << 20;

/// Asks the engine.
pub(crate) fn get(path: &str) -> Result<Value> {
    get_at(Path::new(SOCKET), path)
}

/// Asks the engine of this socket.
pub(crate) fn get_at(socket: &Path, path: &str) -> Result<Value> {
    exchange(socket, "GET", path, "")
}

/// Makes the engine do something.
pub(crate) fn post(path: &str, body: &Value) -> Result<Value> {
    post_at(Path::new(SOCKET), path, body)
}

/// Makes the engine of this socket do something; `null` for a request without a body.
pub(crate) fn post_at(socket: &Path, path: &str, body: &Value) -> Result<Value> {
    // A body that is not read ends the connection before the answer is.
    let body = if body.is_null() { String::new() } else { body.to_string() };
    exchange(socket, "POST", path, &body)
}

fn exchange(socket: &Path, method: &str, path: &str, body: &str) -> Result<Value> {
    let mut stream = UnixStream::connect(socket).context("no Docker Engine answers")?;
    stream.set_read_timeout(Some(LIMIT))?;
    // HTTP/1.0, so that the answer ends with the connection and nothing has to be counted.
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-length: {length}");
    write!(stream, "{head}\r\ncontent-type: application/json\r\n\r\n{body}")?;
    let mut text = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("the engine does not speak HTTP")?;
    match head.split(' ').nth(1) {
        Some("200" | "201") => {}
        // There is nothing to say.
        Some("204") => return Ok(Value::Null),
        _ => bail!("the engine refuses {path}: {body}"),
    }
    serde_json::from_str(body).with_context(|| format!("answer to {path}"))
}

/// Runs the engine's command line and returns what it prints.
pub(crate) fn command(args: &[&str]) -> Result<String> {
    let output = Command::new("docker").args(args).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("docker {} ended with {}: {}", args.join(" "), output.status, said.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What daemons of ours leave on an engine when they are killed. Removed when dropped, which must be
/// after the daemons ended.
#[derive(Debug)]
pub(crate) struct Leftovers {
    filter: String,
}

impl Leftovers {
    pub(crate) fn of_cluster(cluster: &str) -> Self {
        Self { filter: format!("label=jaco.cluster_id={cluster}") }
    }

    fn remove(&self) -> Result<()> {
        let of_kind = |list: &[&str], remove: &[&str]| -> Result<()> {
            let found = command(&[list, &["-q", "--filter", &self.filter]].concat())?;
            let found: Vec<&str> = found.split_whitespace().collect();
            if !found.is_empty() {
                command(&[remove, &found].concat())?;
            }
            Ok(())
        };
        of_kind(&["container", "ls", "-a"], &["container", "rm", "-f"])?;
        of_kind(&["network", "ls"], &["network", "rm"])?;
        of_kind(&["volume", "ls"], &["volume", "rm"])
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            say(&format!("not everything was cleaned up: {error:#}"));
        }
    }
}
