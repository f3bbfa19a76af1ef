//! A timer whose moment moves later with every byte, without the price of setting it anew each time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// A timer that is set once and looks, when it fires, whether its moment has moved since.
#[derive(Debug, Default)]
pub(crate) struct Deadline {
    sleep: Option<Pin<Box<Sleep>>>,
    at: Option<Instant>,
}

impl Deadline {
    /// The moment is so far from now.
    pub(crate) fn set(&mut self, after: Duration) {
        let at = Instant::now() + after;
        self.at = Some(at);
        // A timer that is too early fires in vain once; one that is too late has to be set.
        if let Some(sleep) = &mut self.sleep
            && sleep.deadline() > at
        {
            sleep.as_mut().reset(at);
        }
    }

    /// There is no moment.
    pub(crate) fn clear(&mut self) {
        self.at = None;
    }

    pub(crate) fn is_set(&self) -> bool {
        self.at.is_some()
    }

    /// Ready once the moment has passed; pending without one.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        loop {
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
    }
}
