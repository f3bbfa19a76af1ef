//! A node's identity on disk: key, certificate, trusted CAs, key-encryption key.
//!
//! Every file is replaced whole (temporary file, fsync, rename, fsync of the directory). Key and
//! certificate are two files that must change together: the new key waits as `node.key.next`, the
//! rename of `node.crt` is the moment of change, and a load after a crash in between finishes the
//! work. A key that others could have read is refused, because it may be known to them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use zeroize::Zeroizing;

use jaco_types::Timestamp;

use crate::ca::{TrustBundle, TrustError, certificate_pem};
use crate::identity::{IdentityError, NodeCertificate};
use crate::key::{KeyError, NodeKey};
use crate::sealed::KeyEncryptionKey;
use crate::tls::{Credentials, CredentialsError};

const NODE_KEY: &str = "node.key";
const NEXT_KEY: &str = "node.key.next";
const NODE_CERTIFICATE: &str = "node.crt";
const CA_CERTIFICATES: &str = "ca.crt";
const KEK: &str = "kek";
const NEXT_KEK: &str = "kek.next";
const RAFT_LOG_ID: &str = "raft-log.id";
const RAFT_LOG_STARTS: &str = "raft-log.starts";
const MEMBERS: &str = "members";
const REJOIN: &str = "rejoin";

/// No file here is ever larger.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// A directory that holds one node's identity. One process uses it at a time.
#[derive(Debug, Clone)]
pub struct IdentityDir {
    path: PathBuf,
}

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    OwnerOnly,
    Everyone,
}

/// Why an identity cannot be loaded or stored.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("{} cannot be accessed", path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The hint is part of the message: this is what stops a daemon from starting.
    #[error(
        "{} is accessible to others (mode {mode:04o}); if nobody has read it, run chmod {wanted:o}",
        path.display()
    )]
    TooOpen { path: PathBuf, mode: u32, wanted: u32 },
    #[error("{} is missing", path.display())]
    Missing { path: PathBuf },
    #[error("{} does not hold what it should", path.display())]
    Malformed { path: PathBuf },
    #[error("{} does not hold a private key", path.display())]
    Key {
        path: PathBuf,
        #[source]
        source: KeyError,
    },
    #[error("{} does not hold ca certificates", path.display())]
    Trust {
        path: PathBuf,
        #[source]
        source: TrustError,
    },
    #[error("{} does not hold a node certificate", path.display())]
    Certificate {
        path: PathBuf,
        #[source]
        source: IdentityError,
    },
    #[error("no key in {} belongs to the certificate there", path.display())]
    KeyMismatch { path: PathBuf },
    #[error("identity is not usable")]
    Credentials(#[source] CredentialsError),
}

