//! The rotation of the key-encryption key: the leader makes the new key, and has it on its disk before it is proposed. Only
//! its name is (ADR 0127).

use async_trait::async_trait;
use jaco_pki::KeyEncryptionKey;
use jaco_pki::sealed::{self, Purpose};
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::{KekAbandon, KekRotate};
use jaco_state::edge::SealedKey;
use jaco_state::kek::KekRotation;
use jaco_state::view::envelopes_of;
use jaco_store::Store;
use jaco_types::{Author, ErrorCode, KekId, Rejection};

use crate::auth::cluster_key::cluster_meta;
use crate::forward::Write;
use crate::member::Member;
use crate::service::upgraded;
use crate::status::{from_propose_error, invalid};
use crate::view;

#[async_trait]
impl Write for v1::RotateKekRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RotateKekResponse, Rejection> {
        // What the command names may have been begun a moment ago, through another leader.
        member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
        match self.action.as_str() {
            "begin" => begin(member, by, &self.request_id).await?,
            "abandon" => {
                let id = member.store.read(|state| rotation(state).map(|rotation| rotation.id));
                let command = KekAbandon::new(id.unwrap_or_default()).into();
                member.commit(by, &self.request_id, command).await?;
            }
            _ => return Err(invalid("the action is begin or abandon")),
        }
        Ok(v1::RotateKekResponse { rotation: member.store.read(info) })
    }
}

fn rotation(state: &ClusterState) -> Option<&KekRotation> {
    state.sealing.rotation.as_ref()
}

/// Makes a key, stores it, and proposes its name.
async fn begin(member: &Member, by: Author, request_id: &str) -> Result<(), Rejection> {
    member.store.read(upgraded::kek_rotation_may_begin)?;
    let keys = &member.cluster_key;
    let mut made = keys.changing().await;
    let (old, pending) = member.store.read(|state| -> Result<_, Rejection> {
        let is_pending = |rotation: &&KekRotation| !rotation.is_complete(&state.nodes);
        // A key that is being handed out, or not dropped everywhere, must not be overwritten. What is proposed then is refused, or was
        // done by the same request.
        let pending = rotation(state).filter(is_pending).map(|rotation| rotation.new);
        Ok((keys.of(state)?, pending))
    })?;
    let new = match (pending, *made) {
        (Some(pending), _) => pending,
        // Its entry may still be committed.
        (None, Some(unknown)) if keys.ring().ids().contains(&unknown) => unknown,
        (None, _) => {
            let new = KeyEncryptionKey::generate();
            keys.ring().store_next(&new).map_err(|error| {
                let message = format!("the new key cannot be stored: {error}");
                Rejection::new(ErrorCode::Internal, message)
            })?;
            *made = Some(new.id());
            new.id()
        }
    };
    let command = command(member, &old, new)?;
    let outcome = member.commit(by, request_id, command.into()).await;
    let is_known = outcome.as_ref().err().is_none_or(|refusal| is_refusal(refusal.code));
    if is_known {
        *made = None;
    }
    let is_named = |state: &ClusterState| rotation(state).is_some_and(|it| it.new == new);
    if outcome.is_err() && is_known && !member.store.read(is_named) {
        let forgotten = keys.ring().keep(old.id());
        forgotten.map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
    }
    outcome.map(drop)
}

/// Whether `apply` has refused it: nothing comes of it any more.
fn is_refusal(code: ErrorCode) -> bool {
    code == ErrorCode::RotationHeld
}

fn command(member: &Member, old: &KeyEncryptionKey, new: KekId) -> Result<KekRotate, Rejection> {
    member.store.read(|state| {
        let cluster = &cluster_meta(state)?.id;
        let naming_key = match state.sealing.naming_key {
            Some(_) => None,
            None => {
                let key = old.naming_key().to_bytes();
                Some(SealedKey(sealed::seal(old, cluster, Purpose::NamingKey, &*key).into()))
            }
        };
        Ok(KekRotate::new(old.id(), new, member.id, naming_key))
    })
}

/// The last rotation, if there was one.
pub(super) fn info(state: &ClusterState) -> Option<v1::KekRotationInfo> {
    let rotation = rotation(state)?;
    let KekRotation { id, begun_at, phase, entered: _, since, old, new, reports } = rotation;
    let step = |node| reports.get(node).map(|step| step.as_str().to_owned()).unwrap_or_default();
    let members = state.nodes.values().map(|node| v1::RotationMember {
        hostname: node.hostname.to_string(),
        step: step(&node.id),
    });
    let holders = rotation.holders(&state.nodes);
    let mut left = envelopes_of(state, *old).map(|(place, _)| place).peekable();
    // Before *resealing* it seals everything, as it should.
    let is_left = rotation.seals() == *new;
    let first_left = left.peek().filter(|_| is_left).map(ToString::to_string);
    Some(v1::KekRotationInfo {
        id: id.0,
        phase: phase.as_str().to_owned(),
        begun_at_ms: view::millis(*begun_at),
        since_ms: view::millis(*since),
        old_key: old.to_string(),
        new_key: new.to_string(),
        members: members.collect(),
        holders: holders.iter().map(|node| node.hostname.to_string()).collect(),
        left: left.filter(|_| is_left).count().try_into().unwrap_or(u64::MAX),
        first_left: first_left.unwrap_or_default(),
    })
}
