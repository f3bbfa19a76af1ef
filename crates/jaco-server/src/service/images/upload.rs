//! Takes the blobs that the cluster lacks into the store of this node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_proto::v1;
use jaco_proto::v1::upload_input::Input;
use jaco_proto::v1::upload_output::Output;
use jaco_state::images::{ImageBlob, LAYERS_MAX};
use jaco_types::{BlobDigest, ErrorCode, Rejection};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::images::{STALL, blob, digest};
use crate::member::Member;
use crate::service::upgraded;
use crate::status::{from_status, invalid, to_status};

/// Responses that wait for the client.
const QUEUE: usize = 4;

/// The most bytes of a blob: whoever claims more is mistaken, whatever the store may take.
const BLOB_BYTES_MAX: u64 = 1 << 40;

type Outputs = mpsc::Sender<Result<v1::UploadOutput, Status>>;

/// Says what is missing, and takes it from then on.
///
/// # Errors
/// If the request is wrong, or too many upload already.
pub(super) async fn begin(
    member: Arc<Member>,
    mut inputs: Streaming<v1::UploadInput>,
) -> Result<ReceiverStream<Result<v1::UploadOutput, Status>>, Rejection> {
    let permit = member.images.begin_upload()?;
    let Some(Input::Start(start)) = next(&mut inputs).await? else {
        return Err(invalid("the first message of this stream must be `start`"));
    };
    member.store.read(upgraded::images_may_begin)?;
    let blobs = wanted(&start)?;
    let upload = Upload { member, blobs, permit };
    let (outputs, sent) = mpsc::channel(QUEUE);
    tokio::spawn(async move {
        if let Err(rejection) = upload.run(inputs, &outputs).await {
            // A client that is gone hears nothing any more.
            outputs.send(Err(to_status(&rejection))).await.ok();
        }
    });
    Ok(ReceiverStream::new(sent))
}

fn wanted(start: &v1::UploadStart) -> Result<BTreeMap<BlobDigest, ImageBlob>, Rejection> {
    if start.blobs.len() > LAYERS_MAX + 1 {
        let message = format!("an image has at most {LAYERS_MAX} layers");
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    let mut blobs = BTreeMap::new();
    for info in &start.blobs {
        let blob = blob(info)?;
        if blob.bytes > BLOB_BYTES_MAX {
            let message = format!("a layer has at most {BLOB_BYTES_MAX} bytes");
            return Err(Rejection::new(ErrorCode::TooLarge, message));
        }
        if blobs.insert(blob.digest, blob).is_some_and(|other| other.bytes != blob.bytes) {
            return Err(invalid(format!("{} has two sizes", blob.digest)));
        }
    }
    Ok(blobs)
}

struct Upload {
    member: Arc<Member>,
    blobs: BTreeMap<BlobDigest, ImageBlob>,
    permit: OwnedSemaphorePermit,
}

impl Upload {
    async fn run(
        self,
        mut inputs: Streaming<v1::UploadInput>,
        outputs: &Outputs,
    ) -> Result<(), Rejection> {
        let images = &self.member.images;
        let all: BTreeSet<ImageBlob> = self.blobs.values().copied().collect();
        let _pins = images.blobs().pin(all.iter().copied());
        let mut missing: BTreeMap<BlobDigest, ImageBlob> = BTreeMap::new();
        let mut told = Vec::new();
        for (blob, offset) in images.missing(&all) {
            missing.insert(blob.digest, blob);
            let digest = blob.digest.0.to_vec().into();
            let info = v1::BlobInfo { digest, bytes: blob.bytes };
            told.push(v1::MissingBlob { blob: Some(info), offset });
        }
        let node = self.member.hostname.to_string();
        let first = Output::Missing(v1::UploadMissing { node, blobs: told });
        tell(outputs, first).await?;
        while !missing.is_empty() {
            let begun = match next(&mut inputs).await? {
                Some(Input::Blob(begun)) => begun,
                Some(Input::Start(_) | Input::Data(_)) => {
                    return Err(invalid("data of a layer came before the layer was named"));
                }
                None => return Err(gone()),
            };
            let digest = digest(&begun.digest)?;
            let Some(blob) = missing.remove(&digest) else {
                return Err(invalid(format!("{digest} is not missing")));
            };
            self.take(blob, begun.offset, &mut inputs).await?;
            let stored = v1::UploadStored { digest: begun.digest };
            tell(outputs, Output::Stored(stored)).await?;
        }
        drop(self.permit);
        Ok(())
    }

    /// Takes the data of one blob.
    async fn take(
        &self,
        blob: ImageBlob,
        offset: u64,
        inputs: &mut Streaming<v1::UploadInput>,
    ) -> Result<(), Rejection> {
        let images = &self.member.images;
        let refused = |error| images.refusal(&error);
        let writing = images.write(blob, offset).await.map_err(refused)?;
        let mut left = blob.bytes.saturating_sub(offset);
        while left > 0 {
            match next(inputs).await? {
                Some(Input::Data(piece)) => {
                    let length = piece.len() as u64;
                    if length > left {
                        return Err(invalid(format!("{} is longer than announced", blob.digest)));
                    }
                    if !writing.send(piece).await {
                        break;
                    }
                    left -= length;
                }
                Some(Input::Start(_) | Input::Blob(_)) => {
                    return Err(invalid(format!("{} ends {left} bytes early", blob.digest)));
                }
                None => return Err(gone()),
            }
        }
        writing.finish().await.map_err(refused)
    }
}

async fn tell(outputs: &Outputs, output: Output) -> Result<(), Rejection> {
    let output = v1::UploadOutput { output: Some(output) };
    outputs.send(Ok(output)).await.map_err(|_| gone())
}

/// The next message. A sender that stalls gives way to others.
async fn next(inputs: &mut Streaming<v1::UploadInput>) -> Result<Option<Input>, Rejection> {
    let message = tokio::time::timeout(STALL, inputs.message()).await.map_err(|_| {
        let message =
            format!("nothing came for {} s: run the push again, it goes on", STALL.as_secs());
        Rejection::new(ErrorCode::TimedOut, message)
    })?;
    let message = message.map_err(|status| from_status(&status))?;
    Ok(message.and_then(|message| message.input))
}

fn gone() -> Rejection {
    Rejection::new(ErrorCode::Unavailable, "the sender of the image is gone")
}
