//! Files and ports of fake containers, to test that archives and connections arrive.
//!
//! The file system of a container is what was unpacked in it, beside the folders `/`, `/srv` and `/tmp`: each archive as a
//! whole, at the name of its root. `/endless` is a file without an end, `/link` a link to `/srv`.
//!
//! Of the ports, [`ECHO`] sends back what it gets, [`COUNT`] reads to the end and then says how much that was, [`FLOOD`]
//! sends without an end, [`GREET`] says what it has to say and closes; nothing listens at the others.

use std::collections::BTreeMap;
use std::sync::Mutex;

use futures::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::engine::transfer::{Archive, ArchiveInput, BoxConnection, PathKind, PathStat};
use crate::engine::{ContainerId, EngineError};

/// Sends back what it gets, until that ends.
pub const ECHO: u16 = 7;
/// Reads to the end, then sends the number of bytes.
pub const COUNT: u16 = 9;
/// Sends [`GREETING`] and closes.
pub const GREET: u16 = 13;
/// Sends without an end.
pub const FLOOD: u16 = 19;
/// What [`GREET`] sends.
pub const GREETING: &[u8] = b"good day\n";

/// Bytes that a connection holds on each way.
const PIPE_BYTES: usize = 64 << 10;
/// Bytes of a piece of what has no end.
const PIECE_BYTES: usize = 32 << 10;
/// Bytes of a block of a tar archive.
const BLOCK_BYTES: usize = 512;
/// Where the type of an entry is in its header.
const TYPE_AT: usize = 156;
/// Folders of every container.
const FOLDERS: [&str; 3] = ["/", "/srv", "/tmp"];

/// The files of all containers of a host: archives by the path of their root.
#[derive(Debug, Default)]
pub(super) struct Files(Mutex<BTreeMap<(ContainerId, String), Vec<u8>>>);

impl Files {
    pub(super) fn stat(&self, container: &ContainerId, path: &str) -> Option<PathStat> {
        let stat = |kind, path: &str, bytes| Some(PathStat { kind, path: path.to_owned(), bytes });
        let path = clean(path);
        match path.as_str() {
            "/link" => stat(PathKind::Folder, "/srv", 0),
            "/endless" => stat(PathKind::File, "/endless", u64::MAX),
            known if FOLDERS.contains(&known) => stat(PathKind::Folder, known, 0),
            path => {
                let files = self.0.lock().expect("no holder of the lock panics");
                let archive = files.get(&(container.clone(), path.to_owned()))?;
                match archive.get(TYPE_AT) {
                    Some(b'5') => stat(PathKind::Folder, path, 0),
                    Some(_) | None => stat(PathKind::File, path, archive.len() as u64),
                }
            }
        }
    }

    pub(super) fn read(&self, container: &ContainerId, path: &str) -> Result<Archive, EngineError> {
        let path = clean(path);
        if path == "/endless" {
            return Ok(stream::repeat_with(|| Ok(vec![0; PIECE_BYTES].into())).boxed());
        }
        let files = self.0.lock().expect("no holder of the lock panics");
        let archive = files.get(&(container.clone(), path.clone())).cloned();
        let archive = archive.ok_or_else(|| absent(&path))?;
        let pieces: Vec<_> =
            archive.chunks(PIECE_BYTES).map(|piece| Ok(piece.to_vec().into())).collect();
        Ok(stream::iter(pieces).boxed())
    }

    pub(super) async fn write(
        &self,
        container: &ContainerId,
        folder: &str,
        mut archive: ArchiveInput,
    ) -> Result<(), EngineError> {
        let folder = clean(folder);
        match self.stat(container, &folder).map(|stat| stat.kind) {
            Some(PathKind::Folder) => {}
            Some(_) | None => return Err(absent(&folder)),
        }
        let mut whole = Vec::new();
        while let Some(piece) = archive.next().await {
            let broken = |error: std::io::Error| EngineError::Refused { reason: error.to_string() };
            whole.extend(piece.map_err(broken)?);
        }
        let root = root(&whole).ok_or_else(|| EngineError::Refused {
            reason: "unexpected end of the archive".to_owned(),
        })?;
        let path = clean(&format!("{folder}/{root}"));
        let mut files = self.0.lock().expect("no holder of the lock panics");
        files.insert((container.clone(), path), whole);
        Ok(())
    }
}

/// The first name of the first entry.
fn root(archive: &[u8]) -> Option<String> {
    let header = archive.get(..BLOCK_BYTES)?;
    let name = header.split(|byte| [b'/', 0].contains(byte)).next()?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

fn clean(path: &str) -> String {
    let names = path.split('/').filter(|name| !["", "."].contains(name));
    format!("/{}", names.collect::<Vec<_>>().join("/"))
}

fn absent(path: &str) -> EngineError {
    EngineError::Refused { reason: format!("could not find the file {path} in the container") }
}

/// Connects to one of the ports.
pub(super) fn connect(port: u16) -> Result<BoxConnection, EngineError> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    match port {
        ECHO => tokio::spawn(async move { echo(theirs).await.ok() }),
        COUNT => tokio::spawn(async move { count(theirs).await.ok() }),
        GREET => tokio::spawn(async move { greet(theirs).await.ok() }),
        FLOOD => tokio::spawn(async move { flood(theirs).await.ok() }),
        _ => {
            let reason = format!("nothing listens at port {port} of the container");
            return Err(EngineError::Refused { reason });
        }
    };
    Ok(Box::new(ours))
}

async fn echo(mut stream: DuplexStream) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = stream.read(&mut piece).await?;
        if length == 0 {
            return stream.shutdown().await;
        }
        stream.write_all(&piece[..length]).await?;
    }
}

async fn count(mut stream: DuplexStream) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    loop {
        let length = stream.read(&mut piece).await?;
        if length == 0 {
            stream.write_all(bytes.to_string().as_bytes()).await?;
            return stream.shutdown().await;
        }
        bytes += length;
    }
}

async fn greet(mut stream: DuplexStream) -> std::io::Result<()> {
    stream.write_all(GREETING).await?;
    stream.shutdown().await
}

async fn flood(mut stream: DuplexStream) -> std::io::Result<()> {
    let piece = vec![b'.'; PIECE_BYTES];
    loop {
        stream.write_all(&piece).await?;
    }
}
