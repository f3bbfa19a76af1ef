//! What a member that is down costs the members that are up: one of three refuses connections, then
//! one of three is cut off by dropped packets.
//!
//! Each member is in a network namespace of its own, so that packets tell who sent them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jaco_testkit::{Cluster, Engine, Machines, binary};

use crate::Plan;
use crate::figure::{Figure, say};
use crate::ours::{NODES, Ours};
use crate::proc::processor_time;

/// A member that has just gone still costs an election, retries of what was in flight and, once it
/// is declared down, a pass of the planner.
const SETTLE: Duration = Duration::from_secs(15);

/// It is declared down within this time, and heard of again within this time.
const LIMIT: Duration = Duration::from_secs(60);

/// How often the leader is asked whether it has heard of the member.
const LOOK: Duration = Duration::from_millis(20);

/// The two ways of being down.
#[derive(Debug, Clone, Copy)]
enum Outage {
    /// The process is gone: connections are refused at once.
    Refused,
    /// Packets are dropped in both directions: connections time out.
    Unreachable,
}

impl Outage {
    fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }
}

/// Takes a follower away and gives it back, once per round and outage. Of the survivors the worst
/// counts; attempts are those of all survivors together.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let machines = Machines::start(NODES).await;
    let mut cluster = Cluster::without_nodes(Engine::Fake);
    for at in 0..NODES {
        let router = cluster.router().join(at.to_string());
        let settings = format!("net: {{runtime_dir: {}}}\n", router.display());
        let address = format!("{}:7000", machines.address(at));
        let mut command = machines.inside(at);
        cluster.add_daemon_at(&address, &settings, command.arg(binary("jacod")));
    }
    let mut ours = Ours::form(cluster, Engine::Fake).await?;
    let mut figures = Vec::new();
    for outage in [Outage::Refused, Outage::Unreachable] {
        let [mut processor, mut attempts, mut back] = [Vec::new(), Vec::new(), Vec::new()];
        for round in 1..=plan.rounds {
            let [busy, tried, heard] =
                one_outage(&mut ours, &machines, outage, plan.stretch).await?;
            let name = outage.name();
            say(&format!(
                "member {name}, round {round}: {busy:.2} % of a core, {tried:.1} attempts/s, heard of again after {heard:.2} s"
            ));
            processor.push(busy);
            attempts.push(tried);
            back.push(heard);
        }
        let name = outage.name();
        figures.extend([
            Figure::alone(format!("processor of survivors, a member {name}"), "% core", processor),
            Figure::alone(format!("connection attempts, a member {name}"), "/s", attempts),
            Figure::alone(format!("return to heard of, a member {name}"), "s", back),
        ]);
    }
    Ok(figures)
}

/// Processor time in percent of a core, attempts per second, seconds from the return to the first
/// heartbeat.
async fn one_outage(
    ours: &mut Ours,
    machines: &Machines,
    outage: Outage,
    stretch: Duration,
) -> Result<[f64; 3]> {
    ours.cluster.settled().await;
    let leader = ours.cluster.leader().await;
    let lost = (0..NODES).rev().find(|node| *node != leader).context("there is a follower")?;
    let survivors: Vec<usize> = (0..NODES).filter(|node| *node != lost).collect();
    for survivor in &survivors {
        machines.count_attempts(*survivor, lost);
    }
    match outage {
        Outage::Refused => ours.cluster.nodes[lost].kill(),
        Outage::Unreachable => machines.cut(lost),
    }
    heard_of(ours, leader, lost, Heard::No).await?;
    tokio::time::sleep(SETTLE).await;
    let pids = survivors.iter().map(|node| ours.cluster.nodes[*node].pid());
    let pids: Vec<u32> = pids.collect();
    let used = || pids.iter().map(|pid| processor_time(*pid)).collect::<Result<Vec<_>>>();
    let attempts = || survivors.iter().map(|node| machines.attempts(*node)).sum::<u64>();
    let (before, first) = (used()?, attempts());
    tokio::time::sleep(stretch).await;
    let (after, last) = (used()?, attempts());
    let busiest = before.iter().zip(&after).map(|(before, after)| after.saturating_sub(*before));
    let busiest = busiest.max().context("there are survivors")?;
    let tried = f64::from(u32::try_from(last - first)?);
    let back = Instant::now();
    match outage {
        Outage::Refused => {
            let mut command = machines.inside(lost);
            ours.cluster.nodes[lost].start_under(command.arg(binary("jacod")));
        }
        Outage::Unreachable => machines.join(),
    }
    heard_of(ours, leader, lost, Heard::Yes).await?;
    let seconds = stretch.as_secs_f64();
    Ok([busiest.as_secs_f64() / seconds * 100.0, tried / seconds, back.elapsed().as_secs_f64()])
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Yes,
    No,
}

/// Waits until the leader says that it hears of a member, or no longer does.
async fn heard_of(ours: &Ours, leader: usize, member: usize, wanted: Heard) -> Result<()> {
    let started = Instant::now();
    let name = &ours.cluster.nodes[member].name;
    while started.elapsed() < LIMIT {
        let status = ours.cluster.overview(leader).await.map_err(anyhow::Error::msg)?;
        let node = status.nodes.iter().find(|node| node.hostname == *name);
        let ready = node.context("the member is in the status")?.status == "ready";
        if ready == (wanted == Heard::Yes) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    bail!("after {LIMIT:?} the leader's word on {name} had not changed")
}
