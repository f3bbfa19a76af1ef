//! Configs and secrets that the cluster keeps under a name (ADR 0042). A content comes in and is never
//! shown again.

use async_trait::async_trait;
use bytes::Bytes;
use jaco_compose::tree::FileTree;
use jaco_proto::v1;
use jaco_state::contents::{PIECE_BYTES_MAX, users};
use jaco_state::{ClusterState, Command};
use jaco_types::{Author, ContentName, ErrorCode, NamedKey, NamedKind, Rejection};

use super::contents::{cluster, plain_piece, sealed_piece};
use crate::member::{Member, Write, name_if_unnamed};
use crate::status::invalid;

/// The mode of its file, where a service asks for none.
const PLAIN_MODE: u32 = 0o444;

#[async_trait]
impl Write for v1::StoreContentRequest {
    const METHOD: &'static str = "/jaco.v1.Deploy/StoreContent";
    type Answer = v1::StoreContentResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::StoreContentResponse, Rejection> {
        let key = key(&self.kind, &self.name)?;
        let size = self.content.len();
        if size > PIECE_BYTES_MAX {
            let message = format!("{key} has {size} bytes, and {PIECE_BYTES_MAX} are the most");
            return Err(Rejection::new(ErrorCode::TooLarge, message));
        }
        let piece = match key.kind {
            NamedKind::Config => plain_piece(&self.content),
            NamedKind::Secret => sealed_piece(member, &cluster(member)?, &self.content),
        };
        let size = size as u64;
        let tree = FileTree::of_file(PLAIN_MODE, size, vec![piece.id]);
        let list = plain_piece(&Bytes::from(tree.text()));
        let command = Command::NamedContentPut {
            key: key.clone(),
            tree: list.id,
            pieces: vec![list, piece],
            size,
        };
        member.commit(by, &self.request_id, command).await?;
        let named = member.store.read(|state| state.named.get(&key).map(|named| named.version));
        Ok(v1::StoreContentResponse { version: named.unwrap_or_default() })
    }
}

#[async_trait]
impl Write for v1::RemoveContentRequest {
    const METHOD: &'static str = "/jaco.v1.Deploy/RemoveContent";
    type Answer = v1::RemoveContentResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveContentResponse, Rejection> {
        let key = key(&self.kind, &self.name)?;
        member.commit(by, &self.request_id, Command::NamedContentRemove { key }).await?;
        Ok(v1::RemoveContentResponse {})
    }
}

/// What there is of one kind, by name.
///
/// # Errors
/// `invalid_request` for a kind that there is not.
pub(super) fn list(
    state: &ClusterState,
    request: &v1::ListContentsRequest,
) -> Result<v1::ListContentsResponse, Rejection> {
    let kind = kind(&request.kind)?;
    let of_kind = state.named.iter().filter(|(key, _)| key.kind == kind);
    let contents = of_kind.map(|(key, named)| v1::ContentInfo {
        name: key.name.to_string(),
        version: named.version,
        bytes: named.size,
        stored_at_ms: i64::try_from(named.stored_at.0).unwrap_or(i64::MAX),
        used_by: users(state, key).map(ToString::to_string).collect(),
        tree: named.tree.0.to_vec().into(),
    });
    Ok(v1::ListContentsResponse { contents: contents.collect() })
}

fn key(kind_text: &str, name: &str) -> Result<NamedKey, Rejection> {
    let name = ContentName::new(name).map_err(invalid)?;
    Ok(NamedKey { kind: kind(kind_text)?, name })
}

fn kind(text: &str) -> Result<NamedKind, Rejection> {
    NamedKind::parse(text)
        .ok_or_else(|| invalid(format!("kind is {text:?}: write \"config\" or \"secret\"")))
}
