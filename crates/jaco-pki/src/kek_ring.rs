//! The key-encryption keys of a node: the one in use, and during a rotation the one that replaces it. What is in memory is
//! on the disk. Must never give up the last key that opens something: who calls decides by the replicated state.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use jaco_types::{ClusterId, KekId};
use zeroize::Zeroizing;

use crate::files::{FilesError, IdentityDir};
use crate::sealed::{self, KeyEncryptionKey, OpenError, Purpose};

/// The keys of a node. Clones are the same.
#[derive(Debug, Clone)]
pub struct KekRing {
    dir: IdentityDir,
    keys: Arc<RwLock<Keys>>,
}

/// The two files.
#[derive(Debug, Clone)]
struct Keys {
    key: KeyEncryptionKey,
    next: Option<KeyEncryptionKey>,
}

impl Keys {
    fn read(dir: &IdentityDir) -> Result<Option<Self>, FilesError> {
        let next = dir.next_kek()?;
        Ok(dir.kek()?.map(|key| Self { key, next }))
    }

    fn all(&self) -> impl Iterator<Item = &KeyEncryptionKey> {
        std::iter::once(&self.key).chain(&self.next)
    }
}

impl KekRing {
    /// Reads the keys of a node; `None` if it has none.
    ///
    /// # Errors
    /// When a file is damaged, cannot be read, or could be read by others.
    pub fn load(dir: IdentityDir) -> Result<Option<Self>, FilesError> {
        let keys = Keys::read(&dir)?;
        Ok(keys.map(|keys| Self { dir, keys: Arc::new(RwLock::new(keys)) }))
    }

    /// Which keys are there.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<KekId> {
        self.keys().all().map(KeyEncryptionKey::id).collect()
    }

    /// The key of this name.
    #[must_use]
    pub fn get(&self, id: KekId) -> Option<KeyEncryptionKey> {
        self.keys().all().find(|key| key.id() == id).cloned()
    }

    /// Where the key in use is.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.dir.kek_file()
    }

    /// Reads the files again: what is reported is on the disk.
    ///
    /// # Errors
    /// Those of [`KekRing::load`]; the keys that were read before are kept then.
    pub fn reload(&self) -> Result<(), FilesError> {
        let path = self.dir.kek_file();
        let keys = Keys::read(&self.dir)?.ok_or(FilesError::Missing { path })?;
        self.put(keys);
        Ok(())
    }

    /// Stores the key that replaces the one in use some time; one that was stored before is overwritten. It is durable
    /// once this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn store_next(&self, next: &KeyEncryptionKey) -> Result<(), FilesError> {
        self.dir.store_next_kek(next)?;
        let key = self.keys().key.clone();
        self.put(Keys { key, next: Some(next.clone()) });
        Ok(())
    }

    /// Keeps this key, and deletes the other one. A crash leaves both or one.
    ///
    /// # Errors
    /// When it is not there, or a file cannot be changed.
    pub fn keep(&self, id: KekId) -> Result<(), FilesError> {
        // An earlier call may have changed the files and failed after that.
        self.reload()?;
        let keys = self.keys();
        if keys.key.id() == id {
            self.dir.forget_next_kek()?;
            self.put(Keys { next: None, ..keys });
            return Ok(());
        }
        let path = self.dir.kek_file();
        let kept = keys.next.filter(|next| next.id() == id);
        let key = kept.ok_or(FilesError::Missing { path })?;
        self.dir.adopt_next_kek()?;
        self.put(Keys { key, next: None });
        Ok(())
    }

    /// Opens an envelope with the key that it names, as [`sealed::open`] does.
    ///
    /// # Errors
    /// `WrongKey` if that one is not there.
    pub fn open(
        &self,
        cluster: &ClusterId,
        purpose: Purpose<'_>,
        envelope: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        sealed::open(&self.key_of(envelope), cluster, purpose, envelope)
    }

    /// Opens a secret under its name, as [`sealed::open_named`] does.
    ///
    /// # Errors
    /// As [`KekRing::open`].
    pub fn open_named(
        &self,
        cluster: &ClusterId,
        name: &[u8; 32],
        envelope: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        sealed::open_named(&self.key_of(envelope), cluster, name, envelope)
    }

    /// Whether an envelope holds `plaintext`. How long that takes says nothing of what it holds instead.
    #[must_use]
    pub fn holds(
        &self,
        cluster: &ClusterId,
        purpose: Purpose<'_>,
        envelope: &[u8],
        plaintext: &[u8],
    ) -> bool {
        sealed::holds(&self.key_of(envelope), cluster, purpose, envelope, plaintext)
    }

    /// The key that an envelope names; the one in use for what names none, which says then why it does not open.
    fn key_of(&self, envelope: &[u8]) -> KeyEncryptionKey {
        let named = KekId::of_envelope(envelope).and_then(|id| self.get(id));
        named.unwrap_or_else(|| self.keys().key)
    }

    fn keys(&self) -> Keys {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn put(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }
}
