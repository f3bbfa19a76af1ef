//! Sends pieces of contents in requests of bounded size.

use std::collections::BTreeSet;

use jaco_client::{Client, ClientError};
use jaco_proto::v1::{MissingContentsRequest, PutContentsRequest};
use jaco_types::ContentId;
use prost::bytes::Bytes;

/// The maximum number of bytes of one request, a little below what the cluster accepts.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// The maximum number of pieces of one request.
const REQUEST_PIECES_MAX: usize = 1024;

/// Whether an upload is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UploadMode {
    /// It is stored.
    Store,
    /// Nothing is stored: the cluster only computes the ids of secrets.
    DryRun,
}

/// Collects pieces and sends a request whenever one is full.
pub(crate) struct PieceSender<'c> {
    client: &'c Client,
    batch: Batch,
    sent_bytes: u64,
}

impl<'c> PieceSender<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, batch: Batch::default(), sent_bytes: 0 }
    }

    /// Adds a piece. It is sent with a later call at the latest by [`finish`](Self::finish).
    pub(crate) async fn put(&mut self, piece: Bytes) -> Result<(), ClientError> {
        match self.batch.push(piece) {
            Some(full) => self.send(full).await,
            None => Ok(()),
        }
    }

    /// Sends the remaining pieces.
    pub(crate) async fn finish(&mut self) -> Result<(), ClientError> {
        let rest = std::mem::take(&mut self.batch);
        if rest.pieces.is_empty() { Ok(()) } else { self.send(rest).await }
    }

    /// The number of bytes that the cluster has received.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    async fn send(&mut self, batch: Batch) -> Result<(), ClientError> {
        let Batch { pieces, bytes } = batch;
        let request = PutContentsRequest { plain: pieces, ..PutContentsRequest::default() };
        self.client.put_contents(request).await?;
        self.sent_bytes += bytes as u64;
        Ok(())
    }
}

/// Pieces for one request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Batch {
    pieces: Vec<Bytes>,
    bytes: usize,
}

impl Batch {
    /// Adds a piece; if it does not fit, it starts the next batch and the full one is returned.
    fn push(&mut self, piece: Bytes) -> Option<Self> {
        let fits =
            self.bytes + piece.len() <= REQUEST_BYTES_MAX && self.pieces.len() < REQUEST_PIECES_MAX;
        let full = (!fits && !self.pieces.is_empty()).then(|| std::mem::take(self));
        self.bytes += piece.len();
        self.pieces.push(piece);
        full
    }
}

/// Which of these pieces the cluster does not have.
pub(crate) async fn missing(
    client: &Client,
    ids: impl Iterator<Item = ContentId>,
) -> Result<BTreeSet<ContentId>, ClientError> {
    let ids = ids.map(|id| id.0.to_vec().into()).collect();
    let answer = client.missing_contents(MissingContentsRequest { ids }).await?;
    Ok(answer.ids.iter().filter_map(|id| parse_id(id)).collect())
}

/// Uploads the content of a secret. Returns its id, which only the cluster can compute; `None` if the
/// response holds none.
pub(crate) async fn put_secret(
    client: &Client,
    content: Bytes,
    mode: UploadMode,
) -> Result<Option<ContentId>, ClientError> {
    let request = PutContentsRequest {
        secret: vec![content],
        dry_run: mode == UploadMode::DryRun,
        ..PutContentsRequest::default()
    };
    let answer = client.put_contents(request).await?;
    Ok(answer.secret.first().and_then(|id| parse_id(id)))
}

fn parse_id(bytes: &[u8]) -> Option<ContentId> {
    <[u8; 32]>::try_from(bytes).ok().map(ContentId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_stay_within_the_limits_of_a_request() {
        let check = |sizes: &[usize], expected: &[usize]| {
            let mut batch = Batch::default();
            let full = sizes.iter().filter_map(|size| batch.push(vec![0; *size].into()));
            let mut found: Vec<usize> = full.map(|batch| batch.pieces.len()).collect();
            if !batch.pieces.is_empty() {
                found.push(batch.pieces.len());
            }
            assert_eq!(found, expected, "{sizes:?}");
        };
        let max = REQUEST_BYTES_MAX;
        check(&[], &[]);
        check(&[1, 2, 3], &[3]);
        check(&[max, 1, max - 1, 1], &[1, 2, 1]);
        check(&vec![0; REQUEST_PIECES_MAX + 1], &[REQUEST_PIECES_MAX, 1]);
    }
}
