//! Writes and linearizable reads per second through the public API of the leader, and the processor
//! time that they cost all members, beside etcd's.

use std::time::Duration;

use anyhow::{Result, ensure};
use jaco_testkit::Engine;

use crate::Plan;
use crate::etcd::{self, Etcd};
use crate::figure::{Figure, say};
use crate::load::{self, Load};
use crate::ours::{self, Ours};
use crate::proc::processor_time;

/// How many clients send at once, each over a connection of its own.
const CLIENTS: [u32; 3] = [1, 16, 64];

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Write,
    Read,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Write => "writes",
            Self::Read => "linearizable reads",
        }
    }
}

/// One stretch of load, and what it cost.
#[derive(Debug, Clone, Copy)]
struct Sample {
    load: Load,
    /// Processor time of all members per answered request, in microseconds. Other work on the machine
    /// changes it far less than the rate.
    processor_us: f64,
}

/// Measures both clusters in turns, each load after the other.
pub(crate) async fn measure(plan: Plan) -> Result<Vec<Figure>> {
    let ours = Ours::start(Engine::Fake).await?;
    let etcd = Etcd::start().await?;
    let mut figures = Vec::new();
    for kind in [Kind::Write, Kind::Read] {
        for clients in CLIENTS {
            let mut loads = (Vec::new(), Vec::new());
            for round in 1..=plan.rounds {
                loads.0.push(load_ours(&ours, plan, kind, clients).await?);
                loads.1.push(load_etcd(&etcd, plan, kind, clients).await?);
                let (ours, theirs) = (loads.0[round - 1], loads.1[round - 1]);
                say(&format!(
                    "{}, {clients} clients, round {round}: {}; {} {}",
                    kind.name(),
                    ours.summary(),
                    etcd::WHO,
                    theirs.summary(),
                ));
            }
            figures.extend(rows(kind, clients, &loads.0, &loads.1));
        }
    }
    Ok(figures)
}

impl Sample {
    /// `busy` is the processor time that the members used for all that was answered.
    fn new(load: Load, busy: Duration) -> Result<Self> {
        let answered = f64::from(u32::try_from(load.answered)?);
        Ok(Self { load, processor_us: busy.as_secs_f64() * 1e6 / answered })
    }

    fn summary(&self) -> String {
        let Self { load, processor_us } = self;
        format!("{:.0}/s p99 {:.2} ms {processor_us:.0} µs", load.per_second, load.p99_ms)
    }
}

/// The processor time of all these processes so far.
fn busy(pids: &[u32]) -> Result<Duration> {
    pids.iter().map(|pid| processor_time(*pid)).sum()
}

fn rows(kind: Kind, clients: u32, ours: &[Sample], theirs: &[Sample]) -> Vec<Figure> {
    let what = kind.name();
    let many = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
    let row = |name: String, unit, look: fn(&Sample) -> f64| {
        let ours = ours.iter().map(look).collect();
        Figure::beside(name, unit, ours, etcd::WHO, theirs.iter().map(look).collect())
    };
    vec![
        row(format!("{what}, {many}"), "/s", |sample| sample.load.per_second),
        row(format!("{what} p50, {many}"), "ms", |sample| sample.load.p50_ms),
        row(format!("{what} p99, {many}"), "ms", |sample| sample.load.p99_ms),
        row(format!("{what}, processor time each, {many}"), "µs", |sample| sample.processor_us),
    ]
}

async fn load_ours(ours: &Ours, plan: Plan, kind: Kind, clients: u32) -> Result<Sample> {
    let leader = ours.cluster.leader().await;
    let before = ours.raft_index().await?;
    let clients = (0..clients).map(|_| ours.client(leader)).collect::<Result<Vec<_>>>()?;
    let pids: Vec<u32> = ours.cluster.nodes.iter().map(jaco_testkit::Node::pid).collect();
    let busy_before = busy(&pids)?;
    let load = load::run(clients, plan.stretch, move |client, _| async move {
        match kind {
            Kind::Write => ours::write(&client).await,
            Kind::Read => ours::read(&client).await,
        }
    })
    .await?;
    let busy = busy(&pids)? - busy_before;
    let entries = ours.raft_index().await? - before;
    let written = u64::try_from(load.answered)?;
    // A write that is answered without an entry of its own would be no write.
    ensure!(
        kind == Kind::Read || entries >= written,
        "{written} writes were answered and only {entries} entries agreed on"
    );
    Sample::new(load, busy)
}

async fn load_etcd(etcd: &Etcd, plan: Plan, kind: Kind, clients: u32) -> Result<Sample> {
    let leader = etcd.leader().await?;
    let mut all = Vec::new();
    for number in 0..clients {
        all.push(etcd.client(leader, number).await?);
    }
    let busy_before = busy(&etcd.pids())?;
    let load = load::run(all, plan.stretch, move |client, number| async move {
        match kind {
            Kind::Write => client.write(number).await,
            Kind::Read => client.read().await,
        }
    })
    .await?;
    Sample::new(load, busy(&etcd.pids())? - busy_before)
}
