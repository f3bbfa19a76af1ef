//! The private key of a router. It is made here, readable by its owner alone, and never sent anywhere.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};

use super::file_error;
use crate::error::NetError;
use crate::tunnel::PrivateKey;

/// Reads the key, or makes one where there is none.
pub(super) fn load_or_make(path: &Path) -> Result<PrivateKey, NetError> {
    let key = match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
        other => other,
    };
    key.map(PrivateKey::from_bytes).map_err(|source| file_error(path, source))
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
    std::fs::rename(&new, path)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_its_owners() {
        let folder = std::env::temp_dir().join(format!("jaco-key-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("key");
        let first = load_or_make(&path).unwrap().public_key();
        assert_eq!(load_or_make(&path).unwrap().public_key(), first);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "half").unwrap();
        assert!(load_or_make(&path).is_err(), "what is not a key is not replaced in silence");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
