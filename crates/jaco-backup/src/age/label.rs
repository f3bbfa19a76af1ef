//! What an encrypted backup says of itself without a key: a line of its header that other programs skip. Whoever has no
//! key cannot tell whether it is true; with the key it is verified with the header.

use jaco_proto::v1::BackupHeader;

/// The kind of the line.
pub(super) const KIND: &str = "jaco-backup";

/// The most characters of a cluster's id.
const ID_CHARS_MAX: usize = 64;

/// Which backup is in an encrypted file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The id of its cluster.
    pub cluster_id: String,
    /// When it was taken.
    pub taken_at_ms: i64,
    /// As of which index.
    pub raft_index: u64,
}

impl Label {
    /// That of a backup.
    #[must_use]
    pub fn of(header: &BackupHeader) -> Self {
        Self {
            cluster_id: header.cluster_id.clone(),
            taken_at_ms: header.taken_at_ms,
            raft_index: header.raft_index,
        }
    }

    /// The words of the line behind its kind. `None` if the id of the cluster cannot be one of them: then it has no label.
    pub(super) fn words(&self) -> Option<String> {
        let Self { cluster_id, taken_at_ms, raft_index } = self;
        is_id(cluster_id).then(|| format!("{cluster_id} {taken_at_ms} {raft_index}"))
    }

    pub(super) fn parse(words: &[&str]) -> Option<Self> {
        let [cluster_id, taken_at_ms, raft_index] = words else { return None };
        Some(Self {
            cluster_id: Some(*cluster_id).filter(|id| is_id(id))?.to_owned(),
            taken_at_ms: taken_at_ms.parse().ok()?,
            raft_index: raft_index.parse().ok()?,
        })
    }
}

fn is_id(text: &str) -> bool {
    (1..=ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}
