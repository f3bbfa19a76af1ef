//! What attacks on the leader cost a cluster and those who use it: each of the attacks of [`Attack`] for a while, on three
//! daemons of its own.
//!
//! The attacker is a process of its own, on this machine and against loopback only; see `generator.rs`.

mod attack;
mod frames;
pub(crate) mod generator;
mod honest;
mod operators;
mod strangers;
mod victim;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jaco_proto::v1;
use jaco_testkit::{Engine, Node};
use serde_json::json;

use self::attack::Attack;
use self::generator::Generator;
use self::honest::Honest;
use crate::Plan;
use crate::figure::{Figure, say};
use crate::load::{millis, quantile};
use crate::ours::{NODES, Ours};
use crate::proc::resident_bytes;

const AT_REST: &str = "at rest";

/// How long the honest client is watched without an attack; less if the attack is shorter.
const REST: Duration = Duration::from_secs(30);

/// How long a cluster has to recover before its memory is compared.
const CALM: Duration = Duration::from_secs(15);

/// How long the leader may take to miss a member, and to hear of it again.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often memory and states are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// So that a status has some hundred kilobytes.
const REPLICAS: usize = 1_000;
const DEPLOYMENT: &str = "many";

/// What one attack did.
struct Damage {
    memory_over_rest: u64,
    rest: u64,
    /// Of the attacked, without what the commands of the honest client have left in the state of each member.
    after: u64,
    /// What they have left there: by how much a member that is not attacked has grown.
    grown: u64,
    terms: u64,
    commands: Honest,
    commands_at_rest: Honest,
    back: Duration,
    log_bytes: u64,
    sent: u64,
    lasted: Duration,
}

/// Carries the attacks out whose name contains `only`, one after the other.
pub(crate) async fn measure(plan: Plan, only: &str) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for attack in Attack::ALL.into_iter().filter(|attack| attack.name().contains(only)) {
        let mut all = Vec::new();
        for round in 1..=plan.rounds {
            let damage = Box::pin(suffer(attack, plan.stretch)).await;
            let damage = damage.with_context(|| format!("attack {:?}", attack.name()))?;
            say(&format!("{}, round {round}: {}", attack.name(), damage.summary()?));
            all.push(damage);
        }
        figures.extend(figures_of(attack, &all)?);
    }
    Ok(figures)
}

/// Attacks the leader of a new cluster for `stretch` and while a follower comes back.
async fn suffer(attack: Attack, stretch: Duration) -> Result<Damage> {
    let mut ours = Ours::start(Engine::Fake).await?;
    if attack.needs_a_large_status() {
        let service = json!({"image": "web:1", "deploy": {"replicas": REPLICAS}});
        let model = json!({"name": DEPLOYMENT, "services": {"web": service}});
        ours.apply(&ours.client(0)?, model).await?;
        ours.running(DEPLOYMENT, REPLICAS, Duration::from_secs(120)).await;
    }
    let leader = ours.cluster.leader().await;
    let commands_at_rest = honest::commands(&ours, leader, stretch.min(REST)).await?;

    let before = term(&ours.cluster.nodes[leader]).await?;
    let logged = log_bytes(&ours)?;
    let pid = ours.cluster.nodes[leader].pid();
    let rest = resident_bytes(pid)?;
    // It applies the same entries, and stays when the other follower is killed.
    let bystander = (0..NODES).rev().find(|node| *node != leader).context("there is a follower")?;
    let bystander = ours.cluster.nodes[bystander].pid();
    let bystander_at_rest = resident_bytes(bystander)?;
    let highest = Highest::watch(pid, rest);
    let begun = Instant::now();
    let generator = Generator::start(attack, &ours, leader).await?;
    let commands = honest::commands(&ours, leader, stretch).await?;
    let back = come_back(&mut ours, leader).await.unwrap_or_else(|error| {
        say(&format!("{}: {error:#}", attack.name()));
        PATIENCE
    });
    let sent = generator.end().await?;
    let lasted = begun.elapsed();
    let memory_over_rest = highest.end().saturating_sub(rest);
    let log_bytes = log_bytes(&ours)?.saturating_sub(logged);

    tokio::time::sleep(CALM).await;
    let grown = resident_bytes(bystander)?.saturating_sub(bystander_at_rest);
    let after = resident_bytes(pid)?.saturating_sub(grown);
    let terms = term(&ours.cluster.nodes[leader]).await? - before;
    Ok(Damage {
        memory_over_rest,
        rest,
        after,
        grown,
        terms,
        commands,
        commands_at_rest,
        back,
        log_bytes,
        sent,
        lasted,
    })
}

/// How long a follower that was killed takes from its start to the leader's word that it is ready.
async fn come_back(ours: &mut Ours, leader: usize) -> Result<Duration> {
    let follower = (0..NODES).find(|node| *node != leader).context("there is a follower")?;
    ours.cluster.nodes[follower].kill();
    is_said_to_be(ours, leader, follower, "down").await?;
    let started = Instant::now();
    ours.cluster.nodes[follower].start();
    is_said_to_be(ours, leader, follower, "ready").await?;
    Ok(started.elapsed())
}

