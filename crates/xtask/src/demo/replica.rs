//! A replica as `jaco get replicas -o json` shows it, and a request to it.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::{http, interrupt};

/// `apply` has returned, so the replica is healthy: what is left is the engine's own forwarding.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Replica {
    pub(super) id: String,
    pub(super) node: String,
    ports: Vec<Port>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Port {
    /// The port on the host.
    host: u16,
}

/// Reads the list that the command line prints.
///
/// # Errors
/// If it has another shape.
pub(super) fn parse(text: &str) -> Result<Vec<Replica>> {
    serde_json::from_str(text).context("jaco get replicas printed an unknown shape")
}

impl Replica {
    /// Asks until the replica answers with the version.
    ///
    /// # Errors
    /// If it does not in time.
    pub(super) fn await_answer(&self, version: &str) -> Result<String> {
        let port = self.ports.first().with_context(|| format!("{} has no host port", self.id))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.host));
        let begun = Instant::now();
        loop {
            interrupt::check()?;
            let seen = match http::get(address, "/") {
                Ok(answer) if answer.status == 200 && answer.body.contains(version) => {
                    return Ok(answer.body.trim_end().to_owned());
                }
                Ok(answer) => format!("{} {}", answer.status, answer.body.trim_end()),
                Err(error) => error.to_string(),
            };
            if begun.elapsed() > ANSWER_LIMIT {
                bail!("{} on {address} does not answer with {version}: {seen}", self.id);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let text = r#"[{"id":"hello-web-0","node":"n1","state":"running","ports":[{"container":8080,"host":32768}]}]"#;
        let replica = Replica {
            id: "hello-web-0".to_owned(),
            node: "n1".to_owned(),
            ports: vec![Port { host: 32768 }],
        };
        assert_eq!(parse(text).expect("valid"), [replica]);
        assert!(parse("{}").is_err());
    }
}
