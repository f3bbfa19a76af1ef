//! When a node or a client heard of which index of the log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// How often it is looked whether all have heard.
const LOOK: Duration = Duration::from_millis(5);

/// What one follower of the log has heard, in order: an index only where it is higher than the one before. Clones are the
/// same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<(Instant, u64)>>>);

impl Heard {
    /// Something at this index was heard now.
    pub(crate) fn note(&self, index: u64) {
        let mut heard = self.lock();
        if heard.last().is_none_or(|(_, last)| *last < index) {
            heard.push((Instant::now(), index));
        }
    }

    /// When this index, or a later one, was heard first.
    fn of(&self, index: u64) -> Option<Instant> {
        let heard = self.lock();
        let first = heard.partition_point(|(_, at)| *at < index);
        heard.get(first).map(|(at, _)| *at)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Instant, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until all have heard of this index, and gives the moment when the last of them did.
///
/// # Errors
/// If not all have within `limit`.
pub(crate) async fn by_all(all: &[Heard], index: u64, limit: Duration) -> Result<Instant> {
    let begun = Instant::now();
    loop {
        let heard: Option<Vec<Instant>> = all.iter().map(|each| each.of(index)).collect();
        if let Some(last) = heard.and_then(|moments| moments.into_iter().max()) {
            return Ok(last);
        }
        ensure!(begun.elapsed() < limit, "not all have heard of entry {index} within {limit:?}");
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_of_all_counts() {
        let (one, other) = (Heard::default(), Heard::default());
        one.note(3);
        let first = one.of(2).unwrap();
        one.note(3);
        one.note(7);
        assert_eq!(one.of(3), Some(first), "the same index again is not news");
        assert!(one.of(8).is_none());
        let all = [one, other.clone()];
        assert!(by_all(&all, 3, Duration::from_millis(20)).await.is_err());
        other.note(5);
        assert_eq!(by_all(&all, 3, Duration::ZERO).await.unwrap(), other.of(5).unwrap());
    }
}