impl IdentityDir {
    /// Opens the directory, making it if necessary. Refuses one that others may write to.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FilesError> {
        let path = path.into();
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|source| FilesError::Io { path: path.clone(), source })?;
        let metadata = fs::metadata(&path);
        let metadata = metadata.map_err(|source| FilesError::Io { path: path.clone(), source })?;
        refuse_wide(&path, metadata.permissions().mode(), 0o022, 0o700)?;
        Ok(Self { path })
    }

    /// The key for the next certificate: made and stored on the first call, the same until
    /// [`IdentityDir::install`]. So a node that lost the answer to its request repeats it with the
    /// same key, and is recognised.
    pub fn next_key(&self) -> Result<NodeKey, FilesError> {
        if let Some(key) = self.read_key(NEXT_KEY)? {
            return Ok(key);
        }
        let key = NodeKey::generate();
        self.write(NEXT_KEY, key.to_pem().as_bytes(), Access::OwnerOnly)?;
        Ok(key)
    }

    /// The key that belongs to the stored certificate. Renewal keeps it: the cluster knows a node by
    /// its key.
    pub fn key_in_use(&self) -> Result<NodeKey, FilesError> {
        let path = self.file(NODE_KEY);
        self.read_key(NODE_KEY)?.ok_or(FilesError::Missing { path })
    }

    /// Stores the certificate for [`IdentityDir::next_key`], or for the key in use, together with
    /// the CAs to trust. After a crash at any point the old or the new identity loads.
    pub fn install(
        &self,
        certificate: &CertificateDer<'_>,
        trust: &TrustBundle,
    ) -> Result<(), FilesError> {
        let path = self.file(NODE_CERTIFICATE);
        let parsed = NodeCertificate::read(certificate)
            .map_err(|source| FilesError::Certificate { path, source })?;
        self.key_of(&parsed)?;
        // The CAs go first: a bundle grows before the certificates that need it are issued.
        self.write(CA_CERTIFICATES, trust.to_pem().as_bytes(), Access::Everyone)?;
        let pem = certificate_pem(certificate);
        self.write(NODE_CERTIFICATE, pem.as_bytes(), Access::Everyone)?;
        self.settle_key(&parsed).map(drop)
    }

    /// The stored identity, or `None` if the node has never joined. One whose certificate has expired
    /// at `now` loads: its peers let it in to renew it.
    pub fn load(&self, now: Timestamp) -> Result<Option<Credentials>, FilesError> {
        let Some(pem) = self.read(NODE_CERTIFICATE, Access::Everyone)? else {
            return Ok(None);
        };
        let path = self.file(NODE_CERTIFICATE);
        let certificate = CertificateDer::from_pem_slice(&pem)
            .map_err(|_| FilesError::Malformed { path: path.clone() })?;
        let parsed = NodeCertificate::read(&certificate)
            .map_err(|source| FilesError::Certificate { path, source })?;
        let key = self.settle_key(&parsed)?;
        let trust = self.trust()?;
        Credentials::new(key, certificate, trust, now).map(Some).map_err(FilesError::Credentials)
    }

    /// The CAs that are trusted.
    pub fn trust(&self) -> Result<TrustBundle, FilesError> {
        let path = self.file(CA_CERTIFICATES);
        let text = self.read_text(CA_CERTIFICATES, Access::Everyone)?;
        let text = text.ok_or_else(|| FilesError::Missing { path: path.clone() })?;
        TrustBundle::from_pem(&text).map_err(|source| FilesError::Trust { path, source })
    }

    /// The key-encryption key, or `None` if this node holds none.
    pub fn kek(&self) -> Result<Option<KeyEncryptionKey>, FilesError> {
        self.read_kek(KEK)
    }

    /// The key that replaces it some time, or `None`.
    pub fn next_kek(&self) -> Result<Option<KeyEncryptionKey>, FilesError> {
        self.read_kek(NEXT_KEK)
    }

    fn read_kek(&self, name: &str) -> Result<Option<KeyEncryptionKey>, FilesError> {
        let Some(text) = self.read_text(name, Access::OwnerOnly)? else {
            return Ok(None);
        };
        let malformed = || FilesError::Malformed { path: self.file(name) };
        KeyEncryptionKey::from_hex(&text).map(Some).ok_or_else(malformed)
    }

    /// Where the key-encryption key is.
    #[must_use]
    pub fn kek_file(&self) -> PathBuf {
        self.file(KEK)
    }

    /// Stores the key-encryption key.
    pub fn store_kek(&self, kek: &KeyEncryptionKey) -> Result<(), FilesError> {
        self.write(KEK, kek.to_hex().as_bytes(), Access::OwnerOnly)
    }

    /// Stores the key that replaces it some time.
    pub fn store_next_kek(&self, kek: &KeyEncryptionKey) -> Result<(), FilesError> {
        self.write(NEXT_KEK, kek.to_hex().as_bytes(), Access::OwnerOnly)
    }

    /// The next key takes the place of the one in use, which is gone then. A crash leaves both or the next one.
    pub fn adopt_next_kek(&self) -> Result<(), FilesError> {
        self.rename(NEXT_KEK, KEK)?;
        self.forget_unfinished_keks()
    }

    /// Deletes the next key.
    pub fn forget_next_kek(&self) -> Result<(), FilesError> {
        self.remove(NEXT_KEK)?;
        self.forget_unfinished_keks()
    }

    /// What a crash left of a key that was being stored.
    fn forget_unfinished_keks(&self) -> Result<(), FilesError> {
        self.remove(&temporary(KEK))?;
        self.remove(&temporary(NEXT_KEK))
    }

    /// The id of the raft log that this node writes, or `None` before it has opened one. Kept apart
    /// from the log, so that a log that is lost or replaced is noticed.
    pub fn raft_log_id(&self) -> Result<Option<String>, FilesError> {
        let id = self.read_text(RAFT_LOG_ID, Access::OwnerOnly)?;
        Ok(id.map(|id| id.to_string()))
    }

    /// Stores the id of the raft log.
    pub fn store_raft_log_id(&self, id: &str) -> Result<(), FilesError> {
        self.write(RAFT_LOG_ID, id.as_bytes(), Access::OwnerOnly)
    }

    /// How often the raft log was started; 0 if that was never stored. Kept apart from the log, so that an older copy of
    /// it is noticed.
    pub fn raft_log_starts(&self) -> Result<u64, FilesError> {
        let Some(text) = self.read_text(RAFT_LOG_STARTS, Access::OwnerOnly)? else { return Ok(0) };
        let malformed = |_| FilesError::Malformed { path: self.file(RAFT_LOG_STARTS) };
        text.trim().parse().map_err(malformed)
    }

    /// Stores how often the raft log was started.
    pub fn store_raft_log_starts(&self, starts: u64) -> Result<(), FilesError> {
        self.write(RAFT_LOG_STARTS, starts.to_string().as_bytes(), Access::OwnerOnly)
    }

    /// Forgets the raft log of a membership that never came about.
    pub fn forget_raft_log(&self) -> Result<(), FilesError> {
        self.remove(RAFT_LOG_STARTS)?;
        self.remove(RAFT_LOG_ID)
    }

    /// Where the other members listened when they were last stored; none if they never were. Kept apart from the log, so
    /// that a node that lost it knows whom to ask.
    pub fn members(&self) -> Result<Vec<String>, FilesError> {
        let text = self.read_text(MEMBERS, Access::OwnerOnly)?;
        Ok(text.map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default())
    }

    /// Stores where the other members listen.
    pub fn store_members(&self, addresses: &[String]) -> Result<(), FilesError> {
        self.write(MEMBERS, addresses.join("\n").as_bytes(), Access::OwnerOnly)
    }

    /// What an unfinished return to the cluster needs to go on; `None` if there is none.
    pub fn rejoin(&self) -> Result<Option<Zeroizing<String>>, FilesError> {
        self.read_text(REJOIN, Access::OwnerOnly)
    }

    /// Stores what a return to the cluster needs to go on. It outlives [`IdentityDir::delete`].
    pub fn store_rejoin(&self, text: &str) -> Result<(), FilesError> {
        self.write(REJOIN, text.as_bytes(), Access::OwnerOnly)
    }

    /// Forgets a return to the cluster, which is finished or was given up.
    pub fn forget_rejoin(&self) -> Result<(), FilesError> {
        self.remove(REJOIN)
    }

    /// Deletes the identity of a node that was removed from its cluster. The certificate goes first:
    /// without it the node is a member of no cluster, even if a crash leaves the rest behind.
    pub fn delete(&self) -> Result<(), FilesError> {
        for name in [NODE_CERTIFICATE, NODE_KEY, NEXT_KEY, CA_CERTIFICATES, KEK, NEXT_KEK, MEMBERS]
        {
            self.remove(name)?;
        }
        self.forget_raft_log()
    }

    /// The key of `certificate`, moved to its final name if a crash kept it from getting there.
    fn settle_key(&self, certificate: &NodeCertificate) -> Result<NodeKey, FilesError> {
        let (key, name) = self.key_of(certificate)?;
        if name == NEXT_KEY {
            self.rename(NEXT_KEY, NODE_KEY)?;
        }
        Ok(key)
    }

    fn key_of(&self, certificate: &NodeCertificate) -> Result<(NodeKey, &'static str), FilesError> {
        for name in [NODE_KEY, NEXT_KEY] {
            if let Some(key) = self.read_key(name)?
                && key.fingerprint() == certificate.key_fingerprint()
            {
                return Ok((key, name));
            }
        }
        Err(FilesError::KeyMismatch { path: self.path.clone() })
    }

    fn read_key(&self, name: &str) -> Result<Option<NodeKey>, FilesError> {
        let Some(text) = self.read_text(name, Access::OwnerOnly)? else {
            return Ok(None);
        };
        let path = self.file(name);
        NodeKey::from_pem(&text).map(Some).map_err(|source| FilesError::Key { path, source })
    }

    fn read_text(
        &self,
        name: &str,
        access: Access,
    ) -> Result<Option<Zeroizing<String>>, FilesError> {
        let Some(bytes) = self.read(name, access)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| FilesError::Malformed { path: self.file(name) })?;
        Ok(Some(Zeroizing::new(text.to_owned())))
    }

    fn read(&self, name: &str, access: Access) -> Result<Option<Zeroizing<Vec<u8>>>, FilesError> {
        let path = self.file(name);
        let io = |source| FilesError::Io { path: path.clone(), source };
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        // Asked of the open file, so that it is the file that is read.
        let mode = file.metadata().map_err(io)?.permissions().mode();
        refuse_wide(&path, mode, access.forbidden(), access.mode())?;
        let mut bytes = Zeroizing::new(Vec::new());
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(FilesError::Malformed { path });
        }
        Ok(Some(bytes))
    }

    fn write(&self, name: &str, bytes: &[u8], access: Access) -> Result<(), FilesError> {
        let temporary = temporary(name);
        let path = self.file(&temporary);
        let io = |source| FilesError::Io { path: path.clone(), source };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            Ok(()) | Err(_) => {}
        }
        // Made with its final mode: a key is never readable by others, not for a moment.
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(access.mode())
            .open(&path)
            .map_err(io)?;
        file.write_all(bytes).map_err(io)?;
        file.sync_all().map_err(io)?;
        self.rename(&temporary, name)
    }

    /// Removes a file durably. An absent one is no error.
    fn remove(&self, name: &str) -> Result<(), FilesError> {
        let path = self.file(name);
        let removed = fs::remove_file(&path).and_then(|()| File::open(&self.path)?.sync_all());
        match removed {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(FilesError::Io { path, source })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), FilesError> {
        let path = self.file(to);
        fs::rename(self.file(from), &path)
            .and_then(|()| File::open(&self.path)?.sync_all())
            .map_err(|source| FilesError::Io { path, source })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// What a file is called until it is complete.
fn temporary(name: &str) -> String {
    format!(".{name}.tmp")
}

impl Access {
    const fn mode(self) -> u32 {
        match self {
            Self::OwnerOnly => 0o600,
            Self::Everyone => 0o644,
        }
    }

    /// The permission bits that make a file untrustworthy: for keys any of others', for the rest
    /// others' writing.
    const fn forbidden(self) -> u32 {
        match self {
            Self::OwnerOnly => 0o077,
            Self::Everyone => 0o022,
        }
    }
}

fn refuse_wide(path: &Path, mode: u32, forbidden: u32, wanted: u32) -> Result<(), FilesError> {
    if mode & forbidden == 0 {
        return Ok(());
    }
    Err(FilesError::TooOpen { path: path.to_owned(), mode: mode & 0o7777, wanted })
}
