//! Pushed images of this node as its peers and its own agent see them: blobs are handed to other members, and fetched from
//! them (ADR 0137).

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jaco_agent::images::{BlobSource, BlobStore, BlobWriter, PushedImages, StoreError};
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::images::ImageBlob;
use jaco_state::view::images::holders_of_blob;
use jaco_types::{BlobDigest, ErrorCode, Hostname, NodeId, NodeStatus, Rejection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tonic::{Request, Status};

use crate::peers::Peers;
use crate::raft::RaftStore;
use crate::status::{from_status, invalid};
use crate::view::hostname;

/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;

/// Pieces that wait for the disk or the network.
const QUEUE: usize = 4;

/// Blobs that are handed out at a time. More only slow each other down.
const SERVED_MAX: usize = 8;

/// Blobs that are fetched at a time.
const FETCHED_MAX: usize = 4;

/// Uploads of users at a time.
const UPLOADS_MAX: usize = 8;

/// How long the next piece may take.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// The pushed images of this node. Clones are the same.
#[derive(Debug, Clone)]
pub struct ImageStore {
    id: NodeId,
    hostname: Hostname,
    blobs: BlobStore,
    store: Arc<RaftStore>,
    peers: Peers,
    serving: Arc<Semaphore>,
    fetching: Arc<Semaphore>,
    uploading: Arc<Semaphore>,
}

impl ImageStore {
    /// The images of the node `id` with its blobs.
    #[must_use]
    pub fn new(
        (id, hostname): (NodeId, Hostname),
        blobs: BlobStore,
        store: Arc<RaftStore>,
        peers: Peers,
    ) -> Self {
        Self {
            id,
            hostname,
            blobs,
            store,
            peers,
            serving: Arc::new(Semaphore::new(SERVED_MAX)),
            fetching: Arc::new(Semaphore::new(FETCHED_MAX)),
            uploading: Arc::new(Semaphore::new(UPLOADS_MAX)),
        }
    }

    /// The blobs that are here.
    #[must_use]
    pub fn blobs(&self) -> &BlobStore {
        &self.blobs
    }

    /// As the agent uses them.
    #[must_use]
    pub fn for_agent(&self) -> PushedImages {
        PushedImages { blobs: self.blobs.clone(), source: Arc::new(self.clone()) }
    }

    /// What of these blobs neither this node has nor a member that works, with the bytes that are here.
    #[must_use]
    pub(crate) fn missing(&self, blobs: &BTreeSet<ImageBlob>) -> Vec<(ImageBlob, u64)> {
        let elsewhere = |blob: ImageBlob| {
            self.store.read(|state| {
                let holders = holders_of_blob(state, blob.digest).into_iter();
                holders.filter(|node| *node != self.id).any(|node| is_ready(state, node))
            })
        };
        let missing = blobs.iter().filter(|blob| !self.blobs.has(**blob) && !elsewhere(**blob));
        missing.map(|blob| (*blob, self.blobs.begun(*blob))).collect()
    }

    /// The right to upload, which is refused where too many do.
    pub(crate) fn begin_upload(&self) -> Result<OwnedSemaphorePermit, Rejection> {
        Arc::clone(&self.uploading).try_acquire_owned().map_err(|_| {
            let message = format!(
                "{UPLOADS_MAX} images are being pushed to {}: try again, or push to another node",
                self.hostname
            );
            Rejection::new(ErrorCode::Overloaded, message)
        })
    }

    /// Begins to write a blob here.
    pub(crate) async fn write(&self, blob: ImageBlob, offset: u64) -> Result<Writing, StoreError> {
        let claim = self.blobs.claim(blob.digest).await;
        let begun = tokio::task::spawn_blocking(move || claim.write(blob.bytes, offset)).await;
        let writer = begun.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        let (sender, pieces) = mpsc::channel(QUEUE);
        let done = tokio::task::spawn_blocking(move || write_all(writer, pieces));
        Ok(Writing { pieces: sender, done })
    }

    /// What a blob cannot be written for, as users see it.
    pub(crate) fn refusal(&self, error: &StoreError) -> Rejection {
        let code = match error {
            StoreError::Full { .. } | StoreError::DiskFull { .. } => ErrorCode::ImageStoreFull,
            StoreError::Gap { .. }
            | StoreError::TooLong { .. }
            | StoreError::TooShort { .. }
            | StoreError::WrongDigest { .. } => ErrorCode::InvalidRequest,
            StoreError::Disk(_) => ErrorCode::Internal,
        };
        Rejection::new(code, format!("node {}: {error}", self.hostname))
    }

    /// A blob for another member, piece by piece.
    ///
    /// # Errors
    /// If it is not here.
    pub(crate) async fn serve(
        &self,
        request: &v1::ReadBlobRequest,
    ) -> Result<mpsc::Receiver<Result<v1::BlobPiece, Status>>, Rejection> {
        let blob = ImageBlob { digest: digest(&request.digest)?, bytes: request.bytes };
        let absent = || {
            let message = format!("node {} does not have {}", self.hostname, blob.digest);
            Rejection::new(ErrorCode::ImageNotFound, message)
        };
        if !self.blobs.has(blob) || request.offset > blob.bytes {
            return Err(absent());
        }
        let permit = tokio::time::timeout(STALL, Arc::clone(&self.serving).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            let message = format!("node {} hands out {SERVED_MAX} layers already", self.hostname);
            return Err(Rejection::new(ErrorCode::Overloaded, message));
        };
        let mut file = self.blobs.read(blob.digest).map_err(|_| absent())?;
        let offset = request.offset;
        let (sender, pieces) = mpsc::channel(QUEUE);
        tokio::task::spawn_blocking(move || {
            let mut send = || -> std::io::Result<()> {
                file.seek(SeekFrom::Start(offset))?;
                loop {
                    let mut piece = Vec::new();
                    (&mut file).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
                    let is_last = piece.is_empty();
                    let piece = v1::BlobPiece { data: piece.into() };
                    if is_last || sender.blocking_send(Ok(piece)).is_err() {
                        return Ok(());
                    }
                }
            };
            if let Err(error) = send() {
                drop(sender.blocking_send(Err(Status::internal(error.to_string()))));
            }
            drop(permit);
        });
        Ok(pieces)
    }

    /// The other members in the order to ask them: those that hold the blob, then those that may.
    fn candidates(&self, blob: BlobDigest) -> Vec<(NodeId, String, String)> {
        self.store.read(|state| {
            let holders = holders_of_blob(state, blob);
            let mut all: Vec<_> = state.nodes.values().filter(|node| node.id != self.id).collect();
            all.sort_by_key(|node| {
                (!holders.contains(&node.id), !is_ready(state, node.id), node.id)
            });
            let all = all
                .into_iter()
                .map(|node| (node.id, node.address.clone(), hostname(state, node.id)));
            all.collect()
        })
    }

    async fn fetch_from(
        &self,
        (node, address): (NodeId, &str),
        blob: ImageBlob,
        note: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), String> {
        let offset = self.blobs.begun(blob);
        let request = v1::ReadBlobRequest {
            digest: blob.digest.0.to_vec().into(),
            bytes: blob.bytes,
            offset,
        };
        let mut client = self.peers.blobs(node, address);
        // It waits for a place there as well.
        let asked = tokio::time::timeout(2 * STALL, client.read_blob(Request::new(request))).await;
        let answer = asked.map_err(|_| "it does not answer".to_owned())?;
        let mut pieces = answer.map_err(|status| from_status(&status).message)?.into_inner();
        let writing = self.write(blob, offset).await.map_err(|error| error.to_string())?;
        note(offset);
        loop {
            let piece = tokio::time::timeout(STALL, pieces.message()).await;
            let piece = piece.map_err(|_| format!("nothing came for {} s", STALL.as_secs()))?;
            match piece.map_err(|status| from_status(&status).message)? {
                None => break,
                Some(piece) => {
                    let length = piece.data.len() as u64;
                    if !writing.send(piece.data).await {
                        break;
                    }
                    note(length);
                }
            }
        }
        writing.finish().await.map_err(|error| error.to_string())
    }
}

#[async_trait]
impl BlobSource for ImageStore {
    async fn fetch(
        &self,
        blob: ImageBlob,
        note: &(dyn Fn(u64) + Send + Sync),
    ) -> Result<(), String> {
        let _permit = self.fetching.acquire().await;
        let mut failures = Vec::new();
        for (node, address, name) in self.candidates(blob.digest) {
            // An upload or another fetch may have brought it meanwhile.
            if self.blobs.has(blob) {
                return Ok(());
            }
            match self.fetch_from((node, &address), blob, note).await {
                Ok(()) => return Ok(()),
                Err(reason) => failures.push(format!("{name}: {reason}")),
            }
        }
        let failures = match failures.is_empty() {
            true => "there is no other node".to_owned(),
            false => failures.join("; "),
        };
        Err(format!(
            "{} of a pushed image is not in the image store of node {}, and no node gives it ({failures}): start \
             a node that holds it (`jaco image ls`), or push the image again with `jaco image push`",
            blob.digest, self.hostname
        ))
    }
}

fn is_ready(state: &ClusterState, node: NodeId) -> bool {
    state.nodes.get(&node).is_some_and(|node| node.status == NodeStatus::Ready)
}

/// A blob that is being written by a thread of its own.
#[derive(Debug)]
pub(crate) struct Writing {
    pieces: mpsc::Sender<bytes::Bytes>,
    done: JoinHandle<Result<(), StoreError>>,
}

impl Writing {
    /// Hands a piece over; false once it was refused, for the reason that [`Self::finish`] gives.
    pub(crate) async fn send(&self, piece: bytes::Bytes) -> bool {
        self.pieces.send(piece).await.is_ok()
    }

    /// Completes the blob.
    pub(crate) async fn finish(self) -> Result<(), StoreError> {
        drop(self.pieces);
        let done = self.done.await;
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}

fn write_all(
    mut writer: BlobWriter,
    mut pieces: mpsc::Receiver<bytes::Bytes>,
) -> Result<(), StoreError> {
    while let Some(piece) = pieces.blocking_recv() {
        writer.append(&piece)?;
    }
    writer.finish()
}

/// A digest of a request.
pub(crate) fn digest(bytes: &[u8]) -> Result<BlobDigest, Rejection> {
    let digest = <[u8; 32]>::try_from(bytes);
    digest.map(BlobDigest).map_err(|_| invalid("the digest of a blob has 32 bytes"))
}

/// A blob of a request.
pub(crate) fn blob(info: &v1::BlobInfo) -> Result<ImageBlob, Rejection> {
    Ok(ImageBlob { digest: digest(&info.digest)?, bytes: info.bytes })
}
