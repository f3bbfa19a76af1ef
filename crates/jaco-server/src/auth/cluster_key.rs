//! The key-encryption keys of this node, compared with the cluster's. What a wrong key seals nobody else can open, so it
//! must never be given out for that.

use std::fmt;

use jaco_pki::sealed::Purpose;
use jaco_pki::{KekRing, KeyEncryptionKey, NamingKey};
use jaco_state::view::{needed_keys, sealing_key};
use jaco_state::{ClusterMeta, ClusterState};
use jaco_types::{ErrorCode, Hostname, KekId, Rejection};
use tokio::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// The key-encryption keys that this node has read from its files. They are given out only where they are those that the
/// cluster needs: one of them has sealed the certificate authority in every state since the cluster was created.
pub struct ClusterKey {
    ring: KekRing,
    node: Hostname,
    /// Held for reading while something is sealed and not written yet.
    in_flight: RwLock<()>,
    /// The new key that was made here and proposed, as long as it is not known what came of that. Held while the files
    /// are changed.
    made: Mutex<Option<KekId>>,
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterKey").field("file", &self.ring.file()).finish_non_exhaustive()
    }
}

impl ClusterKey {
    /// The keys of `node`.
    #[must_use]
    pub fn new(ring: KekRing, node: Hostname) -> Self {
        Self { ring, node, in_flight: RwLock::new(()), made: Mutex::new(None) }
    }

    /// All keys of this node, whichever they are.
    #[must_use]
    pub fn ring(&self) -> &KekRing {
        &self.ring
    }

    /// The key that seals.
    ///
    /// # Errors
    /// `kek_mismatch` where this node lacks it, or another one that opens something in the state;
    /// `cluster_uninitialized` as long as this node has no state.
    pub fn of(&self, state: &ClusterState) -> Result<KeyEncryptionKey, Rejection> {
        cluster_meta(state)?;
        let held = self.ring.ids();
        let has_all = needed_keys(state).iter().all(|key| held.contains(key));
        let key = sealing_key(state).filter(|_| has_all).and_then(|key| self.ring.get(key));
        key.ok_or_else(|| self.mismatch())
    }

    /// The key that names secrets.
    ///
    /// # Errors
    /// Those of [`ClusterKey::of`], and `internal` if it was altered.
    pub(crate) fn naming_key(&self, state: &ClusterState) -> Result<NamingKey, Rejection> {
        let Some(sealed) = &state.sealing.naming_key else {
            return Ok(self.of(state)?.naming_key());
        };
        let cluster = &cluster_meta(state)?.id;
        let opened = self.ring.open(cluster, Purpose::NamingKey, &sealed.0);
        let opened = opened.map_err(|error| error.to_string());
        let key = opened.and_then(|key| NamingKey::from_opened(&key).ok_or("it is no key".into()));
        key.map_err(|error| {
            let message = format!("the key that names secrets cannot be opened: {error}");
            Rejection::new(ErrorCode::Internal, message)
        })
    }

    /// Held while something is sealed and not written yet.
    pub(crate) async fn sealing(&self) -> RwLockReadGuard<'_, ()> {
        self.in_flight.read().await
    }

    /// Waits until everything is written, or given up, that this node began to seal before this call. What it seals
    /// after that is sealed by the state that it has now, or a later one.
    pub async fn written(&self) {
        drop(self.in_flight.write().await);
    }

    /// Keeps anybody else from changing the files. What is in it is the key that was made here and proposed, as long as
    /// it is not known what came of that.
    pub async fn changing(&self) -> MutexGuard<'_, Option<KekId>> {
        self.made.lock().await
    }

    fn mismatch(&self) -> Rejection {
        let (node, file) = (&self.node, self.ring.file());
        let message = format!(
            "the key-encryption key of node {node} ({}) is not the cluster's: nothing is sealed with it; copy the file \
             from another node and restart jacod",
            file.display()
        );
        Rejection::new(ErrorCode::KekMismatch, message)
    }
}

