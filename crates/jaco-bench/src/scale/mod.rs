//! What a cluster costs that has many nodes: real daemons on this machine, and far more that this program plays, each with
//! a real leader.

mod daemons;
mod follow;
mod nodes;

use std::time::{Duration, Instant};

use anyhow::Result;
use jaco_client::{Client, fresh_request_id};
use jaco_proto::v1;

use self::follow::Indices;
use crate::Plan;
use crate::figure::{Figure, say};
use crate::heard::{Heard, by_all};
use crate::load::{millis, quantile};
use crate::proc::{processor_time, resident_bytes};

/// How many nodes there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Daemons that run; without any that part is left out.
    pub(crate) daemons: usize,
    /// Nodes that are played; without any that part is left out.
    pub(crate) nodes: usize,
}

/// A cluster that has just become calm still has things to note about itself.
const SETTLE: Duration = Duration::from_secs(10);

/// Changes of a stretch: a hundredth of them is one.
const CHANGES: usize = 120;

/// From one change to the next: a modest rate, at which none waits for another.
const CHANGE_INTERVAL: Duration = Duration::from_millis(200);

/// How long anything may take that all nodes have to do.
const PATIENCE: Duration = Duration::from_secs(300);

/// Takes both measurements, one after the other.
pub(crate) async fn measure(plan: Plan, size: Size) -> Result<Vec<Figure>> {
    let mut table = Table::default();
    if size.daemons > 0 {
        Box::pin(daemons::measure(plan, size.daemons, &mut table)).await?;
    }
    if size.nodes > 0 {
        Box::pin(nodes::measure(plan, size.nodes, &mut table)).await?;
    }
    Ok(table.figures)
}

/// The figures so far, in the order of their first values.
#[derive(Debug, Default)]
struct Table {
    figures: Vec<Figure>,
}

impl Table {
    /// One more value of a figure.
    fn note(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        let name = name.into();
        say(&format!("{name}: {value:.2} {unit}"));
        match self.figures.iter_mut().find(|figure| figure.name == name) {
            Some(figure) => figure.ours.push(value),
            None => self.figures.push(Figure::alone(name, unit, vec![value])),
        }
    }
}

/// A process, and the processor time that it had used at a moment.
#[derive(Debug, Clone, Copy)]
struct Busy {
    pid: u32,
    at: Instant,
    used: Duration,
}

impl Busy {
    fn of(pid: u32) -> Result<Self> {
        Ok(Self { pid, at: Instant::now(), used: processor_time(pid)? })
    }

    /// Processor time since then, in percent of a core.
    fn percent(&self) -> Result<f64> {
        let used = processor_time(self.pid)?.saturating_sub(self.used);
        Ok(used.as_secs_f64() / self.at.elapsed().as_secs_f64() * 100.0)
    }
}

/// The resident set of a process in MiB.
fn resident_mib(pid: u32) -> Result<f64> {
    Ok(f64::from(u32::try_from(resident_bytes(pid)? >> 10)?) / 1024.0)
}

/// What some changes came to.
#[derive(Debug, Clone, Copy)]
struct Changed {
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time of the leader per change, beyond what it uses at rest.
    processor_ms: f64,
}

/// Changes the label of a node again and again, and measures from each request to the moment when the last of `heard`
/// knows of it. `rest` is what the leader uses without changes, in percent of a core.
async fn change(
    client: &Client,
    indices: &Indices,
    heard: &[Heard],
    (leader, rest): (u32, f64),
) -> Result<Changed> {
    let busy = Busy::of(leader)?;
    let mut took = Vec::new();
    let mut turns = tokio::time::interval(CHANGE_INTERVAL);
    for _ in 0..CHANGES {
        turns.tick().await;
        let asked = Instant::now();
        let index = indices.of(&label(client).await?).await?;
        took.push(by_all(heard, index, PATIENCE).await?.duration_since(asked));
    }
    let beyond = (busy.percent()? - rest) / 100.0 * millis(busy.at.elapsed());
    took.sort_unstable();
    Ok(Changed {
        p50_ms: millis(quantile(&took, 50)),
        p99_ms: millis(quantile(&took, 99)),
        processor_ms: beyond.max(0.0) / f64::from(u32::try_from(CHANGES)?),
    })
}

/// Gives a node a label that it has not had before, and returns the id of that request.
async fn label(client: &Client) -> Result<String> {
    let request_id = fresh_request_id();
    let request = v1::SetLabelsRequest {
        hostname: "n1".to_owned(),
        set: [("bench".to_owned(), request_id.clone())].into(),
        unset: Vec::new(),
        request_id: request_id.clone(),
    };
    client.set_labels(request).await?;
    Ok(request_id)
}
