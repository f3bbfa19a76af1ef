//! Hands a key of a rotation in progress to another member.

use jaco_proto::v1;
use jaco_types::{ErrorCode, KekId, Rejection};

use crate::member::Member;
use crate::status::invalid;

/// The key, if it is the one that the rotation brings and this node has it.
pub(super) fn fetch(
    member: &Member,
    request: &v1::FetchKekRequest,
) -> Result<v1::FetchKekResponse, Rejection> {
    let bytes: [u8; 8] =
        (*request.key).try_into().map_err(|_| invalid("the id of a key has 8 bytes"))?;
    let id = KekId(bytes);
    let is_named = member.store.read(|state| {
        let rotation = state.sealing.rotation.as_ref();
        rotation.is_some_and(|rotation| rotation.new == id)
    });
    let key = member.cluster_key.ring().get(id).filter(|_| is_named).ok_or_else(|| {
        let message =
            format!("{} does not have the key {id}, or no rotation brings it", member.hostname);
        Rejection::new(ErrorCode::Unavailable, message)
    })?;
    Ok(v1::FetchKekResponse { key_encryption_key: key.to_hex().to_string() })
}
