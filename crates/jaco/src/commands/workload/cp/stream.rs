//! Archives between the connection and a thread that reads or writes files: the connection must not wait for a disk.

use std::io::{self, Read, Write};
use std::thread;

use jaco_client::{CopyInputs, Taken};
use tokio::sync::{mpsc, oneshot};

use crate::error::CliError;

/// Bytes of a piece: a message has room for it.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// Runs `task` on a thread of its own, and waits for what it returns. A read of stdin cannot be cancelled, and the process
/// must be able to exit during one.
pub(super) async fn on_thread<T: Send + 'static>(
    task: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CliError> {
    let (sender, receiver) = oneshot::channel();
    // Nobody waits any more if the command was interrupted.
    thread::spawn(move || sender.send(task()).is_ok());
    receiver.await.map_err(|error| CliError::local("the copy has ended", error))
}

/// The archive as the thread reads it, from the pieces that arrive.
#[derive(Debug)]
pub(super) struct Pieces {
    arriving: mpsc::Receiver<Vec<u8>>,
    current: io::Cursor<Vec<u8>>,
}

impl Pieces {
    pub(super) fn new(arriving: mpsc::Receiver<Vec<u8>>) -> Self {
        Self { arriving, current: io::Cursor::default() }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let length = self.current.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            match self.arriving.blocking_recv() {
                Some(piece) => self.current = io::Cursor::new(piece),
                None => return Ok(0),
            }
        }
    }
}

/// The archive as the thread writes it, into the container.
pub(super) struct Sending(pub(super) CopyInputs);

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE_BYTES_MAX)];
        match self.0.send_blocking(piece.to_vec()) {
            Taken::Yes => Ok(piece.len()),
            Taken::No => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
