//! Named configs and secrets (ADR 0042). Contents are never returned.

use async_trait::async_trait;
use bytes::Bytes;
use jaco_compose::tree::FileTree;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::{NamedContentPut, NamedContentRemove};
use jaco_state::contents::PIECE_BYTES_MAX;
use jaco_state::view::users;
use jaco_types::{Author, ContentName, ErrorCode, NamedKey, NamedKind, Rejection, Rights, Role};

use super::contents::{cluster, plain_piece, sealed_piece};
use crate::forward::Write;
use crate::member::Member;
use crate::status::invalid;

/// The default mode of its file.
const PLAIN_MODE: u32 = 0o444;

#[async_trait]
impl Write for v1::StoreContentRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::StoreContentResponse, Rejection> {
        let key = key(&self.kind, &self.name)?;
        let size = self.content.len();
        if size > PIECE_BYTES_MAX {
            let message =
                format!("{key} has {size} bytes, more than the maximum of {PIECE_BYTES_MAX}");
            return Err(Rejection::new(ErrorCode::TooLarge, message));
        }
        let piece = match key.kind {
            NamedKind::Config => plain_piece(&self.content),
            NamedKind::Secret => sealed_piece(&member.key()?, &cluster(member)?, &self.content),
        };
        let size = size as u64;
        let tree = FileTree::of_file(PLAIN_MODE, size, vec![piece.id]);
        let list = plain_piece(&Bytes::from(tree.text()));
        let command = NamedContentPut::new(key.clone(), list.id, vec![list, piece], size).into();
        member.commit(by, &self.request_id, command).await?;
        let named = member.store.read(|state| state.named.get(&key).map(|named| named.version));
        Ok(v1::StoreContentResponse { version: named.unwrap_or_default() })
    }
}

#[async_trait]
impl Write for v1::RemoveContentRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveContentResponse, Rejection> {
        let key = key(&self.kind, &self.name)?;
        member.commit(by, &self.request_id, NamedContentRemove::new(key).into()).await?;
        Ok(v1::RemoveContentResponse {})
    }
}

/// Lists the configs or the secrets, by name; which contents secrets have for operators only, because whoever knows that
/// can have them mounted into a container.
///
/// # Errors
/// `invalid_request` for an unknown kind.
pub(super) fn list(
    state: &ClusterState,
    rights: &Rights,
    request: &v1::ListContentsRequest,
) -> Result<v1::ListContentsResponse, Rejection> {
    let kind = kind(&request.kind)?;
    let shows_tree = kind == NamedKind::Config || rights.role() >= Role::Operator;
    let of_kind = state.named.iter().filter(|(key, _)| key.kind == kind);
    let contents = of_kind.map(|(key, named)| v1::ContentInfo {
        name: key.name.to_string(),
        version: named.version,
        bytes: named.size,
        stored_at_ms: i64::try_from(named.stored_at.0).unwrap_or(i64::MAX),
        used_by: users(state, key).map(ToString::to_string).collect(),
        tree: if shows_tree { named.tree.0.to_vec().into() } else { Bytes::new() },
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
