//! Replaces an envelope in its place, if it is still the one that was read.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::backup::SealedCredentials;
use crate::contents::{Form, PieceBytes};
use crate::edge::SealedKey;
use crate::envelope::Place;
use crate::notify::SealedEndpoint;
use crate::registries::SealedPassword;
use crate::state::ClusterState;

/// Puts `envelope` in `place` if the SHA-256 of what is there is `replaces`. One that is larger stays out: it is not the
/// same content.
pub(super) fn replace(
    state: &mut ClusterState,
    place: &Place,
    replaces: &[u8; 32],
    envelope: &Arc<[u8]>,
) {
    let is_meant = |present: &[u8]| {
        present.len() == envelope.len() && Sha256::digest(present).as_slice() == replaces
    };
    let key = |present: &mut SealedKey| {
        if is_meant(&present.0) {
            *present = SealedKey(Arc::clone(envelope));
        }
    };
    match place {
        Place::NamingKey => state.sealing.naming_key.iter_mut().for_each(key),
        Place::AuthorityKey => {
            let signing = state.meta.iter_mut().map(|meta| &mut meta.sealed_ca_key);
            let rotated = state
                .rotation
                .iter_mut()
                .flat_map(|rotation| [&mut rotation.old.sealed_key, &mut rotation.new.sealed_key]);
            for present in signing.chain(rotated).filter(|present| is_meant(present)) {
                *present = envelope.to_vec();
            }
        }
        Place::Content(id) => {
            let is_sealed = |row: &&mut crate::Content| row.form == Form::Sealed;
            if let Some(row) = state.contents.get_mut(id).filter(is_sealed)
                && is_meant(&row.bytes.0)
            {
                row.bytes = PieceBytes(Arc::clone(envelope));
            }
        }
        Place::Registry(name) => {
            if let Some(login) = state.registries.get_mut(name)
                && is_meant(&login.password.0)
            {
                login.password = SealedPassword(Arc::clone(envelope));
            }
        }
        Place::NotifyTarget(name) => {
            if let Some(target) = state.notify.targets.get_mut(name)
                && is_meant(&target.endpoint.0)
            {
                target.endpoint = SealedEndpoint(Arc::clone(envelope));
            }
        }
        Place::BackupSchedule(name) => {
            if let Some(credentials) =
                state.backups.get_mut(name).and_then(|schedule| schedule.credentials.as_mut())
                && is_meant(&credentials.0)
            {
                *credentials = SealedCredentials(Arc::clone(envelope));
            }
        }
        Place::Certificate(name) => {
            state
                .edges
                .certificates
                .get_mut(name)
                .map(|row| &mut row.key)
                .into_iter()
                .for_each(key);
        }
        Place::AcmeAccount => {
            state.edges.acme.account.iter_mut().map(|row| &mut row.key).for_each(key);
        }
        Place::Issued(domain) => {
            state
                .edges
                .acme
                .issued
                .get_mut(domain)
                .map(|row| &mut row.key)
                .into_iter()
                .for_each(key);
        }
    }
}
