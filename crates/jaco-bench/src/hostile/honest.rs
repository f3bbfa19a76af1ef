//! A user of the cluster meanwhile: commands one after the other, each over a connection of its own, as the
//! command line does it.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::figure::say;
use crate::ours::{self, Ours};

/// From the beginning of one command to that of the next, however long the one takes.
const PACE: Duration = Duration::from_millis(100);

/// What came of the commands.
pub(super) struct Honest {
    /// How long each took, in order of length; one that failed, until it failed.
    pub(super) took: Vec<Duration>,
    pub(super) failed: u64,
}

/// Changes something through a node, for so long.
pub(super) async fn commands(ours: &Ours, node: usize, stretch: Duration) -> Result<Honest> {
    let end = Instant::now() + stretch;
    let mut pace = tokio::time::interval(PACE);
    let mut running = JoinSet::new();
    while Instant::now() < end {
        pace.tick().await;
        let client = ours.client(node)?;
        running.spawn(async move {
            let begun = Instant::now();
            let done = ours::write(&client).await;
            (begun.elapsed(), done)
        });
    }
    let mut honest = Honest { took: Vec::new(), failed: 0 };
    for (took, done) in running.join_all().await {
        honest.took.push(took);
        if let Err(error) = done {
            say(&format!("a command failed after {took:?}: {error:#}"));
            honest.failed += 1;
        }
    }
    honest.took.sort_unstable();
    Ok(honest)
}
