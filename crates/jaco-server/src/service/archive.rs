//! Tar archives as streams of messages, for copies of files and of volumes.

use std::io;

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use jaco_agent::engine::EngineError;
use jaco_agent::transfer::{Archive, ArchiveInput};
use tonic::{Status, Streaming};

/// Bytes of a piece of an archive in one message.
const PIECE_BYTES_MAX: usize = 1 << 20;

/// What a message of a sender has.
pub(super) enum Part {
    Piece(Bytes),
    /// The archive is complete.
    End,
    /// Nothing of an archive.
    Other,
}

/// An archive in messages.
pub(super) fn messages<M: Send + 'static>(
    archive: Archive,
    message: fn(Bytes) -> M,
    refused: impl Fn(&EngineError) -> Status + Send + 'static,
) -> impl Stream<Item = Result<M, Status>> + Send {
    archive.flat_map(move |piece| {
        let messages: Vec<_> = match piece {
            Ok(piece) => {
                let starts = (0..piece.len()).step_by(PIECE_BYTES_MAX);
                let end = |start: usize| piece.len().min(start + PIECE_BYTES_MAX);
                starts.map(|start| Ok(message(piece.slice(start..end(start))))).collect()
            }
            Err(error) => vec![Err(refused(&error))],
        };
        stream::iter(messages)
    })
}

/// The archive in messages of a sender. One that ends without its end is broken: its sender is gone.
pub(super) fn received<M: Send + 'static>(
    inputs: Streaming<M>,
    part: fn(M) -> Part,
) -> ArchiveInput {
    let pieces = stream::unfold(Some(inputs), move |inputs| async move {
        let mut inputs = inputs?;
        let broken = |message: &str| {
            Some((Err(io::Error::new(io::ErrorKind::UnexpectedEof, message)), None))
        };
        match inputs.message().await.map(|message| message.map(part)) {
            Ok(Some(Part::Piece(piece))) => Some((Ok(piece), Some(inputs))),
            Ok(Some(Part::End)) => None,
            Ok(Some(Part::Other)) => broken("the archive is followed by something else"),
            Ok(None) | Err(_) => broken("the sender of the archive is gone"),
        }
    });
    pieces.boxed()
}
