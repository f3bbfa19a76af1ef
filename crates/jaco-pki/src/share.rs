//! A connection's share of the processor: how much it may read before others have their turn.
//!
//! The runtime counts calls, not bytes: a flood would be decrypted by the megabyte before a request of another connection
//! is looked at.

use std::io;
use std::task::{Context, Poll};

use tokio::io::ReadBuf;

/// What is read in one turn: the longest record of TLS.
const TURN_BYTES: usize = 16 << 10;

/// What one connection has read of its turn.
#[derive(Debug, Default)]
pub(crate) struct Share {
    bytes: usize,
}

impl Share {
    /// Reads by `read`, if there is something left of the turn. If not, the task is woken for the next one.
    pub(crate) fn poll_read(
        &mut self,
        ctx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        read: impl FnOnce(&mut Context<'_>, &mut ReadBuf<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        if self.bytes >= TURN_BYTES {
            self.bytes = 0;
            ctx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = read(ctx, buffer);
        match read {
            // It waits for the other end: so others have their turn.
            Poll::Pending => self.bytes = 0,
            Poll::Ready(_) => self.bytes += buffer.filled().len() - before,
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// R-FAULT-3: who sends without end is read by a turn at a time; who sends little is never made to wait.
    #[test]
    fn a_flood_is_read_by_turns() {
        let mut ctx = Context::from_waker(Waker::noop());
        let (mut share, mut memory) = (Share::default(), [0; 4096]);
        let mut read = |bytes: usize| {
            let mut buffer = ReadBuf::new(&mut memory);
            let from = |_: &mut Context<'_>, buffer: &mut ReadBuf<'_>| {
                buffer.advance(bytes);
                if bytes > 0 { Poll::Ready(Ok(())) } else { Poll::Pending }
            };
            share.poll_read(&mut ctx, &mut buffer, from).map(|_| buffer.filled().len())
        };
        for _ in 0..3 {
            for _ in 0..TURN_BYTES / 4096 {
                assert_eq!(read(4096), Poll::Ready(4096));
            }
            assert_eq!(read(4096), Poll::Pending);
        }
        for _ in 0..100 {
            assert_eq!(read(1000), Poll::Ready(1000));
            assert_eq!(read(0), Poll::Pending);
        }
    }
}
