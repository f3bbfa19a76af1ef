//! Seals what a request brings, by the key of the present phase. Must never be kept longer than until what it sealed is
//! written: a phase of a rotation waits for it.

use jaco_pki::sealed::{self, Purpose};
use jaco_pki::{KekRing, KeyEncryptionKey, NamingKey};
use jaco_types::{ClusterId, ContentId, KekId, Rejection};
use tokio::sync::RwLockReadGuard;

use crate::auth::cluster_key::cluster_meta;
use crate::member::Member;

/// Seals and opens for one request.
pub struct Sealer<'m> {
    cluster: ClusterId,
    key: KeyEncryptionKey,
    naming: NamingKey,
    ring: KekRing,
    _in_flight: RwLockReadGuard<'m, ()>,
}

impl std::fmt::Debug for Sealer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("key", &self.key.id()).finish_non_exhaustive()
    }
}

impl Member {
    /// What seals by the state of now. To be dropped once the envelopes are written, and not before; whoever has one must
    /// not ask for another.
    ///
    /// # Errors
    /// Those of [`crate::ClusterKey::of`].
    pub async fn sealer(&self) -> Result<Sealer<'_>, Rejection> {
        // Before the state is read: a phase that begins later waits for this one.
        let in_flight = self.cluster_key.sealing().await;
        self.store.read(|state| {
            Ok(Sealer {
                cluster: cluster_meta(state)?.id.clone(),
                key: self.cluster_key.of(state)?,
                naming: self.cluster_key.naming_key(state)?,
                ring: self.cluster_key.ring().clone(),
                _in_flight: in_flight,
            })
        })
    }
}

impl Sealer<'_> {
    /// The key that seals.
    #[must_use]
    pub fn key(&self) -> &KeyEncryptionKey {
        &self.key
    }

    /// Its name.
    #[must_use]
    pub fn key_id(&self) -> KekId {
        self.key.id()
    }

    /// Seals `plaintext`. Two calls never give the same bytes.
    #[must_use]
    pub fn seal(&self, purpose: Purpose<'_>, plaintext: &[u8]) -> Vec<u8> {
        sealed::seal(&self.key, &self.cluster, purpose, plaintext)
    }

    /// Seals a piece of a secret, under the name by which equal pieces are known to be equal.
    #[must_use]
    pub fn seal_piece(&self, plaintext: &[u8]) -> (ContentId, Vec<u8>) {
        let name = self.naming.name_of(&self.cluster, plaintext);
        let envelope = sealed::seal_named(&self.key, &self.cluster, &name, plaintext);
        (ContentId(name), envelope)
    }

    /// Whether an envelope holds `plaintext`: sealing is not deterministic, so equality is tested with the key.
    #[must_use]
    pub fn holds(&self, purpose: Purpose<'_>, envelope: &[u8], plaintext: &[u8]) -> bool {
        self.ring.holds(&self.cluster, purpose, envelope, plaintext)
    }
}
