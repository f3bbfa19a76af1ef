//! Contents of files on their way into the cluster. Secrets are sealed here, before anything of them
//! is written anywhere.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use jaco_proto::v1;
use jaco_state::command::ContentPut;
use jaco_state::contents::{Form, PIECE_BYTES_MAX, Piece, PieceBytes};
use jaco_types::{Author, ContentId, ErrorCode, Rejection};
use ring::digest;

use crate::admission::content_id;
use crate::forward::Write;
use crate::member::Member;
use crate::sealer::Sealer;

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
        // What has no secrets needs no key.
        let sealer = match self.secret.is_empty() {
            true => None,
            false => Some(member.sealer().await?),
        };
        let seal = |bytes: &Bytes| sealer.as_ref().map(|sealer| sealed_piece(sealer, bytes));
        let secret: Vec<Piece> = self.secret.iter().filter_map(seal).collect();
        let ids = |pieces: &[Piece]| {
            pieces.iter().map(|piece| Bytes::copy_from_slice(&piece.id.0)).collect()
        };
        let answer = v1::PutContentsResponse { plain: ids(&plain), secret: ids(&secret) };
        if !self.dry_run {
            let pieces = plain.into_iter().chain(secret).collect();
            member.commit(by, "", ContentPut::new(pieces).into()).await?;
        }
        drop(sealer);
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

pub(super) fn plain_piece(bytes: &Bytes) -> Piece {
    let mut id = [0; 32];
    id.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    Piece { id: ContentId(id), form: Form::Plain, bytes: PieceBytes(Arc::from(&**bytes)) }
}

pub(super) fn sealed_piece(sealer: &Sealer<'_>, bytes: &Bytes) -> Piece {
    let (id, sealed) = sealer.seal_piece(bytes);
    Piece { id, form: Form::Sealed, bytes: PieceBytes(sealed.into()) }
}
