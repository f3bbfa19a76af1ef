//! Registry credentials for pulls. Looked up for each pull, so that the latest login counts; a
//! password is open only during the pull and never printed.

use std::collections::BTreeSet;

use jaco_state::Table;
use jaco_state::registries::RegistryLogin;
use jaco_types::RegistryName;

use crate::engine::{PullError, RegistryCredentials};
use crate::files::Unseal;

/// The credentials for an image; `None` if the cluster has no login for its registry.
///
/// # Errors
/// If a login exists but cannot be opened: an anonymous pull would be refused for a misleading
/// reason.
pub fn for_image(
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

/// Registries whose login changed.
#[must_use]
pub fn changed(
    before: &Table<RegistryName, RegistryLogin>,
    now: &Table<RegistryName, RegistryLogin>,
) -> BTreeSet<RegistryName> {
    let all = before.keys().chain(now.keys());
    all.filter(|name| before.get(name) != now.get(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use jaco_state::registries::SealedPassword;
    use jaco_types::{ContentId, Identity, RegistryUsername, Timestamp};

    use super::*;

    /// Opens a password stored in reverse.
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

    /// R-CLI-6: a pull uses the credentials of the image's registry, and fails with the registry's
    /// name if they cannot be opened; no output contains the password.
    #[test]
    fn pull_uses_the_credentials_of_the_registry() {
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

    /// R-CLI-6: new, replaced and removed logins are changes.
    #[test]
    fn changed_registries_are_listed() {
        let table = |rows: &[(&str, &[u8])]| -> Table<_, _> {
            rows.iter().map(|(registry, sealed)| (name(registry), login(sealed))).collect()
        };
        let before = table(&[("a.io", b"1"), ("b.io", b"1"), ("c.io", b"1")]);
        let now = table(&[("a.io", b"1"), ("b.io", b"2"), ("d.io", b"1")]);
        assert_eq!(changed(&before, &now), ["b.io", "c.io", "d.io"].map(name).into());
        assert_eq!(changed(&now, &now), BTreeSet::new());
    }
}
