//! The blobs of pushed images on this node's disk: written once, checked when complete, bounded in total.
//!
//! ```text
//! blobs/HEX      complete: its SHA-256 is its name
//! partial/HEX    the beginning of one; a transfer that broke goes on where it stopped
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use jaco_state::images::ImageBlob;
use jaco_types::BlobDigest;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

/// How long a blob that no image refers to stays: what was sent before a push broke is not sent again.
const UNREFERENCED_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// How old it has to be to make room for others.
const UNREFERENCED_IN_THE_WAY: Duration = Duration::from_secs(10 * 60);

/// One part of this many of the disk stays free.
const FREE_PART: u64 = 20;

/// Bytes of a piece that is read to be hashed.
const PIECE_BYTES: usize = 1 << 20;

/// What a store may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// The most bytes of all blobs.
    pub bytes_max: u64,
}

/// The store of one node. Clones are the same store.
#[derive(Debug, Clone)]
pub struct BlobStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    limits: StoreLimits,
    state: Mutex<State>,
    /// A claim was given up.
    released: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Blobs that are being written, with what they will still take.
    claimed: BTreeMap<BlobDigest, u64>,
    /// Blobs that must not be removed at present, by how many need them.
    pinned: BTreeMap<BlobDigest, u32>,
    /// Blobs of images that this node keeps, as of the last sweep.
    kept: BTreeSet<BlobDigest>,
}

/// Why a blob cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store is full.
    #[error(
        "the image store takes {used} of at most {max} bytes, and the layer has {wanted}: remove images with \
         `jaco image rm`, or raise images.max_mebibytes"
    )]
    Full {
        /// Bytes in it.
        used: u64,
        /// The most.
        max: u64,
        /// Bytes that are to be added.
        wanted: u64,
    },
    /// The disk is.
    #[error(
        "the disk of the image store has {free} bytes free besides what is to stay free, and the layer has {wanted}"
    )]
    DiskFull {
        /// Bytes that may be taken.
        free: u64,
        /// Bytes that are to be added.
        wanted: u64,
    },
    /// The sender goes on at another place than this node's part ends.
    #[error("the layer goes on at byte {have}, not {offset}")]
    Gap {
        /// Bytes that are there.
        have: u64,
        /// Where the sender wants to go on.
        offset: u64,
    },
    /// More bytes than announced.
    #[error("the layer is longer than the {bytes} bytes that were announced")]
    TooLong {
        /// As announced.
        bytes: u64,
    },
    /// Fewer bytes than announced.
    #[error("the layer ends after {have} of {bytes} bytes")]
    TooShort {
        /// Bytes that came.
        have: u64,
        /// As announced.
        bytes: u64,
    },
    /// Other bytes than announced.
    #[error("the content of the layer is not {announced}")]
    WrongDigest {
        /// As announced.
        announced: BlobDigest,
    },
    /// The disk does not do it.
    #[error("the image store cannot be written: {0}")]
    Disk(#[from] io::Error),
}

