//! Commands about the rotation of the key-encryption key. No key is in any of them: only names of keys, and envelopes.

use std::sync::Arc;

use jaco_types::{KekId, NodeId, StateIndex};

use crate::edge::SealedKey;
use crate::envelope::Place;
use crate::kek::{KekPhase, KekStep};

/// Begins to replace the key-encryption key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KekRotate {
    /// The key that is replaced, as the leader knew it.
    pub replaces: KekId,
    /// The new one.
    pub new: KekId,
    /// The member that has made the new one, and has it on its disk.
    pub holder: NodeId,
    /// The key that names secrets, sealed with the one that is replaced; absent where the state has it.
    pub naming_key: Option<SealedKey>,
}

impl KekRotate {
    /// Creates the command.
    #[must_use]
    pub fn new(replaces: KekId, new: KekId, holder: NodeId, naming_key: Option<SealedKey>) -> Self {
        Self { replaces, new, holder, naming_key }
    }
}

/// A member reports what it has done for the rotation. Only that member may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KekReport {
    /// The rotation, by the entry that began it.
    pub rotation: StateIndex,
    /// The member.
    pub node: NodeId,
    /// What it has done.
    pub step: KekStep,
}

impl KekReport {
    /// Creates the command.
    #[must_use]
    pub fn new(rotation: StateIndex, node: NodeId, step: KekStep) -> Self {
        Self { rotation, node, step }
    }
}

/// Leaves a phase for the next one. The leader's, once all have reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KekAdvance {
    /// The rotation, by the entry that began it.
    pub rotation: StateIndex,
    /// The phase that is left.
    pub leaves: KekPhase,
}

impl KekAdvance {
    /// Creates the command.
    #[must_use]
    pub fn new(rotation: StateIndex, leaves: KekPhase) -> Self {
        Self { rotation, leaves }
    }
}

/// Replaces envelopes of the old key by envelopes of the new one with the same content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KekReseal {
    /// The rotation, by the entry that began it.
    pub rotation: StateIndex,
    /// The envelopes. One that is not there any more, or is another one by now, is left as it is.
    pub envelopes: Vec<Resealed>,
}

impl KekReseal {
    /// Creates the command.
    #[must_use]
    pub fn new(rotation: StateIndex, envelopes: Vec<Resealed>) -> Self {
        Self { rotation, envelopes }
    }
}

/// An envelope that replaces another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resealed {
    /// Where it is.
    pub place: Place,
    /// The SHA-256 of the envelope that it replaces.
    pub replaces: [u8; 32],
    /// The new one.
    pub envelope: Arc<[u8]>,
}

/// Goes back to the old key, where nothing is sealed with the new one yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KekAbandon {
    /// The rotation, by the entry that began it.
    pub rotation: StateIndex,
}

impl KekAbandon {
    /// Creates the command.
    #[must_use]
    pub fn new(rotation: StateIndex) -> Self {
        Self { rotation }
    }
}
