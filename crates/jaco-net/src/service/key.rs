//! The private keys of a router: the one in use, and while it is replaced the next one. They are made here, readable by
//! their owner alone, and never sent anywhere.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jaco_dataplane::PublicKey;
use rustix::rand::{GetRandomFlags, getrandom};

use super::file_error;
use crate::error::NetError;
use crate::tunnel::PrivateKey;

/// The keys on disk.
#[derive(Debug)]
pub(super) struct Keys {
    path: PathBuf,
    next_path: PathBuf,
    pub(super) current: PrivateKey,
    pub(super) next: Option<PrivateKey>,
}

impl Keys {
    /// Reads the keys, and makes one where there is none.
    pub(super) fn load_or_make(path: &Path) -> Result<Self, NetError> {
        let next_path = path.with_extension("next");
        let current = match read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
            other => other,
        };
        let current = current.map_err(|source| file_error(path, source))?;
        let next = match read(&next_path) {
            Ok(next) => Some(PrivateKey::from_bytes(next)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(file_error(&next_path, source)),
        };
        let current = PrivateKey::from_bytes(current);
        Ok(Self { path: path.to_owned(), next_path, current, next })
    }

    /// The next key, which is made unless there is one: who asks again gets the same.
    pub(super) fn make_next(&mut self) -> Result<PrivateKey, NetError> {
        if let Some(next) = &self.next {
            return Ok(next.clone());
        }
        let next = make(&self.next_path).map_err(|source| file_error(&self.next_path, source))?;
        let next = PrivateKey::from_bytes(next);
        self.next = Some(next.clone());
        Ok(next)
    }

    /// Replaces the key by the next one, if that is the one that the tunnel has now. Whether it did.
    ///
    /// Until then both are kept: whichever of the two the plan names, a process that is killed leaves the next one what
    /// it needs.
    pub(super) fn settle(&mut self, in_use: PublicKey) -> Result<bool, NetError> {
        if self.next.as_ref().is_none_or(|next| next.public_key() != in_use) {
            return Ok(false);
        }
        let moved = fs::rename(&self.next_path, &self.path);
        moved.map_err(|source| file_error(&self.path, source))?;
        if let Some(next) = self.next.take() {
            self.current = next;
        }
        Ok(true)
    }
}

fn read(path: &Path) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    OpenOptions::new().read(true).open(path)?.read_exact(&mut key)?;
    Ok(key)
}

/// Writes the key beside its place first: half a key is never read.
fn make(path: &Path) -> io::Result<[u8; 32]> {
    let mut key = [0; 32];
    let mut filled = 0;
    while filled < key.len() {
        filled += getrandom(&mut key[filled..], GetRandomFlags::empty())?;
    }
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&new)?.write_all(&key)?;
    fs::rename(&new, path)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder of this test, and the place of a key in it.
    fn place(test: &str) -> (PathBuf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("jaco-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("key");
        (folder, path)
    }

    fn load(path: &Path) -> (PublicKey, Option<PublicKey>) {
        let keys = Keys::load_or_make(path).unwrap();
        (keys.current.public_key(), keys.next.map(|next| next.public_key()))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_key_is_made_once_and_is_its_owners() {
        let (folder, path) = place("key");
        let first = load(&path);
        assert_eq!(load(&path), first);
        assert_eq!((first.1, mode(&path)), (None, 0o600));
        fs::write(&path, "half").unwrap();
        assert!(Keys::load_or_make(&path).is_err(), "what is not a key is not replaced in silence");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The next key is made once, is its owner's, and replaces the one before only once it is in use.
    #[test]
    fn the_next_key_waits_until_it_is_in_use() {
        let (folder, path) = place("next-key");
        let mut keys = Keys::load_or_make(&path).unwrap();
        let before = keys.current.public_key();
        let next = keys.make_next().unwrap().public_key();
        assert_ne!(next, before);
        assert_eq!((keys.make_next().unwrap().public_key(), mode(&keys.next_path)), (next, 0o600));
        assert!(!keys.settle(before).unwrap());
        assert_eq!(load(&path), (before, Some(next)), "both are there for the next process");
        assert!(keys.settle(next).unwrap());
        assert_eq!((load(&path), mode(&path)), ((next, None), 0o600));
        assert!(!keys.settle(next).unwrap());
        fs::remove_dir_all(&folder).unwrap();
    }
}