impl BlobStore {
    /// Opens the store in this folder, which is made if it is missing.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(folder: PathBuf, limits: StoreLimits) -> io::Result<Self> {
        let mut maker = fs::DirBuilder::new();
        maker.recursive(true).mode(0o700);
        for part in ["blobs", "partial"] {
            maker.create(folder.join(part))?;
        }
        let (state, released) = (Mutex::default(), Notify::new());
        Ok(Self { shared: Arc::new(Shared { folder, limits, state, released }) })
    }

    /// Whether a blob is there, complete.
    #[must_use]
    pub fn has(&self, blob: ImageBlob) -> bool {
        fs::metadata(self.shared.complete(blob.digest)).is_ok_and(|seen| seen.len() == blob.bytes)
    }

    /// How many bytes of a blob are there.
    #[must_use]
    pub fn begun(&self, blob: ImageBlob) -> u64 {
        match self.has(blob) {
            true => blob.bytes,
            false => length(&self.shared.partial(blob.digest)).min(blob.bytes),
        }
    }

    /// Opens a complete blob.
    ///
    /// # Errors
    /// If it is not there.
    pub fn read(&self, digest: BlobDigest) -> io::Result<File> {
        File::open(self.shared.complete(digest))
    }

    /// The only one who may write a blob, once nobody else does.
    pub async fn claim(&self, digest: BlobDigest) -> Claim {
        loop {
            let released = self.shared.released.notified();
            if self.shared.state().claimed.insert_new(digest) {
                return Claim { shared: Arc::clone(&self.shared), digest };
            }
            released.await;
        }
    }

    /// Keeps blobs from being removed for as long as the result lives.
    #[must_use]
    pub fn pin(&self, blobs: impl IntoIterator<Item = ImageBlob>) -> Pins {
        let digests: BTreeSet<BlobDigest> = blobs.into_iter().map(|blob| blob.digest).collect();
        let mut state = self.shared.state();
        for digest in &digests {
            *state.pinned.entry(*digest).or_default() += 1;
        }
        drop(state);
        Pins { shared: Arc::clone(&self.shared), digests }
    }

    /// Removes what is not among `kept` and has no use: blobs of dropped images, and of those that others keep (`elsewhere`), at
    /// once; those that no image ever referred to after a day. Returns how many bytes that were.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn sweep(
        &self,
        kept: BTreeSet<BlobDigest>,
        elsewhere: &BTreeSet<BlobDigest>,
    ) -> io::Result<u64> {
        let before = std::mem::replace(&mut self.shared.state().kept, kept);
        self.shared.remove(|digest, age| {
            before.contains(&digest) || elsewhere.contains(&digest) || age >= UNREFERENCED_LIFE
        })
    }

    /// Bytes on the disk.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.shared.used()
    }
}

/// A map in which a key is taken once.
trait InsertNew<K> {
    fn insert_new(&mut self, key: K) -> bool;
}

impl InsertNew<BlobDigest> for BTreeMap<BlobDigest, u64> {
    fn insert_new(&mut self, key: BlobDigest) -> bool {
        if self.contains_key(&key) {
            return false;
        }
        self.insert(key, 0);
        true
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the lock panics")
    }

    fn complete(&self, digest: BlobDigest) -> PathBuf {
        self.folder.join("blobs").join(digest.hex())
    }

    fn partial(&self, digest: BlobDigest) -> PathBuf {
        self.folder.join("partial").join(digest.hex())
    }

    /// The files of the store, by digest. Others are none of its business.
    fn files(&self) -> io::Result<Vec<(BlobDigest, fs::DirEntry)>> {
        let mut files = Vec::new();
        for part in ["blobs", "partial"] {
            for entry in fs::read_dir(self.folder.join(part))? {
                let entry = entry?;
                let digest = entry.file_name().to_str().and_then(BlobDigest::from_hex);
                files.extend(digest.map(|digest| (digest, entry)));
            }
        }
        Ok(files)
    }

    fn used(&self) -> u64 {
        let files = self.files().unwrap_or_default();
        let sizes = files.iter().filter_map(|(_, entry)| entry.metadata().ok());
        sizes.fold(0, |sum: u64, seen| sum.saturating_add(seen.len()))
    }

    fn remove(&self, is_over: impl Fn(BlobDigest, Duration) -> bool) -> io::Result<u64> {
        let mut freed = 0;
        for (digest, entry) in self.files()? {
            let Ok(seen) = entry.metadata() else { continue };
            let age = seen.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
            // Looked at for each file: what is claimed or pinned meanwhile stays.
            let state = self.state();
            let is_used = state.kept.contains(&digest)
                || state.pinned.contains_key(&digest)
                || state.claimed.contains_key(&digest);
            if !is_used && is_over(digest, age.unwrap_or_default()) {
                fs::remove_file(entry.path())?;
                freed += seen.len();
            }
            drop(state);
        }
        Ok(freed)
    }

    /// Takes the room that a blob will need.
    fn reserve(&self, digest: BlobDigest, wanted: u64) -> Result<(), StoreError> {
        match self.room(wanted) {
            Ok(()) => {}
            Err(_) => {
                self.remove(|_, age| age >= UNREFERENCED_IN_THE_WAY)?;
                self.room(wanted)?;
            }
        }
        self.state().claimed.insert(digest, wanted);
        Ok(())
    }

