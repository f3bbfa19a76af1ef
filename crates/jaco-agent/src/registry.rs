//! Who this node is at the registry of an image. Looked up for each pull, so that what people said last
//! counts; a password is open here for as long as the pull takes, and never shown.

use std::collections::BTreeSet;
use std::fmt;

use jaco_state::Table;
use jaco_state::registries::RegistryLogin;
use jaco_types::{RegistryName, RegistryUsername};
use zeroize::Zeroizing;

use crate::engine::PullError;
use crate::files::Unseal;

/// A user of a registry, and the password.
#[derive(Clone, PartialEq, Eq)]
pub struct RegistryCredentials {
    /// The registry that they are for, and no other.
    pub registry: RegistryName,
    /// Who.
    pub username: RegistryUsername,
    password: Zeroizing<String>,
}

impl RegistryCredentials {
    /// The credentials of `username`. The password is wiped when they are dropped.
    #[must_use]
    pub fn new(registry: RegistryName, username: RegistryUsername, password: String) -> Self {
        Self { registry, username, password: Zeroizing::new(password) }
    }

    /// The password, for the engine and nobody else.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for RegistryCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RegistryCredentials");
        out.field("registry", &self.registry).field("username", &self.username);
        out.finish_non_exhaustive()
    }
}

/// The credentials for an image; none where the cluster has none for its registry.
///
/// # Errors
/// When they are there and do not open: an anonymous pull would be refused for a reason that misleads.
pub(crate) fn for_image(
    image: &str,
    registries: &Table<RegistryName, RegistryLogin>,
    unseal: &dyn Unseal,
) -> Result<Option<RegistryCredentials>, PullError> {
    let Some(registry) = RegistryName::of_image(image) else { return Ok(None) };
    let Some(login) = registries.get(&registry) else { return Ok(None) };
    let username = login.username.clone();
    match unseal.unseal_password(&registry, login) {
        Ok(password) => Ok(Some(RegistryCredentials::new(registry, username, password))),
        Err(reason) => {
            let reason = format!(
                "the credentials of {username} at {registry} cannot be opened: {reason}; store them \
                 anew with jaco registry login"
            );
            Err(PullError::Refused { reason })
        }
    }
}

/// The registries at which this node is somebody else than before.
pub(crate) fn changed(
    before: &Table<RegistryName, RegistryLogin>,
    now: &Table<RegistryName, RegistryLogin>,
) -> BTreeSet<RegistryName> {
    let all = before.keys().chain(now.keys());
    all.filter(|name| before.get(name) != now.get(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use jaco_state::registries::SealedPassword;
    use jaco_types::{ContentId, Identity, Timestamp};

    use super::*;

    /// Opens a password that was turned round.
    struct Mirror;

    impl Unseal for Mirror {
        fn unseal(&self, _: &ContentId, _: &[u8]) -> Result<Vec<u8>, String> {
            Err("nothing is sealed".to_owned())
        }

        fn unseal_password(
            &self,
            _: &RegistryName,
            login: &RegistryLogin,
        ) -> Result<String, String> {
            let turned = String::from_utf8(login.password.0.iter().rev().copied().collect());
            turned.map_err(|_| "sealed value was altered".to_owned())
        }
    }

    fn name(text: &str) -> RegistryName {
        RegistryName::new(text).unwrap()
    }

    fn login(sealed: &[u8]) -> RegistryLogin {
        RegistryLogin {
            username: RegistryUsername::new("robot").unwrap(),
            password: SealedPassword(sealed.into()),
            stored_at: Timestamp(7),
            by: Identity::Scheduler,
        }
    }

    /// R-CLI-6: an image gets the credentials of its own registry, and is refused by name where they do
    /// not open; nothing prints them.
    #[test]
    fn an_image_gets_the_credentials_of_its_registry() {
        let rows = [(name("ghcr.io"), login(b"2retnuh")), (name("quay.io"), login(&[0xff]))];
        let registries: Table<_, _> = rows.into_iter().collect();
        let of = |image: &str| for_image(image, &registries, &Mirror);
        let found = of("ghcr.io/team/web:1").unwrap().unwrap();
        assert_eq!((found.username.as_str(), found.password()), ("robot", "hunter2"));
        assert!(!format!("{found:?} {found:#?}").contains("hunter2"), "{found:?}");
        for nobody in ["nginx", "ghcr.io:443/team/web", "ghcr.io.example.com/team/web"] {
            assert_eq!(of(nobody), Ok(None), "{nobody}");
        }
        let Err(PullError::Refused { reason }) = of("quay.io/web") else { panic!("it opened") };
        assert!(
            reason.starts_with("the credentials of robot at quay.io cannot be opened"),
            "{reason}"
        );
        assert!(reason.ends_with("store them anew with jaco registry login"), "{reason}");
    }

    /// R-CLI-6: what is stored anew, for the first time or no more is a change; the rest is not.
    #[test]
    fn a_change_is_told_by_registry() {
        let table = |rows: &[(&str, &[u8])]| -> Table<_, _> {
            rows.iter().map(|(registry, sealed)| (name(registry), login(sealed))).collect()
        };
        let before = table(&[("a.io", b"1"), ("b.io", b"1"), ("c.io", b"1")]);
        let now = table(&[("a.io", b"1"), ("b.io", b"2"), ("d.io", b"1")]);
        assert_eq!(changed(&before, &now), ["b.io", "c.io", "d.io"].map(name).into());
        assert_eq!(changed(&now, &now), BTreeSet::new());
    }
}
