//! A node's identity on disk: what is refused, and what survives a crash at any point.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jaco_pki::ca::NODE_LIFE;
use jaco_pki::files::FilesError;
use jaco_pki::{
    CertificateAuthority, CertificateDer, IdentityDir, KeyEncryptionKey, NodeCsr, NodeKey,
};
use tempfile::TempDir;

use jaco_types::{NodeId, Timestamp};

use crate::support::{OURS, authority, days_ago, now, trust};

struct Disk {
    root: TempDir,
    dir: IdentityDir,
    ca: CertificateAuthority,
}

impl Disk {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let dir = IdentityDir::open(root.path().join("identity")).unwrap();
        Self { root, dir, ca: authority(OURS) }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join("identity").join(name)
    }

    fn certify(&self, key: &NodeKey) -> CertificateDer<'static> {
        let csr = NodeCsr::from_der(&key.request()).unwrap();
        self.ca.sign(&csr, NodeId(4), NODE_LIFE, now()).unwrap()
    }

    /// Joins or renews, and returns the certificate.
    fn renew(&self) -> CertificateDer<'static> {
        let der = self.certify(&self.dir.next_key().unwrap());
        self.dir.install(&der, &trust(&self.ca)).unwrap();
        der
    }

    fn loaded(&self) -> CertificateDer<'static> {
        self.dir.load(now()).unwrap().unwrap().certificate().der().clone()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn an_identity_is_stored_renewed_and_loaded() {
    let disk = Disk::new();
    assert!(disk.dir.load(now()).unwrap().is_none(), "a new node has no identity");
    let first = disk.renew();
    assert_eq!(disk.loaded(), first);
    let second = disk.renew();
    assert_ne!(first, second);
    assert_eq!(disk.loaded(), second);
    let names = fs::read_dir(disk.path("")).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ca.crt", "node.crt", "node.key"], "nothing is left lying about");
    assert_eq!(mode(&disk.path("")), 0o700);
    assert_eq!(mode(&disk.path("node.key")), 0o600);
}

/// A joiner that lost the answer asks again with the same key, and so gets the same identity.
#[test]
fn the_next_key_stays_the_same_until_it_is_installed() {
    let disk = Disk::new();
    let first = disk.dir.next_key().unwrap().fingerprint();
    let again = IdentityDir::open(disk.path("")).unwrap().next_key().unwrap().fingerprint();
    assert_eq!(first, again);
    assert_eq!(mode(&disk.path("node.key.next")), 0o600);
    disk.renew();
    assert_ne!(disk.dir.next_key().unwrap().fingerprint(), first);
}

#[test]
fn keys_that_others_could_read_are_refused() {
    let disk = Disk::new();
    disk.renew();
    disk.dir.store_kek(&KeyEncryptionKey::generate()).unwrap();
    assert_eq!(mode(&disk.path("kek")), 0o600);
    for wide in [0o640, 0o604, 0o660, 0o601] {
        set_mode(&disk.path("node.key"), wide);
        let error = disk.dir.load(now()).unwrap_err();
        assert!(matches!(error, FilesError::TooOpen { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&format!("mode {wide:04o}")) && text.contains("chmod 600"), "{text}");
    }
    set_mode(&disk.path("node.key"), 0o600);
    set_mode(&disk.path("kek"), 0o644);
    assert!(matches!(disk.dir.kek(), Err(FilesError::TooOpen { .. })));
    set_mode(&disk.path("ca.crt"), 0o666);
    assert!(matches!(disk.dir.trust(), Err(FilesError::TooOpen { .. })), "trust decides all");
    set_mode(&disk.path(""), 0o777);
    assert!(matches!(IdentityDir::open(disk.path("")), Err(FilesError::TooOpen { .. })));
}

#[test]
fn the_kek_round_trips() {
    let disk = Disk::new();
    assert!(disk.dir.kek().unwrap().is_none());
    let kek = KeyEncryptionKey::generate();
    disk.dir.store_kek(&kek).unwrap();
    assert_eq!(disk.dir.kek().unwrap().unwrap().id(), kek.id());
    fs::write(disk.path("kek"), "not a key").unwrap();
    assert!(matches!(disk.dir.kek(), Err(FilesError::Malformed { .. })));
}

/// Power may fail between any two steps of an installation. Each state that can be left behind is
/// built here from the files before and after; the old or the new identity must load from it.
#[test]
fn a_crash_at_any_point_leaves_an_identity() {
    let before_certificate = {
        let disk = Disk::new();
        let old = disk.renew();
        // The new key is on disk, the new CA bundle too, the certificate is not.
        disk.dir.next_key().unwrap();
        fs::write(disk.path(".node.crt.tmp"), "half a certif").unwrap();
        assert_eq!(disk.loaded(), old);
        assert_ne!(disk.renew(), old, "and the next installation goes through");
        disk
    };
    drop(before_certificate);

    let disk = Disk::new();
    disk.renew();
    let old_key = fs::read(disk.path("node.key")).unwrap();
    let new = disk.renew();
    // The certificate is new; its key has not been moved to its final name yet.
    fs::rename(disk.path("node.key"), disk.path("node.key.next")).unwrap();
    fs::write(disk.path("node.key"), old_key).unwrap();
    set_mode(&disk.path("node.key"), 0o600);
    assert_eq!(disk.loaded(), new);
    assert!(!disk.path("node.key.next").exists(), "the work was finished");
    assert_eq!(disk.loaded(), new);
}

#[test]
fn what_does_not_fit_together_is_not_installed() {
    let disk = Disk::new();
    let good = disk.renew();
    let foreign_key = disk.certify(&NodeKey::generate());
    let error = disk.dir.install(&foreign_key, &trust(&disk.ca)).unwrap_err();
    assert!(matches!(error, FilesError::KeyMismatch { .. }), "{error:?}");
    let no_node = disk.ca.certificate().der().clone();
    let error = disk.dir.install(&no_node, &trust(&disk.ca)).unwrap_err();
    assert!(matches!(error, FilesError::Certificate { .. }), "{error:?}");
    assert_eq!(disk.loaded(), good);
}

#[test]
fn damaged_and_expired_identities_have_different_errors() {
    let disk = Disk::new();
    disk.renew();
    // With a clock that is wrong, and after a long outage: it is renewed then.
    for at in [days_ago(2), now(), Timestamp(now().0 + 30 * 24 * 3_600_000)] {
        assert!(disk.dir.load(at).unwrap().is_some());
    }
    let ca = fs::read(disk.path("ca.crt")).unwrap();
    fs::remove_file(disk.path("ca.crt")).unwrap();
    assert!(matches!(disk.dir.load(now()), Err(FilesError::Missing { .. })));
    fs::write(disk.path("ca.crt"), vec![b'x'; 300 * 1024]).unwrap();
    assert!(matches!(disk.dir.load(now()), Err(FilesError::Malformed { .. })));
    fs::write(disk.path("ca.crt"), ca).unwrap();
    fs::write(disk.path("node.key"), "not a key").unwrap();
    assert!(matches!(disk.dir.load(now()), Err(FilesError::Key { .. })));
    fs::write(disk.path("node.crt"), "not a certificate").unwrap();
    assert!(matches!(disk.dir.load(now()), Err(FilesError::Malformed { .. })));
}