    fn room(&self, wanted: u64) -> Result<(), StoreError> {
        let reserved =
            self.state().claimed.values().fold(0, |sum: u64, one| sum.saturating_add(*one));
        let used = self.used().saturating_add(reserved);
        let max = self.limits.bytes_max;
        if used.saturating_add(wanted) > max {
            return Err(StoreError::Full { used, max, wanted });
        }
        let disk = rustix::fs::statvfs(&self.folder).map_err(io::Error::from)?;
        let stays = disk.f_blocks / FREE_PART * disk.f_frsize;
        let free = (disk.f_bavail * disk.f_frsize).saturating_sub(stays).saturating_sub(reserved);
        if wanted > free {
            return Err(StoreError::DiskFull { free, wanted });
        }
        Ok(())
    }
}

/// Blobs that are not removed.
#[derive(Debug)]
pub struct Pins {
    shared: Arc<Shared>,
    digests: BTreeSet<BlobDigest>,
}

impl Drop for Pins {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        for digest in &self.digests {
            let left = state.pinned.get(digest).copied().unwrap_or_default().saturating_sub(1);
            if left == 0 {
                state.pinned.remove(digest);
            } else {
                state.pinned.insert(*digest, left);
            }
        }
    }
}

/// The right to write a blob. Ends when it is dropped.
#[derive(Debug)]
pub struct Claim {
    shared: Arc<Shared>,
    digest: BlobDigest,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shared.state().claimed.remove(&self.digest);
        self.shared.released.notify_waiters();
    }
}

impl Claim {
    /// Begins to write a blob of so many bytes at `offset`, up to which it must be there. Reads what is there, so it blocks.
    ///
    /// # Errors
    /// If there is no room, or less is there than the sender believes.
    pub fn write(self, bytes: u64, offset: u64) -> Result<BlobWriter, StoreError> {
        let path = self.shared.partial(self.digest);
        let have = length(&path);
        if offset > have || offset > bytes {
            return Err(StoreError::Gap { have, offset });
        }
        self.shared.reserve(self.digest, bytes - offset)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path)?;
        file.set_len(offset)?;
        file.seek(SeekFrom::Start(0))?;
        let mut hasher = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(offset).unwrap_or(PIECE_BYTES))];
        let mut hashed = 0;
        while hashed < offset {
            let length = file.read(&mut piece)?;
            if length == 0 {
                return Err(StoreError::Gap { have: hashed, offset });
            }
            hasher.update(&piece[..length]);
            hashed += length as u64;
        }
        Ok(BlobWriter { claim: self, file, hasher, path, have: offset, bytes })
    }
}

/// A blob that is being written. What was written stays when it is dropped.
#[derive(Debug)]
pub struct BlobWriter {
    claim: Claim,
    file: File,
    hasher: Sha256,
    path: PathBuf,
    have: u64,
    bytes: u64,
}