/// What the state says of the cluster itself.
///
/// # Errors
/// `cluster_uninitialized` on a node that has not received the state yet.
pub(crate) fn cluster_meta(state: &ClusterState) -> Result<&ClusterMeta, Rejection> {
    let missing = || {
        let message = "this node has not received the state of its cluster yet: try again, or ask \
                       another node";
        Rejection::new(ErrorCode::ClusterUninitialized, message)
    };
    state.meta.as_ref().ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use jaco_pki::IdentityDir;
    use jaco_pki::sealed::seal;
    use jaco_state::edge::SealedKey;
    use jaco_state::kek::{KekPhase, KekRotation};
    use jaco_types::{ClusterId, StateIndex, Timestamp};
    use tempfile::TempDir;

    use super::*;

    fn cluster() -> ClusterId {
        ClusterId::new("00112233445566778899aabbccddeeff").unwrap()
    }

    fn state(key: &KeyEncryptionKey) -> ClusterState {
        let id = cluster();
        let sealed_ca_key = seal(key, &id, Purpose::CaKey, b"key");
        let meta = ClusterMeta {
            id,
            name: "blue".to_owned(),
            ca_certificate: String::new(),
            sealed_ca_key,
            created_at: Timestamp(0),
        };
        ClusterState { meta: Some(meta), ..ClusterState::default() }
    }

    fn kek(number: u8) -> KeyEncryptionKey {
        KeyEncryptionKey::from_bytes([number; 32])
    }

    fn node(folder: &TempDir, key: &KeyEncryptionKey) -> ClusterKey {
        let dir = IdentityDir::open(folder.path().join("node")).unwrap();
        dir.store_kek(key).unwrap();
        dir.forget_next_kek().unwrap();
        ClusterKey::new(KekRing::load(dir).unwrap().unwrap(), Hostname::new("n1").unwrap())
    }

    /// R-FAULT-1: a key with one other digit than the cluster's is named, with its file, and not given out.
    #[test]
    fn another_key_than_the_clusters_is_not_given_out() {
        let folder = tempfile::tempdir().unwrap();
        let state = state(&kek(7));
        assert!(node(&folder, &kek(7)).of(&state).is_ok());
        for at in [0, 31] {
            let mut bytes = [7; 32];
            bytes[at] ^= 0x10;
            let refused =
                node(&folder, &KeyEncryptionKey::from_bytes(bytes)).of(&state).unwrap_err();
            assert_eq!(refused.code, ErrorCode::KekMismatch);
            let file = folder.path().join("node/kek");
            let named = format!("node n1 ({})", file.display());
            assert!(refused.message.contains(&named), "{}", refused.message);
        }
        let none = node(&folder, &kek(7)).of(&ClusterState::default()).unwrap_err();
        assert_eq!(none.code, ErrorCode::ClusterUninitialized);
    }

    /// R-IN-5: in a rotation the phase says which key seals, and a node without one that is needed is told from others.
    #[test]
    fn the_phase_says_which_key_seals() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = state(&kek(1));
        let mut in_phase = |phase| {
            state.sealing.rotation = Some(KekRotation {
                id: StateIndex(5),
                begun_at: Timestamp(0),
                phase,
                entered: StateIndex(5),
                since: Timestamp(0),
                old: kek(1).id(),
                new: kek(2).id(),
                reports: std::collections::BTreeMap::new(),
            });
            state.clone()
        };
        let handing_out = in_phase(KekPhase::HandingOut);
        let (resealing, settled) = (in_phase(KekPhase::Resealing), in_phase(KekPhase::Settled));
        let old = node(&folder, &kek(1));
        let seals = |keys: &ClusterKey, state: &ClusterState| {
            keys.of(state).map(|key| key.id()).map_err(|refusal| refusal.code)
        };
        assert_eq!(seals(&old, &handing_out), Ok(kek(1).id()));
        assert_eq!(seals(&old, &resealing), Err(ErrorCode::KekMismatch));
        old.ring().store_next(&kek(2)).unwrap();
        assert_eq!(seals(&old, &handing_out), Ok(kek(1).id()));
        assert_eq!(seals(&old, &resealing), Ok(kek(2).id()));
        assert_eq!(seals(&old, &settled), Ok(kek(2).id()));
        let new = node(&folder, &kek(2));
        assert_eq!(seals(&new, &resealing), Err(ErrorCode::KekMismatch), "it cannot open all");
        assert_eq!(seals(&new, &settled), Ok(kek(2).id()));
    }

    /// R-IN-5: secrets have the same names before a rotation, in it and after it.
    #[test]
    fn names_do_not_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut state = state(&kek(1));
        let keys = node(&folder, &kek(1));
        let name = |keys: &ClusterKey, state: &ClusterState| {
            keys.naming_key(state).unwrap().name_of(&cluster(), b"hunter2")
        };
        let before = name(&keys, &state);
        let sealed = |by: &KeyEncryptionKey| {
            let key = kek(1).naming_key().to_bytes();
            Some(SealedKey(seal(by, &cluster(), Purpose::NamingKey, &*key).into()))
        };
        state.sealing.naming_key = sealed(&kek(1));
        assert_eq!(name(&keys, &state), before);
        let after = node(&folder, &kek(2));
        state.sealing.naming_key = sealed(&kek(2));
        assert_eq!(name(&after, &state), before);
        state.sealing.naming_key = sealed(&kek(3));
        assert_eq!(after.naming_key(&state).unwrap_err().code, ErrorCode::Internal);
    }
}
