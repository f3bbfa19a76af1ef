//! Brings an image into the cluster: reads it, sends what the cluster lacks, has it recorded, waits for the copies, and gives it
//! its name.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use jaco_client::{Client, Taken, UploadInputs, fresh_request_id};
use jaco_proto::v1;
use jaco_types::{BlobDigest, ErrorCode, ImageTag};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Blob, Image, ImageError, inspect, parse, save, scan};
use crate::error::CliError;
use crate::format::quantity::{count, size};
use crate::output::Stream;
use crate::session::Session;

/// Bytes of a piece.
const PIECE_BYTES: usize = 512 << 10;

/// How often progress is drawn, and copies are looked for.
const LOOK: Duration = Duration::from_millis(150);

/// How long the copies may take, unless `--timeout` says otherwise.
const COPIES_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Attempts at an upload whose connection breaks. Each goes on where the one before stopped.
const ATTEMPTS: u32 = 3;

/// An image to be pushed.
#[derive(Debug, Clone)]
pub(crate) struct Push {
    /// The name that it gets.
    pub(crate) name: ImageTag,
    pub(crate) source: Source,
    /// On how many nodes it is kept; 0 for the default.
    pub(crate) copies: u32,
    /// How long it is kept while nothing runs it; 0 for the default.
    pub(crate) keep_unused_ms: u64,
}

/// Where an image comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// The container engine of this machine has it under this name.
    Engine(String),
    /// An archive.
    File(PathBuf),
}

/// An image that was pushed.
#[derive(Debug)]
pub(crate) struct Pushed {
    pub(crate) name: String,
    pub(crate) image: v1::PushedImageInfo,
    /// What was sent.
    pub(crate) sent_layers: usize,
    pub(crate) sent_bytes: u64,
}

/// Pushes an image.
pub(crate) async fn push(session: &mut Session, push: &Push) -> Result<Pushed, CliError> {
    let client = session.client()?;
    if let Some(image) = known(&client, push).await? {
        let name = tag(&client, push, &id_of(&image)).await?;
        return Ok(Pushed { name, image, sent_layers: 0, sent_bytes: 0 });
    }
    let file = open(session, push).await?;
    let (file, image) = read(file, push.name.clone()).await?;
    let sent = send(session, &client, file, &image).await?;
    let recorded = record(&client, push, &image, &sent.to).await?;
    let held = wait_for_copies(session, &client, image.config.digest, recorded.raft_index).await?;
    let name = tag(&client, push, &image.config.digest.0).await?;
    Ok(Pushed { name, image: held, sent_layers: sent.layers, sent_bytes: sent.bytes })
}

/// The image of the engine, if the cluster has it already as it is to be: then it need not be read.
async fn known(client: &Client, push: &Push) -> Result<Option<v1::PushedImageInfo>, CliError> {
    let Source::Engine(name) = &push.source else { return Ok(None) };
    let name = name.clone();
    let id = on_thread(move || inspect(&name)).await??;
    // Engines with another store name images by their manifests, which no node knows.
    let Some(id) = BlobDigest::parse(&id) else { return Ok(None) };
    let image = listed(client, id, 0).await?;
    let is_whole = |image: &v1::PushedImageInfo| {
        image.nodes.len() >= image.copies_possible as usize
            && (push.copies == 0 || push.copies == image.copies)
            && push.keep_unused_ms == 0
    };
    Ok(image.filter(is_whole))
}

/// The image as of a state that is not older than this index.
async fn listed(
    client: &Client,
    id: BlobDigest,
    min_index: u64,
) -> Result<Option<v1::PushedImageInfo>, CliError> {
    let request = v1::ListImagesRequest { id: id.0.to_vec().into(), min_index };
    Ok(client.list_images(request).await?.images.into_iter().next())
}

fn id_of(image: &v1::PushedImageInfo) -> [u8; 32] {
    BlobDigest::parse(&image.id).map(|id| id.0).unwrap_or_default()
}

