//! Credentials of image registries (R-CLI-6). A password comes in, is sealed on the leader, and is never
//! shown again.

use async_trait::async_trait;
use jaco_pki::sealed::{self, Purpose};
use jaco_proto::v1;
use jaco_state::registries::{PASSWORD_BYTES_MAX, RegistryLogin, SealedPassword};
use jaco_state::{ClusterState, Command};
use jaco_types::{Author, ErrorCode, RegistryName, RegistryUsername, Rejection};

use super::contents::cluster;
use crate::member::{Member, Write, name_if_unnamed};
use crate::status::invalid;

#[async_trait]
impl Write for v1::StoreRegistryRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/StoreRegistry";
    type Answer = v1::StoreRegistryResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::StoreRegistryResponse, Rejection> {
        let registry = RegistryName::parse(&self.registry).map_err(invalid)?;
        let username = RegistryUsername::new(&self.username).map_err(invalid)?;
        check_password(&registry, &self.password)?;
        let cluster = cluster(member)?;
        let key = &member.key_encryption_key;
        let purpose = Purpose::Registry { name: registry.as_str(), username: username.as_str() };
        let known = member.store.read(|state| state.registries.get(&registry).cloned());
        // Sealed twice, a password has other bytes each time: only here can it be seen to be the same.
        let holds = |login: &RegistryLogin| {
            sealed::holds(key, &cluster, purpose, &login.password.0, self.password.as_bytes())
        };
        let change = match &known {
            None => "created",
            Some(login) if holds(login) => "unchanged",
            Some(_) => "updated",
        };
        if change != "unchanged" && !self.dry_run {
            let sealed = sealed::seal(key, &cluster, purpose, self.password.as_bytes());
            let password = SealedPassword(sealed.into());
            let registry = registry.clone();
            let command = Command::RegistryStore { registry, username, password };
            member.commit(by, &self.request_id, command).await?;
        }
        let login = member.store.read(|state| state.registries.get(&registry).cloned());
        let registry = login.map(|login| info(&registry, &login));
        Ok(v1::StoreRegistryResponse { registry, change: change.to_owned() })
    }
}

#[async_trait]
impl Write for v1::RemoveRegistryRequest {
    const METHOD: &'static str = "/jaco.v1.Cluster/RemoveRegistry";
    type Answer = v1::RemoveRegistryResponse;

    fn name(&mut self, fresh: &dyn Fn() -> String) {
        name_if_unnamed(&mut self.request_id, fresh);
    }

    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveRegistryResponse, Rejection> {
        let registry = RegistryName::parse(&self.registry).map_err(invalid)?;
        let login = member.store.read(|state| state.registries.get(&registry).cloned());
        let command = Command::RegistryRemove { registry: registry.clone() };
        member.commit(by, &self.request_id, command).await?;
        let username = login.map(|login| login.username.to_string()).unwrap_or_default();
        Ok(v1::RemoveRegistryResponse { registry: registry.to_string(), username })
    }
}

/// Who the cluster is where.
pub(super) fn list(state: &ClusterState) -> Vec<v1::RegistryInfo> {
    state.registries.iter().map(|(name, login)| info(name, login)).collect()
}

fn info(name: &RegistryName, login: &RegistryLogin) -> v1::RegistryInfo {
    v1::RegistryInfo {
        registry: name.to_string(),
        username: login.username.to_string(),
        stored_at_ms: i64::try_from(login.stored_at.0).unwrap_or(i64::MAX),
        by: login.by.to_string(),
    }
}

fn check_password(registry: &RegistryName, password: &str) -> Result<(), Rejection> {
    if password.is_empty() {
        return Err(invalid(format!("the password for {registry} is empty")));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let message = format!(
            "the password for {registry} has {} bytes, and {PASSWORD_BYTES_MAX} are the most",
            password.len()
        );
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: a password that cannot be kept is refused by its size, and never repeated.
    #[test]
    fn a_password_has_bounds() {
        let registry = RegistryName::parse("ghcr.io").unwrap();
        let refused = |password: &str| check_password(&registry, password).unwrap_err();
        assert_eq!(refused("").message, "the password for ghcr.io is empty");
        let large = refused(&"x".repeat(PASSWORD_BYTES_MAX + 1));
        assert_eq!(large.code, ErrorCode::TooLarge);
        assert!(large.message.contains("16385 bytes, and 16384"), "{}", large.message);
        assert!(!large.message.contains("xx"));
        assert_eq!(check_password(&registry, &"x".repeat(PASSWORD_BYTES_MAX)), Ok(()));
    }
}
