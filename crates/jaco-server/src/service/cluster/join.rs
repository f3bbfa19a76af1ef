//! Admits nodes that join.

use async_trait::async_trait;
use jaco_pki::{
    JoinToken, JoinTokenRecord, KeyEncryptionKey, NodeCsr, Revocation, SecretHash, TokenKind,
    admit_join, ca,
};
use jaco_proto::v1;
use jaco_state::command::{NewNode, NodeAdmit};
use jaco_state::{ClusterState, Outcome};
use jaco_store::Store;
use jaco_types::{Author, ErrorCode, Hostname, NodeFacts, Rejection, Timestamp};

use crate::auth::authority::open_authority;
use crate::auth::cluster_key::{ClusterKey, cluster_meta};
use crate::forward::Write;
use crate::member::Member;
use crate::status::{from_propose_error, invalid};

#[async_trait]
impl Write for v1::AdmitNodeRequest {
    async fn execute(
        self,
        member: &Member,
        nobody: Author,
    ) -> Result<v1::AdmitNodeResponse, Rejection> {
        let now = member.clock.now();
        let csr = NodeCsr::from_der(&self.csr_der)
            .map_err(|error| Rejection::new(ErrorCode::CsrInvalid, error.to_string()))?;
        let token: JoinToken = self.token.parse().map_err(|error| {
            let message = format!(
                "the join token is malformed ({error}): copy the whole token from `jaco token join`"
            );
            Rejection::new(ErrorCode::JoinTokenInvalid, message)
        })?;
        // The sender is not authenticated: refuse a wrong token from the local state, before a round of
        // consensus is spent on it.
        let fingerprint = *csr.key_fingerprint().as_bytes();
        member.store.read(|state| check_join_token(state, &token, fingerprint, now))?;
        // What decides must be as new as anything that was agreed on: a token used a moment ago
        // through another leader is used.
        member.store.catch_up().await.map_err(|error| from_propose_error(&error))?;
        member.store.read(|state| -> Result<_, Rejection> {
            check_join_token(state, &token, fingerprint, now)?;
            // What cannot be signed must not use the token up.
            open_authority(state, &member.cluster_key).map(drop)
        })?;
        let node = NewNode {
            hostname: Hostname::new(&self.hostname).map_err(invalid)?,
            address: checked_address(&self.address)?,
            key_fingerprint: fingerprint,
            facts: NodeFacts { version: self.version.clone(), ..NodeFacts::default() },
        };
        let command = NodeAdmit::new(node, token.id.clone()).into();
        let applied = member.commit(nobody, "", command).await?;
        let Outcome::NodeAdmitted { id } = applied.outcome else {
            return Err(Rejection::new(
                ErrorCode::Internal,
                "the committed admission has no node id",
            ));
        };
        // As of the admission: the authority and the key may have been rotated since the token was checked.
        let (authority, trust, keys) = member.store.read(|state| -> Result<_, Rejection> {
            let meta = cluster_meta(state)?;
            let authority = open_authority(state, &member.cluster_key)?;
            let keys = handed_out(state, &member.cluster_key)?;
            Ok((authority, (meta.id.to_string(), meta.ca_certificate.clone()), keys))
        })?;
        let certificate = authority
            .sign(&csr, id, ca::NODE_LIFE, now)
            .map_err(|error| Rejection::new(ErrorCode::Internal, error.to_string()))?;
        Ok(v1::AdmitNodeResponse {
            cluster_id: trust.0,
            node_id: id.0,
            certificate_pem: ca::certificate_pem(&certificate),
            ca_certificate_pem: trust.1,
            key_encryption_key: keys.0.to_hex().to_string(),
            next_key_encryption_key: keys.1.map(|key| key.to_hex().to_string()).unwrap_or_default(),
        })
    }
}

/// The key-encryption key for a node that joins, and, until a rotation of it settles, the one that replaces it: this node
/// may not have that one yet, and whoever joined fetches it then.
fn handed_out(
    state: &ClusterState,
    keys: &ClusterKey,
) -> Result<(KeyEncryptionKey, Option<KeyEncryptionKey>), Rejection> {
    let seals = keys.of(state)?;
    match state.sealing.rotation.as_ref().filter(|rotation| !rotation.phase.is_last()) {
        None => Ok((seals, None)),
        Some(rotation) => {
            let old = keys.ring().get(rotation.old).unwrap_or(seals);
            Ok((old, keys.ring().get(rotation.new)))
        }
    }
}

