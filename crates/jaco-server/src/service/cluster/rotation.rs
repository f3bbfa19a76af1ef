//! The rotation of the cluster's authority: the leader makes the new pair of keys, and seals it before it is proposed.

use async_trait::async_trait;
use jaco_pki::{CertificateAuthority, Fingerprint, TrustBundle, ca};
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::{
    AuthorityAbandon, AuthorityContinue, AuthorityRotate, Command, OpenJoinTokens,
};
use jaco_state::rotation::{AuthorityRotation, RotatedAuthority, RotationPhase, RotationStep};
use jaco_store::Store;
use jaco_types::{Author, ErrorCode, Node, Rejection, StateIndex};

use crate::auth::cluster_key::cluster_meta;
use crate::forward::Write;
use crate::member::Member;
use crate::sealer::Sealer;
use crate::service::upgraded;
use crate::status::{from_propose_error, invalid};
use crate::view;

#[async_trait]
impl Write for v1::RotateAuthorityRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RotateAuthorityResponse, Rejection> {
        // What the command names may have been begun a moment ago, through another leader.
        member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
        // Until it is written, nothing else may be needed to open what it brings.
        let mut sealer = None;
        let command = match self.action.as_str() {
            "begin" => {
                member.store.read(|state| check_kek(state, &self.kek))?;
                begin(member, sealer.insert(member.sealer().await?))?
            }
            "continue" => {
                let join_tokens = match self.revoke_join_tokens {
                    true => OpenJoinTokens::Revoke,
                    false => OpenJoinTokens::Wait,
                };
                AuthorityContinue::new(current(member)).join_tokens(join_tokens).into()
            }
            "abandon" => AuthorityAbandon::new(current(member)).into(),
            _ => return Err(invalid("the action is begin, continue or abandon")),
        };
        member.commit(by, &self.request_id, command).await?;
        drop(sealer);
        Ok(v1::RotateAuthorityResponse { rotation: member.store.read(info) })
    }
}

/// Whether the new authority's key may be sealed by the key that there is. Where that one is stolen, the new authority
/// would be, too: so it is replaced first, or who asks says that it was not stolen.
///
/// # Errors
/// `rotation_held` where it was not replaced since the present authority was made.
fn check_kek(state: &ClusterState, asked: &str) -> Result<(), Rejection> {
    match asked {
        "present" => return Ok(()),
        "" | "rotated" => {}
        _ => return Err(invalid("the key-encryption key is rotated or present")),
    }
    let made = state.rotation.as_ref().filter(|last| last.phase == RotationPhase::Settled);
    let made = made.map(|last| last.id).unwrap_or_default();
    let replaced = state.sealing.rotation.as_ref().filter(|last| last.seals() == last.new);
    match replaced {
        Some(last) if last.id > made => Ok(()),
        Some(_) | None => Err(Rejection::new(
            ErrorCode::RotationHeld,
            "the key of the new authority would be sealed by the key-encryption key that sealed the present one: after a \
             theft, replace that first (jaco cluster rotate-kek); if nothing was stolen, add --with-present-kek",
        )),
    }
}

/// The command that brings a new authority.
fn begin(member: &Member, sealer: &Sealer<'_>) -> Result<Command, Rejection> {
    member.store.read(upgraded::rotation_may_begin)?;
    let internal = |error: &dyn std::fmt::Display| {
        Rejection::new(ErrorCode::Internal, format!("the new authority cannot be made: {error}"))
    };
    let pem =
        member.store.read(|state| cluster_meta(state).map(|meta| meta.ca_certificate.clone()))?;
    let trust = TrustBundle::from_pem(&pem).map_err(|error| internal(&error))?;
    let present = trust.authorities().first().ok_or_else(|| internal(&"none is trusted"))?;
    let new = CertificateAuthority::create(present.cluster(), member.clock.now())
        .map_err(|error| internal(&error))?;
    let certificate = new.certificate();
    let authority = RotatedAuthority {
        certificate: ca::certificate_pem(certificate.der()),
        fingerprint: *certificate.fingerprint().as_bytes(),
        sealed_key: new.seal_key(sealer.key()),
    };
    Ok(AuthorityRotate::new(*present.fingerprint().as_bytes(), authority).into())
}

/// The rotation that a command is about; none has this index if there was none, and the command is refused.
fn current(member: &Member) -> StateIndex {
    let id = member.store.read(|state| state.rotation.as_ref().map(|rotation| rotation.id));
    id.unwrap_or_default()
}

/// The last rotation, if there was one.
pub(super) fn info(state: &ClusterState) -> Option<v1::RotationInfo> {
    let rotation = state.rotation.as_ref()?;
    let AuthorityRotation { id, begun_at, phase, since, old, new, reports } = rotation;
    let step = |node| reports.get(node).map(|step| step.as_str().to_owned()).unwrap_or_default();
    let members = state.nodes.values().map(|node| v1::RotationMember {
        hostname: node.hostname.to_string(),
        step: step(&node.id),
    });
    let holders = rotation.holders(&state.nodes);
    Some(v1::RotationInfo {
        id: id.0,
        phase: phase.as_str().to_owned(),
        begun_at_ms: view::millis(*begun_at),
        since_ms: view::millis(*since),
        old_fingerprint: Fingerprint::from_bytes(old.fingerprint).to_string(),
        new_fingerprint: Fingerprint::from_bytes(new.fingerprint).to_string(),
        members: members.collect(),
        holders: holders.iter().map(|node| node.hostname.to_string()).collect(),
    })
}

/// The addresses of the members that a node can join through: a token names the authority that signs, and a joining node
/// believes nobody whose certificate is of another one.
pub(super) fn joinable(state: &ClusterState) -> Result<Vec<String>, Rejection> {
    let rotation = state.rotation.as_ref();
    let renewing = rotation.filter(|rotation| rotation.phase == RotationPhase::Renewing);
    let shows_it = |node: &&Node| {
        renewing.is_none_or(|now| now.reports.get(&node.id) >= Some(&RotationStep::Renewed))
    };
    let servers: Vec<_> =
        state.nodes.values().filter(shows_it).map(|node| node.address.clone()).collect();
    if servers.is_empty() {
        let message =
            "no member has a certificate of the new authority yet: try again in a few seconds";
        return Err(Rejection::new(ErrorCode::RotationHeld, message));
    }
    Ok(servers)
}

/// The last rotation, and what is trusted.
pub(super) fn authority(state: &ClusterState) -> Result<v1::GetAuthorityResponse, Rejection> {
    let ca_certificate_pem = cluster_meta(state)?.ca_certificate.clone();
    Ok(v1::GetAuthorityResponse { rotation: info(state), ca_certificate_pem })
}
