//! Contents in clear text: for a backup, and for a user who edits one. Whoever asks has written an audit event before.

use bytes::Bytes;
use jaco_compose::tree::FileTree;
use jaco_state::contents::{Form, NamedContent};
use jaco_state::{ClusterMeta, ClusterState};
use jaco_types::{ContentId, ErrorCode, NamedKey, Rejection};

use crate::auth::cluster_key::ClusterKey;

/// Opens the contents of a state.
#[derive(Clone, Copy)]
pub(crate) struct Opener<'s> {
    pub(crate) key: &'s ClusterKey,
    pub(crate) state: &'s ClusterState,
    pub(crate) meta: &'s ClusterMeta,
}

impl Opener<'_> {
    /// The content of a named config or secret.
    ///
    /// # Errors
    /// `internal` if it cannot be read, and those of [`ClusterKey::of`].
    pub(crate) fn named(&self, key: &NamedKey, named: &NamedContent) -> Result<Vec<u8>, Rejection> {
        let (_, list) = self.piece(named.tree)?;
        let tree = FileTree::parse(&list).map_err(|error| unreadable(&key.to_string(), error))?;
        let mut content = Vec::new();
        for id in tree.pieces() {
            content.extend_from_slice(&self.piece(id)?.1);
        }
        Ok(content)
    }

    /// A content chunk, and how it is stored.
    ///
    /// # Errors
    /// Those of [`Opener::named`].
    pub(crate) fn piece(&self, id: ContentId) -> Result<(Form, Bytes), Rejection> {
        let stored = self.state.contents.get(&id);
        let stored =
            stored.ok_or_else(|| unreadable(&format!("content {id}"), "it is not stored"))?;
        let bytes = &stored.bytes.0;
        let plain = match stored.form {
            Form::Plain => Bytes::copy_from_slice(bytes),
            Form::Sealed => {
                self.key.of(self.state)?;
                let opened = self.key.ring().open_named(&self.meta.id, &id.0, bytes);
                let opened = opened.map_err(|error| unreadable(&format!("content {id}"), error))?;
                Bytes::copy_from_slice(&opened)
            }
        };
        Ok((stored.form, plain))
    }
}

/// Cannot happen by ST-12; an incomplete answer must not look complete.
pub(crate) fn unreadable(what: &str, error: impl std::fmt::Display) -> Rejection {
    Rejection::new(ErrorCode::Internal, format!("{what} cannot be read: {error}"))
}