/// Whether this token admits this key. The key of a member needs no use of the token: the node lost the answer
/// and asks again.
fn check_join_token(
    state: &ClusterState,
    token: &JoinToken,
    fingerprint: [u8; 32],
    now: Timestamp,
) -> Result<(), Rejection> {
    let meta = cluster_meta(state)?;
    let known = state.nodes.values().any(|node| node.key_fingerprint == fingerprint);
    let record = state.join_tokens.get(&token.id).map(|record| JoinTokenRecord {
        id: record.id.clone(),
        secret: SecretHash::from_bytes(record.secret_hash),
        expires: record.expires_at,
        uses_left: record.uses_left.saturating_add(u32::from(known)),
        revocation: match record.revoked_at {
            Some(_) => Revocation::Revoked,
            None => Revocation::Live,
        },
    });
    admit_join(record.as_ref(), token, &meta.id, now).map_err(|refusal| {
        let message = format!("join token {}: {refusal}", token.id);
        Rejection::new(refusal.code(TokenKind::Join), message)
    })
}

/// `ip:port` or `name:port`, bounded.
fn checked_address(text: &str) -> Result<String, Rejection> {
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if text.len() > 300 || port.is_none_or(|port| port == 0) {
        return Err(invalid(format!("address {text:?} is not host:port")));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use jaco_pki::sealed::{Purpose, seal};
    use jaco_pki::{IdentityDir, KekRing};
    use jaco_state::ClusterMeta;
    use jaco_state::kek::{KekPhase, KekRotation};
    use jaco_types::{ClusterId, StateIndex};

    use super::*;

    fn kek(number: u8) -> KeyEncryptionKey {
        KeyEncryptionKey::from_bytes([number; 32])
    }

    fn state(phase: Option<KekPhase>) -> ClusterState {
        let id = ClusterId::new("00112233445566778899aabbccddeeff").unwrap();
        let meta = ClusterMeta {
            sealed_ca_key: seal(&kek(1), &id, Purpose::CaKey, b"key"),
            id,
            name: String::new(),
            ca_certificate: String::new(),
            created_at: Timestamp(0),
        };
        let mut state = ClusterState { meta: Some(meta), ..ClusterState::default() };
        state.sealing.rotation = phase.map(|phase| KekRotation {
            id: StateIndex(5),
            begun_at: Timestamp(0),
            phase,
            entered: StateIndex(5),
            since: Timestamp(0),
            old: kek(1).id(),
            new: kek(2).id(),
            reports: std::collections::BTreeMap::new(),
        });
        state
    }

    /// R-IN-5: who joins gets what it needs in the phase: both keys as long as something may be sealed with either.
    #[test]
    fn a_joiner_gets_the_keys_of_the_phase() {
        let folder = tempfile::tempdir().unwrap();
        let dir = IdentityDir::open(folder.path().join("node")).unwrap();
        dir.store_kek(&kek(1)).unwrap();
        let ring = KekRing::load(dir).unwrap().unwrap();
        let keys = ClusterKey::new(ring.clone(), Hostname::new("n1").unwrap());
        let ids = |phase| {
            let handed = handed_out(&state(phase), &keys);
            handed.map(|(key, next)| (key.id(), next.map(|next| next.id()))).map_err(|it| it.code)
        };
        let (old, new) = (kek(1).id(), kek(2).id());
        assert_eq!(ids(None), Ok((old, None)));
        assert_eq!(ids(Some(KekPhase::HandingOut)), Ok((old, None)), "it is fetched later");
        assert_eq!(ids(Some(KekPhase::Resealing)), Err(ErrorCode::KekMismatch));
        ring.store_next(&kek(2)).unwrap();
        assert_eq!(ids(Some(KekPhase::HandingOut)), Ok((old, Some(new))));
        assert_eq!(ids(Some(KekPhase::Resealing)), Ok((old, Some(new))));
        assert_eq!(ids(Some(KekPhase::Settled)), Ok((new, None)));
        assert_eq!(ids(Some(KekPhase::Abandoned)), Ok((old, None)));
    }
}
