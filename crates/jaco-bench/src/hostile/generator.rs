//! The attacker: this program, started again. It attacks from the line that it reads first until its input ends, and
//! answers with how much it has sent.
//!
//! It has the lowest priority: attackers have machines of their own, and one that took the processors away would itself be
//! what is measured. It attacks loopback addresses only, with a fixed number of connections, and for at most
//! [`LONGEST`].

use std::io::BufRead;
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jaco_pki::{Dialer, TrustBundle};
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::attack::Attack;
use super::victim::Victim;
use super::{frames, operators, strangers};
use crate::ours::Ours;

/// Has this program attack; not for people.
pub(crate) const COMMAND: &str = "attack";

const LONGEST: Duration = Duration::from_secs(900);
const WORKERS: usize = 2;

/// What it is told.
#[derive(Debug, Serialize, Deserialize)]
struct Order {
    attack: Attack,
    address: SocketAddr,
    authority_pem: String,
    /// Of an operator; what strangers do goes without it.
    token: String,
}

/// The process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Generator(Child);

impl Generator {
    /// Begins to attack a node.
    pub(super) async fn start(attack: Attack, ours: &Ours, node: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the attacker")?;
        let order = Order {
            attack,
            address: ours.cluster.nodes[node].address.parse()?,
            authority_pem: ours.authority_pem.clone(),
            token: ours.token.clone(),
        };
        let line = format!("{}\n", serde_json::to_string(&order)?);
        child.stdin.as_mut().context("no input")?.write_all(line.as_bytes()).await?;
        Ok(Self(child))
    }

    /// Ends the attack. Returns how much was sent, in units of the attack.
    pub(super) async fn end(mut self) -> Result<u64> {
        drop(self.0.stdin.take());
        let output = self.0.wait_with_output().await?;
        ensure!(output.status.success(), "the attacker ended with {}", output.status);
        let sent = String::from_utf8(output.stdout)?;
        sent.trim().parse().context("the attacker does not say what it has sent")
    }
}

/// Attacks until the input ends.
///
/// # Errors
/// If the order cannot be read or is not for a loopback address.
pub(crate) fn run() -> Result<()> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    ensure!(order.address.ip().is_loopback(), "{} is not on loopback", order.address);
    nice(19).context("cannot lower the priority")?;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let sent = Arc::new(AtomicU64::new(0));
    let trust = TrustBundle::from_pem(&order.authority_pem)?;
    let victim = Victim {
        address: order.address,
        dialer: Dialer::operator(trust)?,
        sent: Arc::clone(&sent),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            () = attack(order.attack, victim, order.token) => {}
            () = told_to_end() => {}
            () = tokio::time::sleep(LONGEST) => {}
        }
    });
    runtime.shutdown_background();
    answer(sent.load(Ordering::Relaxed));
    Ok(())
}

async fn told_to_end() {
    let read = || std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    // However the input ends: who gave the order has gone.
    let _ended = tokio::task::spawn_blocking(read).await;
}

#[expect(clippy::print_stdout, reason = "stdout is where the answer goes")]
fn answer(sent: u64) {
    println!("{sent}");
}

/// Never ends by itself.
async fn attack(attack: Attack, victim: Victim, token: String) {
    match attack {
        Attack::Bodies => strangers::bodies(victim).await,
        Attack::IdleConnections => strangers::idle_connections(victim).await,
        Attack::Hellos => strangers::hellos(victim).await,
        Attack::Refused => strangers::refused_calls(victim).await,
        Attack::PortRanges => operators::dry_runs(victim, &token, "1-65535").await,
        Attack::DryRuns => operators::dry_runs(victim, &token, "80").await,
        Attack::Watches => operators::stalled(victim, &token, "/jaco.v1.Query/Watch").await,
        Attack::Audits => operators::stalled(victim, &token, "/jaco.v1.Query/Audit").await,
        Attack::Unread => operators::unread_sockets(victim, &token, "/jaco.v1.Query/Watch").await,
        Attack::RapidReset => frames::flood(victim, frames::Flood::RapidReset).await,
        Attack::Continuation => frames::flood(victim, frames::Flood::Continuation).await,
        Attack::Pings => frames::flood(victim, frames::Flood::Pings).await,
        Attack::Settings => frames::flood(victim, frames::Flood::Settings).await,
    }
}
