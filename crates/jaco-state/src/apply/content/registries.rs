//! Credentials of image registries (R-CLI-6). Must never reveal anything of a password.

use jaco_types::{ErrorCode, RegistryName, RegistryUsername, Rejection};

use crate::apply::audit::Audit;
use crate::audit::AuditKind;
use crate::command::{Entry, Outcome, RegistryRemove, RegistryStore};
use crate::registries::{PASSWORD_BYTES_MAX, REGISTRIES_MAX, RegistryLogin};
use crate::state::ClusterState;

/// Stores credentials, or replaces them.
pub(in crate::apply) fn store(
    state: &mut ClusterState,
    entry: &Entry,
    command: &RegistryStore,
    audit: &mut Audit<'_>,
) -> Outcome {
    let RegistryStore { registry, username, password } = command;
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

/// Deletes credentials. Without any there is nothing to do.
pub(in crate::apply) fn remove(
    state: &mut ClusterState,
    command: &RegistryRemove,
    audit: &mut Audit<'_>,
) -> Outcome {
    let RegistryRemove { registry } = command;
    if let Some(login) = state.registries.remove(registry) {
        audit.event(AuditKind::RegistryRemoved, facts(registry, &login.username));
    }
    Outcome::Done
}

fn facts(registry: &RegistryName, username: &RegistryUsername) -> [(&'static str, String); 2] {
    [("registry", registry.to_string()), ("username", username.to_string())]
}