/// The archive as a file that can be read at any place.
async fn open(session: &mut Session, push: &Push) -> Result<File, CliError> {
    let name = match &push.source {
        Source::File(path) => {
            return File::open(path).map_err(|error| {
                CliError::local(format!("cannot read {}", path.display()), error)
            });
        }
        Source::Engine(name) => name.clone(),
    };
    session.ui.note(&format!("reading {name} from the container engine"));
    let saved = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&saved);
    let saving = on_thread(move || {
        let mut file = tempfile::tempfile().map_err(|error| {
            CliError::local("cannot make a temporary file for the image", error)
        })?;
        save(&name, &mut file, &mut |bytes| shared.store(bytes, Ordering::Relaxed))?;
        Ok(file)
    });
    let mut saving = std::pin::pin!(saving);
    let done = loop {
        tokio::select! {
            done = &mut saving => break done,
            () = tokio::time::sleep(LOOK) => {
                draw(session, &[format!("{} read", size(saved.load(Ordering::Relaxed)))]);
            }
        }
    };
    draw(session, &[]);
    done?
}

async fn read(file: File, name: ImageTag) -> Result<(File, Image), CliError> {
    let read = move || -> Result<(File, Image), ImageError> {
        let mut file = file;
        file.seek(SeekFrom::Start(0))?;
        let scanned = scan(BufReader::with_capacity(PIECE_BYTES, &file))?;
        let image = parse(&scanned, &mut file, &name)?;
        Ok((file, image))
    };
    let refused = |error: ImageError| CliError::Refused {
        code: ErrorCode::InvalidRequest,
        message: error.to_string(),
        help: Some("an archive is made with `docker save IMAGE -o image.tar`".to_owned()),
    };
    on_thread(read).await?.map_err(refused)
}

#[derive(Debug, Default)]
struct Sent {
    /// The node that took it.
    to: String,
    layers: usize,
    bytes: u64,
}

