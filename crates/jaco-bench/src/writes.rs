//! Writes and linearizable reads per second through the public API of the leader, beside etcd's.

use anyhow::{Result, ensure};
use jaco_testkit::Engine;

use crate::Plan;
use crate::etcd::{self, Etcd};
use crate::figure::{Figure, say};
use crate::load::{self, Load};
use crate::ours::{self, Ours};

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
                    "{}, {clients} clients, round {round}: {:.0}/s p99 {:.2} ms; {} {:.0}/s p99 {:.2} ms",
                    kind.name(),
                    ours.per_second,
                    ours.p99_ms,
                    etcd::WHO,
                    theirs.per_second,
                    theirs.p99_ms,
                ));
            }
            figures.extend(rows(kind, clients, &loads.0, &loads.1));
        }
    }
    Ok(figures)
}

fn rows(kind: Kind, clients: u32, ours: &[Load], theirs: &[Load]) -> Vec<Figure> {
    let what = kind.name();
    let many = if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
    let row = |name: String, unit, look: fn(&Load) -> f64| {
        let ours = ours.iter().map(look).collect();
        Figure::beside(name, unit, ours, etcd::WHO, theirs.iter().map(look).collect())
    };
    vec![
        row(format!("{what}, {many}"), "/s", |load| load.per_second),
        row(format!("{what} p50, {many}"), "ms", |load| load.p50_ms),
        row(format!("{what} p99, {many}"), "ms", |load| load.p99_ms),
    ]
}

async fn load_ours(ours: &Ours, plan: Plan, kind: Kind, clients: u32) -> Result<Load> {
    let leader = ours.cluster.leader().await;
    let before = ours.raft_index().await?;
    let clients = (0..clients).map(|_| ours.client(leader)).collect::<Result<Vec<_>>>()?;
    let load = load::run(clients, plan.stretch, move |client, _| async move {
        match kind {
            Kind::Write => ours::write(&client).await,
            Kind::Read => ours::read(&client).await,
        }
    })
    .await?;
    let entries = ours.raft_index().await? - before;
    let written = u64::try_from(load.answered)?;
    // A write that is answered without an entry of its own would be no write.
    ensure!(
        kind == Kind::Read || entries >= written,
        "{written} writes were answered and only {entries} entries agreed on"
    );
    Ok(load)
}

async fn load_etcd(etcd: &Etcd, plan: Plan, kind: Kind, clients: u32) -> Result<Load> {
    let leader = etcd.leader().await?;
    let mut all = Vec::new();
    for number in 0..clients {
        all.push(etcd.client(leader, number).await?);
    }
    load::run(all, plan.stretch, move |client, number| async move {
        match kind {
            Kind::Write => client.write(number).await,
            Kind::Read => client.read().await,
        }
    })
    .await
}
