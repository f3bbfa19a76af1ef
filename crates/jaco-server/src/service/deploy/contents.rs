//! Contents of files on their way into the cluster. Secrets are sealed here, before anything of them
//! is written anywhere.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jaco_pki::{KeyEncryptionKey, sealed};
use jaco_proto::v1;
use jaco_state::command::ContentPut;
use jaco_state::contents::{Form, PIECE_BYTES_MAX, Piece, PieceBytes};
use jaco_types::{Author, ClusterId, ContentId, ErrorCode, Rejection};
use ring::digest;

use crate::admission::content_id;
use crate::forward::Write;
use crate::member::Member;

/// The most bytes of one request: an entry of the log has to hold them.
const REQUEST_BYTES_MAX: usize = 2 << 20;

/// The most pieces of one request.
const REQUEST_PIECES_MAX: usize = 4096;

/// Which pieces are not stored, as far as this node knows.
pub(super) fn missing(
    member: &Member,
    request: v1::MissingContentsRequest,
) -> Result<v1::MissingContentsResponse, Rejection> {
    let stored = member.store.read(|state| state.contents.clone());
    let mut ids = request.ids;
    let mut wrong = None;
    ids.retain(|id| match content_id(id) {
        Ok(id) => !stored.contains(&id),
        Err(rejection) => {
            wrong = Some(rejection);
            false
        }
    });
    match wrong {
        Some(rejection) => Err(rejection),
        None => Ok(v1::MissingContentsResponse { ids }),
    }
}

#[async_trait]
impl Write for v1::PutContentsRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::PutContentsResponse, Rejection> {
        check(&self)?;
        let plain: Vec<Piece> = self.plain.iter().map(plain_piece).collect();
        let cluster = cluster(member)?;
        let seal = |bytes: &Bytes| Ok(sealed_piece(&member.key()?, &cluster, bytes));
        let secret = self.secret.iter().map(seal).collect::<Result<Vec<Piece>, Rejection>>()?;
        let ids = |pieces: &[Piece]| {
            pieces.iter().map(|piece| Bytes::copy_from_slice(&piece.id.0)).collect()
        };
        let answer = v1::PutContentsResponse { plain: ids(&plain), secret: ids(&secret) };
        if !self.dry_run {
            let pieces = plain.into_iter().chain(secret).collect();
            member.commit(by, "", ContentPut::new(pieces).into()).await?;
        }
        Ok(answer)
    }
}

fn check(request: &v1::PutContentsRequest) -> Result<(), Rejection> {
    let all = || request.plain.iter().chain(&request.secret);
    let (count, bytes) = (all().count(), all().map(Bytes::len).sum::<usize>());
    let largest = all().map(Bytes::len).max().unwrap_or_default();
    if largest > PIECE_BYTES_MAX || bytes > REQUEST_BYTES_MAX || count > REQUEST_PIECES_MAX {
        let message = format!("{count} pieces of {bytes} bytes are too much for one request");
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    Ok(())
}

pub(in crate::service) fn cluster(member: &Member) -> Result<ClusterId, Rejection> {
    let cluster = member.store.read(|state| state.meta.as_ref().map(|meta| meta.id.clone()));
    cluster.ok_or_else(|| Rejection::new(ErrorCode::ClusterUninitialized, "there is no cluster"))
}

pub(super) fn plain_piece(bytes: &Bytes) -> Piece {
    let mut id = [0; 32];
    id.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    Piece { id: ContentId(id), form: Form::Plain, bytes: PieceBytes(Arc::from(&**bytes)) }
}

pub(super) fn sealed_piece(key: &KeyEncryptionKey, cluster: &ClusterId, bytes: &Bytes) -> Piece {
    let (name, sealed) = sealed::seal_named(key, cluster, bytes);
    Piece { id: ContentId(name), form: Form::Sealed, bytes: PieceBytes(sealed.into()) }
}
