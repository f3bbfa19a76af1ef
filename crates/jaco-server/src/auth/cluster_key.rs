//! The key-encryption key of this node, compared with the cluster's. What a wrong key seals nobody else can open, so it
//! must never be given out for that.

use std::fmt;
use std::path::PathBuf;

use jaco_pki::{KeyEncryptionKey, sealed};
use jaco_state::{ClusterMeta, ClusterState};
use jaco_types::{ErrorCode, Hostname, Rejection};

/// The key-encryption key that this node has read from its file. It is given out only where it is the one that has
/// sealed the cluster's certificate authority: that is in every state since the cluster was created.
pub struct ClusterKey {
    own: KeyEncryptionKey,
    file: PathBuf,
    node: Hostname,
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterKey").field("file", &self.file).finish_non_exhaustive()
    }
}

impl ClusterKey {
    /// The key that `node` has in `file`.
    #[must_use]
    pub fn new(own: KeyEncryptionKey, file: PathBuf, node: Hostname) -> Self {
        Self { own, file, node }
    }

    /// The key, for sealing, opening and giving it to a node that joins.
    ///
    /// # Errors
    /// `kek_mismatch` where it is not the cluster's, `cluster_uninitialized` as long as this node has no state.
    pub fn of(&self, state: &ClusterState) -> Result<&KeyEncryptionKey, Rejection> {
        let meta = cluster_meta(state)?;
        if sealed::key_of(&meta.sealed_ca_key) == Some(self.own.id()) {
            return Ok(&self.own);
        }
        let (node, file) = (&self.node, self.file.display());
        let message = format!(
            "the key-encryption key of node {node} ({file}) is not the cluster's: nothing is sealed with it; copy the \
             file from another node and restart jacod"
        );
        Err(Rejection::new(ErrorCode::KekMismatch, message))
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
    use jaco_pki::sealed::{Purpose, seal};
    use jaco_types::{ClusterId, Timestamp};

    use super::*;

    fn state(key: &KeyEncryptionKey) -> ClusterState {
        let id = ClusterId::new("00112233445566778899aabbccddeeff").unwrap();
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

    /// R-FAULT-1: a key with one other digit than the cluster's is named, with its file, and not given out.
    #[test]
    fn another_key_than_the_clusters_is_not_given_out() {
        let state = state(&KeyEncryptionKey::from_bytes([7; 32]));
        let key = |bytes| {
            let node = Hostname::new("n1").unwrap();
            ClusterKey::new(KeyEncryptionKey::from_bytes(bytes), "/data/node/kek".into(), node)
        };
        assert!(key([7; 32]).of(&state).is_ok());
        for at in [0, 31] {
            let mut bytes = [7; 32];
            bytes[at] ^= 0x10;
            let refused = key(bytes).of(&state).unwrap_err();
            assert_eq!(refused.code, ErrorCode::KekMismatch);
            assert!(refused.message.contains("node n1 (/data/node/kek)"), "{}", refused.message);
        }
        let none = key([7; 32]).of(&ClusterState::default()).unwrap_err();
        assert_eq!(none.code, ErrorCode::ClusterUninitialized);
    }
}
