//! The keys of a node during a rotation, and what a crash leaves of them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jaco_pki::files::FilesError;
use jaco_pki::sealed::{OpenError, Purpose, seal, seal_named};
use jaco_pki::{IdentityDir, KekRing, KeyEncryptionKey};

use crate::support::{OURS, cluster};

fn key(number: u8) -> KeyEncryptionKey {
    KeyEncryptionKey::from_bytes([number; 32])
}

/// A node with the key 1.
fn node(folder: &Path) -> KekRing {
    let dir = IdentityDir::open(folder).unwrap();
    dir.store_kek(&key(1)).unwrap();
    KekRing::load(dir).unwrap().unwrap()
}

fn restarted(folder: &Path) -> KekRing {
    KekRing::load(IdentityDir::open(folder).unwrap()).unwrap().unwrap()
}

fn ids(keys: &[u8]) -> BTreeSet<jaco_types::KekId> {
    keys.iter().map(|number| key(*number).id()).collect()
}

/// Names of all files, and whether the key is in one of them.
fn is_on_disk(folder: &Path, number: u8) -> bool {
    let text = key(number).to_hex();
    fs::read_dir(folder).unwrap().any(|entry| {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

/// R-IN-5: while there are two, each opens what it has sealed; then one takes the other's place, and nothing is left of it.
#[test]
fn a_key_takes_the_place_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let ring = node(&path);
    let other = ring.clone();
    let sealed = |number| seal(&key(number), &cluster(OURS), Purpose::CaKey, b"a key");
    let open = |ring: &KekRing, number| {
        ring.open(&cluster(OURS), Purpose::CaKey, &sealed(number)).map(|it| it.to_vec())
    };
    assert_eq!(open(&ring, 2), Err(OpenError::WrongKey));
    ring.store_next(&key(2)).unwrap();
    let mode = fs::metadata(path.join("kek.next")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for ring in [&ring, &other, &restarted(&path)] {
        assert_eq!(ring.ids(), ids(&[1, 2]));
        assert_eq!(
            (open(ring, 1).unwrap(), open(ring, 2).unwrap()),
            (b"a key".into(), b"a key".into())
        );
        let named = seal_named(&key(2), &cluster(OURS), &[3; 32], b"secret");
        assert_eq!(&**ring.open_named(&cluster(OURS), &[3; 32], &named).unwrap(), b"secret");
        assert!(ring.holds(&cluster(OURS), Purpose::CaKey, &sealed(2), b"a key"));
        assert!(!ring.holds(&cluster(OURS), Purpose::CaKey, &sealed(3), b"a key"));
    }
    assert!(is_on_disk(&path, 1) && is_on_disk(&path, 2));
    ring.keep(key(2).id()).unwrap();
    for ring in [&ring, &other, &restarted(&path)] {
        assert_eq!(ring.ids(), ids(&[2]));
        assert_eq!(open(ring, 1), Err(OpenError::WrongKey));
        assert_eq!(open(ring, 2).unwrap(), b"a key");
    }
    assert!(!is_on_disk(&path, 1) && is_on_disk(&path, 2));
    ring.keep(key(2).id()).unwrap();
    assert!(matches!(ring.keep(key(1).id()), Err(FilesError::Missing { .. })));
    assert_eq!(ring.ids(), ids(&[2]), "the last one is never given up");
}

/// R-IN-5: a key that was abandoned leaves nothing, and one that is stored again replaces the one before.
#[test]
fn an_abandoned_key_is_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let ring = node(&path);
    ring.store_next(&key(2)).unwrap();
    ring.store_next(&key(3)).unwrap();
    assert_eq!(ring.ids(), ids(&[1, 3]));
    assert!(!is_on_disk(&path, 2));
    ring.keep(key(1).id()).unwrap();
    assert_eq!((ring.ids(), restarted(&path).ids()), (ids(&[1]), ids(&[1])));
    assert!(!is_on_disk(&path, 3));
}

/// R-FAULT-3: what a crash leaves behind of a key that was being stored goes with the rotation.
#[test]
fn what_a_crash_left_of_a_key_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let ring = node(&path);
    for name in [".kek.next.tmp", ".kek.tmp"] {
        fs::write(path.join(name), &*key(9).to_hex()).unwrap();
    }
    ring.store_next(&key(2)).unwrap();
    assert!(is_on_disk(&path, 9));
    ring.keep(key(2).id()).unwrap();
    assert!(!is_on_disk(&path, 9));
    // The files were changed, and the answer was lost.
    ring.store_next(&key(3)).unwrap();
    fs::rename(path.join("kek.next"), path.join("kek")).unwrap();
    ring.keep(key(3).id()).unwrap();
    assert_eq!(ring.ids(), ids(&[3]));
}

/// R-IN-5: a key is reported from the disk: one that is damaged or gone there is not.
#[test]
fn what_is_on_the_disk_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node");
    let ring = node(&path);
    ring.store_next(&key(2)).unwrap();
    fs::remove_file(path.join("kek.next")).unwrap();
    ring.reload().unwrap();
    assert_eq!(ring.ids(), ids(&[1]));
    fs::write(path.join("kek.next"), "not a key").unwrap();
    assert!(ring.reload().is_err());
    assert!(KekRing::load(IdentityDir::open(&path).unwrap()).is_err());
    IdentityDir::open(&path).unwrap().delete().unwrap();
    assert!(!path.join("kek.next").exists(), "it goes with the identity");
    assert!(KekRing::load(IdentityDir::open(&path).unwrap()).unwrap().is_none());
}