/// Sends what is missing. A connection that breaks is opened again.
async fn send(
    session: &mut Session,
    client: &Client,
    file: File,
    image: &Image,
) -> Result<Sent, CliError> {
    let mut all = Sent::default();
    for attempt in 1.. {
        let own = file.try_clone();
        let own = own.map_err(|error| CliError::local("cannot read the image", error))?;
        match upload(session, client, own, image, &mut all).await {
            Ok(()) => break,
            Err(CliError::Client(error))
                if error.code() == ErrorCode::Unavailable && attempt < ATTEMPTS =>
            {
                session.ui.note(&format!("the connection broke, the push goes on: {error}"));
                tokio::time::sleep(LOOK * 4).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

async fn upload(
    session: &mut Session,
    client: &Client,
    file: File,
    image: &Image,
    all: &mut Sent,
) -> Result<(), CliError> {
    let blobs: Vec<Blob> = std::iter::once(&image.config).chain(&image.layers).copied().collect();
    let start = v1::UploadStart { blobs: blobs.iter().map(info).collect() };
    let (mut upload, missing) = client.upload(start).await?;
    let Some(inputs) = upload.take_inputs() else { return Ok(()) };
    all.to.clone_from(&missing.node);
    let mut wanted = Vec::new();
    for one in &missing.blobs {
        let digest = one.blob.as_ref().and_then(|blob| <[u8; 32]>::try_from(&*blob.digest).ok());
        let blob = digest.and_then(|digest| blobs.iter().find(|blob| blob.digest.0 == digest));
        wanted.extend(blob.map(|blob| (*blob, one.offset.min(blob.bytes))));
    }
    let total: u64 = wanted.iter().map(|(blob, offset)| blob.bytes - offset).sum();
    let layers = wanted.iter().filter(|(blob, _)| blob.digest != image.config.digest).count();
    session.ui.note(&format!(
        "sending {} of {} ({}) to {}",
        layers,
        count(image.layers.len(), "layer"),
        size(total),
        missing.node
    ));
    let sent = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&sent);
    let sending = on_thread(move || send_all(&inputs, file, &wanted, &shared));
    let mut sending = std::pin::pin!(sending);
    let mut read = None;
    let stored = loop {
        tokio::select! {
            next = upload.next() => match next {
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            },
            done = &mut sending, if read.is_none() => read = Some(done?),
            () = tokio::time::sleep(LOOK) => {
                let done = sent.load(Ordering::Relaxed);
                draw(session, &[format!("{} of {} sent", size(done), size(total))]);
            }
        }
    };
    draw(session, &[]);
    all.bytes += sent.load(Ordering::Relaxed);
    stored?;
    if let Some(Err(error)) = read {
        return Err(CliError::local("the image could not be read", error));
    }
    all.layers += layers;
    Ok(())
}

fn info(blob: &Blob) -> v1::BlobInfo {
    v1::BlobInfo { digest: blob.digest.0.to_vec().into(), bytes: blob.bytes }
}

/// Sends each blob from its offset on. Stops without a word where the node takes no more: it says why.
fn send_all(
    inputs: &UploadInputs,
    mut file: File,
    blobs: &[(Blob, u64)],
    sent: &AtomicU64,
) -> io::Result<()> {
    for (blob, offset) in blobs {
        if inputs.blob_blocking(blob.digest.0, *offset) == Taken::No {
            return Ok(());
        }
        file.seek(SeekFrom::Start(blob.offset + offset))?;
        let mut left = blob.bytes - offset;
        while left > 0 {
            let mut piece = Vec::new();
            let length = left.min(PIECE_BYTES as u64);
            (&mut file).take(length).read_to_end(&mut piece)?;
            if piece.is_empty() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive was cut"));
            }
            let length = piece.len() as u64;
            if inputs.data_blocking(piece) == Taken::No {
                return Ok(());
            }
            left -= length;
            sent.fetch_add(length, Ordering::Relaxed);
        }
    }
    Ok(())
}

async fn record(
    client: &Client,
    push: &Push,
    image: &Image,
    taken_by: &str,
) -> Result<v1::RecordImageResponse, CliError> {
    let request = v1::RecordImageRequest {
        config: Some(info(&image.config)),
        layers: image.layers.iter().map(info).collect(),
        copies: push.copies,
        keep_unused_ms: push.keep_unused_ms,
        request_id: fresh_request_id(),
        taken_by: taken_by.to_owned(),
    };
    Ok(client.record_image(request).await?)
}

/// Waits until as many nodes hold the image, which was recorded at this index, as are to.
async fn wait_for_copies(
    session: &mut Session,
    client: &Client,
    id: BlobDigest,
    recorded: u64,
) -> Result<v1::PushedImageInfo, CliError> {
    let until = session.deadline().unwrap_or_else(|| Instant::now() + COPIES_LIMIT);
    let mut told = Vec::new();
    loop {
        let Some(image) = listed(client, id, recorded).await? else {
            return Err(CliError::Refused {
                code: ErrorCode::ImageNotFound,
                message: format!("image {id} was removed while it was pushed"),
                help: Some("push it again".to_owned()),
            });
        };
        if image.awaited.is_empty() && image.nodes.len() >= image.copies_possible as usize {
            draw(session, &[]);
            return Ok(image);
        }
        if told != image.awaited {
            told.clone_from(&image.awaited);
            session.ui.note(&format!("waiting for a copy on {}", told.join(", ")));
        }
        let row = |node: &String, what: &str| format!("{node}: {what}");
        let held = image.nodes.iter().map(|node| row(node, "has it"));
        let lines: Vec<String> =
            held.chain(image.awaited.iter().map(|node| row(node, "copies"))).collect();
        draw(session, &lines);
        if Instant::now() >= until {
            draw(session, &[]);
            let message = format!(
                "{} of {} nodes hold the image so far: {} has not copied it",
                image.nodes.len(),
                image.copies_possible,
                image.awaited.join(", ")
            );
            return Err(CliError::Refused {
                code: ErrorCode::ImageNotHeld,
                message,
                help: Some("look at the log of that node, and run the push again".to_owned()),
            });
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn tag(client: &Client, push: &Push, id: &[u8; 32]) -> Result<String, CliError> {
    let request = v1::TagImageRequest {
        name: push.name.to_string(),
        id: id.to_vec().into(),
        request_id: fresh_request_id(),
    };
    Ok(client.tag_image(request).await?.name)
}

/// Progress on a terminal.
fn draw(session: &mut Session, lines: &[String]) {
    if session.ui.is_terminal(Stream::Err) {
        // The push goes on even if its progress cannot be printed.
        session.ui.draw(Stream::Err, lines).ok();
    }
}

/// Runs `task` on a thread of its own: the connection must not wait for a disk or another program.
pub(crate) async fn on_thread<T: Send + 'static>(
    task: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CliError> {
    let (sender, receiver) = oneshot::channel();
    // Nobody waits any more if the command was interrupted.
    thread::spawn(move || sender.send(task()).is_ok());
    receiver.await.map_err(|error| CliError::local("the push has ended", error))
}
