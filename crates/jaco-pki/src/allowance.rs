//! How much is read of a connection whose other end has shown no credential.
//!
//! Each byte costs the processor at least its decryption, and frames without content far more than that. A stranger has
//! nothing to send but a join request, or the head of a request that has the credential.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// What is read at once: the largest join request (64 KiB) with its headers and frames.
const FIRST_BYTES: u64 = 80 << 10;

/// What is read after that, per second.
const BYTES_PER_SECOND: u64 = 4 << 10;

/// How long reading rests where nothing is left. A credential that is shown meanwhile is noticed by then.
const PAUSE: Duration = Duration::from_millis(100);

/// What was read of one connection.
#[derive(Debug)]
pub(crate) struct Allowance {
    spent: u64,
    since: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Allowance {
    /// Of a connection that begins now.
    pub(crate) fn new() -> Self {
        Self { spent: 0, since: Instant::now(), pause: None }
    }

    /// Ready if something may be read. If not, the task is woken to ask again.
    pub(crate) fn poll_ready(&mut self, ctx: &mut Context<'_>) -> Poll<()> {
        if self.spent < FIRST_BYTES {
            return Poll::Ready(());
        }
        loop {
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSE)));
            ready!(pause.as_mut().poll(ctx));
            self.pause = None;
            if self.spent < self.earned() {
                return Poll::Ready(());
            }
        }
    }

    /// Counts what was read.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    fn earned(&self) -> u64 {
        FIRST_BYTES + self.since.elapsed().as_secs().saturating_mul(BYTES_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// R-FAULT-3: a join request is read without a pause; after that a stranger is read slowly, however much it sends.
    #[tokio::test(start_paused = true)]
    async fn a_strangers_first_bytes_are_read_at_once_and_further_ones_slowly() {
        const READ: usize = 16 << 10;
        let mut allowance = Allowance::new();
        let begun = Instant::now();
        let mut read = 0_u64;
        let mut at_once = 0;
        while begun.elapsed() < Duration::from_secs(60) {
            poll_fn(|ctx| allowance.poll_ready(ctx)).await;
            allowance.spend(READ);
            read += READ as u64;
            if begun.elapsed().is_zero() {
                at_once = read;
            }
        }
        assert_eq!(at_once, FIRST_BYTES);
        let bound = FIRST_BYTES + 60 * BYTES_PER_SECOND;
        // The last read may be as long as any.
        assert!((bound..=bound + READ as u64).contains(&read), "{read}");
    }
}
