//! Registries that want a login, and the cluster's logins there.

use std::sync::Arc;

use jaco_agent::engine::PullRequest;
use jaco_agent::{RegistryCredentials, Unseal, registry};
use jaco_state::command::RegistryStore;
use jaco_state::registries::{RegistryLogin, SealedPassword};
use jaco_types::{ContentId, RegistryName, RegistryUsername};

use super::World;
use crate::network::MachineIx;
use crate::sabotage::Sabotage;

/// The cluster's key: it seals nothing.
struct Unsealed;

impl Unseal for Unsealed {
    fn unseal(&self, _: &ContentId, sealed: &[u8]) -> Result<Vec<u8>, String> {
        Ok(sealed.to_vec())
    }

    fn unseal_password(&self, _: &RegistryName, login: &RegistryLogin) -> Result<String, String> {
        String::from_utf8(login.password.0.to_vec()).map_err(|error| error.to_string())
    }
}

/// The account of the cluster at every registry.
fn account() -> RegistryUsername {
    RegistryUsername::new("robot").expect("a valid name")
}

/// What stores a login.
pub(crate) fn login(registry: RegistryName, password: &str) -> RegistryStore {
    RegistryStore::new(registry, account(), SealedPassword(Arc::from(password.as_bytes())))
}

impl World {
    /// From now on the registry takes this password alone.
    pub(crate) fn want_password(&mut self, registry: &RegistryName, password: &str) {
        let wanted = RegistryCredentials::new(registry.clone(), account(), password.to_owned());
        for machine in self.machines.iter_mut() {
            machine.driver.host.require_credentials(wanted.clone());
        }
        self.wanted_logins.insert(registry.clone(), wanted);
    }

    /// As the agent does: with the login that the state of its node has when the pull begins.
    pub(super) fn pull(&mut self, ix: MachineIx, pull: PullRequest) {
        let machine = &mut self.machines[ix.0];
        let Some(daemon) = &machine.daemon else { return };
        let login = registry::for_image(&pull.image, &daemon.state.registries, &Unsealed);
        let login = login
            .expect("nothing is sealed")
            .filter(|_| self.sabotage != Some(Sabotage::ForgetLogins));
        machine.driver.pull(pull, login, self.now);
    }
}
