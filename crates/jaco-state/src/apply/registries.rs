//! Credentials of image registries (R-CLI-6). Must never say anything of a password.

use jaco_types::{ErrorCode, RegistryName, RegistryUsername, Rejection};

use super::Audit;
use crate::audit::AuditKind;
use crate::command::{Entry, Outcome};
use crate::registries::{PASSWORD_BYTES_MAX, REGISTRIES_MAX, RegistryLogin, SealedPassword};
use crate::state::ClusterState;

/// Stores who the cluster is at a registry from now on.
pub(super) fn store(
    state: &mut ClusterState,
    entry: &Entry,
    registry: &RegistryName,
    (username, password): (&RegistryUsername, &SealedPassword),
    audit: &mut Audit<'_>,
) -> Outcome {
    if !password.fits() {
        let message = format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes");
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    let before = state.registries.get(registry);
    if before.is_none() && state.registries.len() >= REGISTRIES_MAX {
        let message = format!(
            "{REGISTRIES_MAX} registries have credentials, and these are the most: log out of one \
             that is not used any more"
        );
        return Outcome::Rejected(Rejection::new(ErrorCode::TooLarge, message));
    }
    if before.is_some_and(|login| login.username == *username && login.password == *password) {
        return Outcome::Done;
    }
    let login = RegistryLogin {
        username: username.clone(),
        password: password.clone(),
        stored_at: entry.at,
        by: entry.by.clone(),
    };
    state.registries.insert(registry.clone(), login);
    audit.event(AuditKind::RegistryStored, facts(registry, username));
    Outcome::Done
}

/// Forgets who the cluster is at a registry. Where it is nobody, there is nothing to do.
pub(super) fn remove(
    state: &mut ClusterState,
    registry: &RegistryName,
    audit: &mut Audit<'_>,
) -> Outcome {
    if let Some(login) = state.registries.remove(registry) {
        audit.event(AuditKind::RegistryRemoved, facts(registry, &login.username));
    }
    Outcome::Done
}

fn facts(registry: &RegistryName, username: &RegistryUsername) -> [(&'static str, String); 2] {
    [("registry", registry.to_string()), ("username", username.to_string())]
}