/// Waits until a node says this of another one. A leader that is unseated meanwhile says neither.
async fn is_said_to_be(ours: &Ours, node: usize, other: usize, wanted: &str) -> Result<()> {
    let begun = Instant::now();
    let name = &ours.cluster.nodes[other].name;
    let mut said = String::new();
    while begun.elapsed() < PATIENCE {
        // It may be too busy to answer.
        if let Ok(status) = ours.cluster.overview(node).await {
            let found = status.nodes.iter().find(|found| found.hostname == *name);
            said = found.map(|found| found.status.clone()).unwrap_or_default();
            if said == wanted {
                return Ok(());
            }
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("after {PATIENCE:?} {name} is not said to be {wanted:?} but {said:?}")
}

async fn term(node: &Node) -> Result<u64> {
    let status = node.client().status(v1::ClusterStatusRequest {}).await;
    Ok(status.context("the attacked node does not answer on its socket")?.term)
}

/// What all daemons have logged.
fn log_bytes(ours: &Ours) -> Result<u64> {
    let lengths = ours.cluster.nodes.iter().map(|node| fs::metadata(node.log_path()));
    lengths.map(|length| Ok(length?.len())).sum()
}

/// The largest resident set of a process since it is watched.
struct Highest {
    seen: Arc<AtomicU64>,
    watching: tokio::task::JoinHandle<()>,
}

impl Highest {
    fn watch(pid: u32, rest: u64) -> Self {
        let seen = Arc::new(AtomicU64::new(rest));
        let shared = Arc::clone(&seen);
        let watching = tokio::spawn(async move {
            let mut looks = tokio::time::interval(LOOK);
            loop {
                looks.tick().await;
                // A daemon that has ended is found by its term.
                let Ok(bytes) = resident_bytes(pid) else { return };
                shared.fetch_max(bytes, Ordering::Relaxed);
            }
        });
        Self { seen, watching }
    }

    fn end(self) -> u64 {
        self.watching.abort();
        self.seen.load(Ordering::Relaxed)
    }
}

impl Damage {
    fn summary(&self) -> Result<String> {
        Ok(format!(
            "{:.1} MiB over {:.1} MiB, {:.1} MiB after it and {:.1} MiB of state; {} terms; p99 {:.1} ms after {:.1} ms, {} of {} commands failed; \
             member back after {:?}; {:.1} KiB/s logged; {:.0} units/s",
            mib(self.memory_over_rest)?,
            mib(self.rest)?,
            mib(self.after)?,
            mib(self.grown)?,
            self.terms,
            p99(&self.commands),
            p99(&self.commands_at_rest),
            self.commands.failed,
            self.commands.took.len(),
            self.back,
            mib(self.log_bytes)? * 1024.0 / self.lasted.as_secs_f64(),
            self.rate()?,
        ))
    }

    fn rate(&self) -> Result<f64> {
        Ok(f64::from(u32::try_from(self.sent)?) / self.lasted.as_secs_f64())
    }
}

fn p99(commands: &Honest) -> f64 {
    millis(quantile(&commands.took, 99))
}

/// To a KiB: enough for a table.
fn mib(bytes: u64) -> Result<f64> {
    Ok(f64::from(u32::try_from(bytes >> 10)?) / 1024.0)
}

fn figures_of(attack: Attack, all: &[Damage]) -> Result<Vec<Figure>> {
    let name = |what: &str| format!("hostile, {}: {what}", attack.name());
    let each = |of: &dyn Fn(&Damage) -> Result<f64>| all.iter().map(of).collect::<Result<Vec<_>>>();
    let count = |number: u64| Ok(f64::from(u32::try_from(number)?));
    let (p99_then, p99_rest) =
        (each(&|it| Ok(p99(&it.commands)))?, each(&|it| Ok(p99(&it.commands_at_rest)))?);
    let (after, before) = (each(&|it| mib(it.after))?, each(&|it| mib(it.rest))?);
    let logged = each(&|it| Ok(mib(it.log_bytes)? * 1024.0 / it.lasted.as_secs_f64()))?;
    Ok(vec![
        Figure::alone(name("memory over rest"), "MiB", each(&|it| mib(it.memory_over_rest))?),
        Figure::alone(name("changes of the term"), "", each(&|it| count(it.terms))?),
        Figure::beside(name("p99 of a command"), "ms", p99_then, AT_REST, p99_rest),
        Figure::alone(name("commands that failed"), "", each(&|it| count(it.commands.failed))?),
        Figure::alone(name("return of a member"), "s", each(&|it| Ok(it.back.as_secs_f64()))?),
        Figure::beside(name("memory after it"), "MiB", after, AT_REST, before),
        Figure::alone(name("state that the commands left"), "MiB", each(&|it| mib(it.grown))?),
        Figure::alone(name("log of all daemons"), "KiB/s", logged),
        Figure::alone(name("sent"), "/s", each(&Damage::rate)?),
    ])
}