impl BlobWriter {
    /// Appends a piece.
    ///
    /// # Errors
    /// If it is more than was announced, or the disk does not take it.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), StoreError> {
        let have = self.have + piece.len() as u64;
        if have > self.bytes {
            return Err(StoreError::TooLong { bytes: self.bytes });
        }
        self.file.write_all(piece)?;
        self.hasher.update(piece);
        self.have = have;
        let left = self.bytes - have;
        self.claim.shared.state().claimed.insert(self.claim.digest, left);
        Ok(())
    }

    /// Completes the blob: it is checked and on the disk once this returns.
    ///
    /// # Errors
    /// If it is not what was announced: then nothing of it stays, unless only the end is missing.
    pub fn finish(self) -> Result<(), StoreError> {
        let Self { claim, file, hasher, path, have, bytes } = self;
        if have < bytes {
            return Err(StoreError::TooShort { have, bytes });
        }
        if hasher.finalize()[..] != claim.digest.0 {
            fs::remove_file(&path)?;
            return Err(StoreError::WrongDigest { announced: claim.digest });
        }
        file.sync_all()?;
        let complete = claim.shared.complete(claim.digest);
        fs::rename(&path, &complete)?;
        for folder in ["blobs", "partial"] {
            File::open(claim.shared.folder.join(folder))?.sync_all()?;
        }
        Ok(())
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |seen| seen.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(content: &[u8]) -> ImageBlob {
        let digest = BlobDigest(Sha256::digest(content).into());
        ImageBlob { digest, bytes: content.len() as u64 }
    }

    fn open(folder: &Path, bytes_max: u64) -> BlobStore {
        BlobStore::open(folder.to_path_buf(), StoreLimits { bytes_max }).unwrap()
    }

    async fn put(store: &BlobStore, content: &[u8], offset: usize) -> Result<(), StoreError> {
        let blob = blob(content);
        let mut writer = store.claim(blob.digest).await.write(blob.bytes, offset as u64)?;
        writer.append(&content[offset..])?;
        writer.finish()
    }

    /// R-OPS-1: a transfer that broke goes on where it stopped, over a restart; what is complete is what was announced.
    #[tokio::test]
    async fn a_broken_transfer_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let content = vec![7; 5000];
        let whole = blob(&content);
        let store = open(folder.path(), 1 << 20);
        let mut writer = store.claim(whole.digest).await.write(5000, 0).unwrap();
        writer.append(&content[..3000]).unwrap();
        drop(writer);
        drop(store);
        let store = open(folder.path(), 1 << 20);
        assert!(!store.has(whole));
        assert_eq!(store.begun(whole), 3000);
        let gap = store.claim(whole.digest).await.write(5000, 3001).unwrap_err();
        assert!(matches!(gap, StoreError::Gap { have: 3000, offset: 3001 }), "{gap}");
        put(&store, &content, 2000).await.unwrap();
        assert!(store.has(whole));
        assert_eq!(store.begun(whole), 5000);
        let mut read = Vec::new();
        store.read(whole.digest).unwrap().read_to_end(&mut read).unwrap();
        assert_eq!(read, content);
        assert_eq!(store.used(), 5000);
    }

    /// R-OPS-1, R-IN-3: what is not what was announced is refused, and nothing of it stays.
    #[tokio::test]
    async fn what_was_not_announced_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), 1 << 20);
        let digest = blob(b"right").digest;
        let mut writer = store.claim(digest).await.write(5, 0).unwrap();
        assert!(matches!(writer.append(b"longer"), Err(StoreError::TooLong { bytes: 5 })));
        writer.append(b"wron").unwrap();
        writer.append(b"g").unwrap();
        assert!(matches!(writer.finish(), Err(StoreError::WrongDigest { .. })));
        assert_eq!(store.used(), 0);
        let mut writer = store.claim(digest).await.write(5, 0).unwrap();
        writer.append(b"rig").unwrap();
        assert!(matches!(writer.finish(), Err(StoreError::TooShort { have: 3, bytes: 5 })));
        put(&store, b"right", 3).await.unwrap();
    }

    /// R-OPS-1: the store is bounded, counting what others have been promised; room is made by what is removed.
    #[tokio::test]
    async fn the_store_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), 10_000);
        let (first, second) = (vec![1; 6000], vec![2; 6000]);
        let promised = store.claim(blob(&first).digest).await.write(6000, 0).unwrap();
        let full = put(&store, &second, 0).await.unwrap_err();
        assert!(
            matches!(full, StoreError::Full { used: 6000, max: 10_000, wanted: 6000 }),
            "{full}"
        );
        drop(promised);
        put(&store, &first, 0).await.unwrap();
        let kept: BTreeSet<_> = [blob(&first).digest].into();
        let none = BTreeSet::new();
        assert_eq!(store.sweep(kept, &none).unwrap(), 0);
        put(&store, &second, 0).await.unwrap_err();
        let pins = store.pin([blob(&first)]);
        assert_eq!(store.sweep(BTreeSet::new(), &none).unwrap(), 0, "it is in use");
        assert_eq!(store.sweep([blob(&first).digest].into(), &none).unwrap(), 0);
        drop(pins);
        assert_eq!(store.sweep(BTreeSet::new(), &none).unwrap(), 6000, "its image is gone");
        put(&store, &second, 0).await.unwrap();
        assert_eq!(store.sweep(BTreeSet::new(), &none).unwrap(), 0, "its push may still go on");
        let elsewhere = [blob(&second).digest].into();
        assert_eq!(store.sweep(BTreeSet::new(), &elsewhere).unwrap(), 6000, "others keep it");
    }

    /// R-OPS-1: two who send the same wait for each other.
    #[tokio::test]
    async fn a_blob_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), 1 << 20);
        let digest = blob(b"one").digest;
        let first = store.claim(digest).await;
        let second = {
            let store = store.clone();
            tokio::spawn(async move { drop(store.claim(digest).await) })
        };
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap();
    }
}
