//! Lines over datagrams: each frame carries its number, and is handed out after those before it.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use futures::{Sink, Stream};
use tokio::sync::mpsc;

use crate::net::{Frame, Outgoing, To};

/// Frames that came out of order wait here for those before them.
pub(crate) struct Ordered {
    next: u64,
    early: BTreeMap<u64, BytesMut>,
    sender: mpsc::UnboundedSender<BytesMut>,
}

impl Ordered {
    pub(crate) fn new(sender: mpsc::UnboundedSender<BytesMut>) -> Self {
        Self { next: 0, early: BTreeMap::new(), sender }
    }

    /// Takes a numbered frame.
    pub(crate) fn take(&mut self, numbered: &[u8]) {
        let (number, frame) = numbered.split_at(8);
        let number = u64::from_be_bytes(number.try_into().unwrap());
        if number >= self.next {
            self.early.insert(number, frame.into());
        }
        while let Some(frame) = self.early.remove(&self.next) {
            self.next += 1;
            drop(self.sender.send(frame));
        }
    }
}

/// One end of a line.
pub(crate) struct Line {
    number: u64,
    to: (To, u8),
    sent: u64,
    out: Outgoing,
    incoming: mpsc::UnboundedReceiver<BytesMut>,
}

impl Line {
    pub(crate) fn new(
        number: u64,
        to: (To, u8),
        out: Outgoing,
        incoming: mpsc::UnboundedReceiver<BytesMut>,
    ) -> Self {
        Self { number, to, sent: 0, out, incoming }
    }
}

impl Stream for Line {
    type Item = io::Result<BytesMut>;

    fn poll_next(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.incoming.poll_recv(ctx).map(|frame| frame.map(Ok))
    }
}

impl Sink<Bytes> for Line {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Bytes) -> io::Result<()> {
        let mut body = BytesMut::new();
        body.put_u64(self.sent);
        body.put_slice(&frame);
        self.sent += 1;
        let (to, kind) = self.to.clone();
        let frame = Frame { call: self.number, kind, body: body.freeze() };
        self.out.send((to, frame)).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
