//! A process that serves the site.

use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::net::TcpStream;

use super::site::{Place, serving};

/// How long one may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A proxy that runs. Its process ends with the last of its handles.
#[derive(Debug, Clone)]
pub(super) struct Proxy {
    pub(super) name: &'static str,
    pub(super) address: Ipv4Addr,
    process: Arc<Process>,
}

#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Proxy {
    pub(super) fn new(name: &'static str, address: Ipv4Addr, process: Child) -> Self {
        Self { name, address, process: Arc::new(Process(process)) }
    }

    /// Starts a program that serves at this address, and waits until it listens in both ways.
    pub(super) async fn start(
        name: &'static str,
        address: Ipv4Addr,
        command: &mut Command,
        log: &Path,
    ) -> Result<Self> {
        let output = File::create(log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let proxy = Self::new(name, address, child);
        let begun = Instant::now();
        for place in [Place::Clear, Place::Tls] {
            while TcpStream::connect(serving(address, place)).await.is_err() {
                if begun.elapsed() > START_LIMIT {
                    let said = std::fs::read_to_string(log).unwrap_or_default();
                    bail!("{name} does not listen; it said:\n{said}");
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(proxy)
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.0.id()
    }
}
