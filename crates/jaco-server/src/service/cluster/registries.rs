//! Credentials for image registries (R-CLI-6). A password is sealed on the leader and never returned.

use async_trait::async_trait;
use jaco_pki::sealed::Purpose;
use jaco_proto::v1;
use jaco_state::ClusterState;
use jaco_state::command::{RegistryRemove, RegistryStore};
use jaco_state::registries::{PASSWORD_BYTES_MAX, RegistryLogin, SealedPassword};
use jaco_types::{Author, ErrorCode, RegistryName, RegistryUsername, Rejection};

use crate::forward::Write;
use crate::member::Member;
use crate::status::invalid;

#[async_trait]
impl Write for v1::StoreRegistryRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::StoreRegistryResponse, Rejection> {
        let registry = RegistryName::parse(&self.registry).map_err(invalid)?;
        let username = RegistryUsername::new(&self.username).map_err(invalid)?;
        check_password(&registry, &self.password)?;
        let sealer = member.sealer().await?;
        let purpose = Purpose::Registry { name: registry.as_str(), username: username.as_str() };
        let known = member.store.read(|state| state.registries.get(&registry).cloned());
        let holds = |login: &RegistryLogin| {
            sealer.holds(purpose, &login.password.0, self.password.as_bytes())
        };
        let change = match &known {
            None => "created",
            Some(login) if holds(login) => "unchanged",
            Some(_) => "updated",
        };
        if change != "unchanged" && !self.dry_run {
            let sealed = sealer.seal(purpose, self.password.as_bytes());
            let password = SealedPassword(sealed.into());
            let registry = registry.clone();
            let command = RegistryStore::new(registry, username, password).into();
            member.commit(by, &self.request_id, command).await?;
        }
        drop(sealer);
        let login = member.store.read(|state| state.registries.get(&registry).cloned());
        let registry = login.map(|login| info(&registry, &login));
        Ok(v1::StoreRegistryResponse { registry, change: change.to_owned() })
    }
}

#[async_trait]
impl Write for v1::RemoveRegistryRequest {
    async fn execute(
        self,
        member: &Member,
        by: Author,
    ) -> Result<v1::RemoveRegistryResponse, Rejection> {
        let registry = RegistryName::parse(&self.registry).map_err(invalid)?;
        let login = member.store.read(|state| state.registries.get(&registry).cloned());
        let command = RegistryRemove::new(registry.clone()).into();
        member.commit(by, &self.request_id, command).await?;
        let username = login.map(|login| login.username.to_string()).unwrap_or_default();
        Ok(v1::RemoveRegistryResponse { registry: registry.to_string(), username })
    }
}

/// The registries with stored credentials.
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
        return Err(invalid(format!(
            "the password for {registry} is empty: enter it, or pipe it with --password-stdin"
        )));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let message = format!(
            "the password for {registry} has {} bytes, more than the maximum of {PASSWORD_BYTES_MAX}",
            password.len()
        );
        return Err(Rejection::new(ErrorCode::TooLarge, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-CLI-6: an empty or too large password is refused, and its text is not repeated.
    #[test]
    fn the_size_of_a_password_is_bounded() {
        let registry = RegistryName::parse("ghcr.io").unwrap();
        let refused = |password: &str| check_password(&registry, password).unwrap_err();
        assert!(refused("").message.starts_with("the password for ghcr.io is empty"));
        let large = refused(&"x".repeat(PASSWORD_BYTES_MAX + 1));
        assert_eq!(large.code, ErrorCode::TooLarge);
        assert!(
            large.message.contains("16385 bytes, more than the maximum of 16384"),
            "{}",
            large.message
        );
        assert!(!large.message.contains("xx"));
        assert_eq!(check_password(&registry, &"x".repeat(PASSWORD_BYTES_MAX)), Ok(()));
    }
}
