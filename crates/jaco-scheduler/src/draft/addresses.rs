//! The free addresses of the networks, as a pass gives them away (PL-24). Which address an instance gets is
//! for `apply` to choose: here they are only counted.

use std::cell::RefCell;
use std::collections::BTreeMap;

use jaco_state::ClusterState;
use jaco_types::spec::ServiceSpec;
use jaco_types::{NetworkId, NetworkScope, Revision, ServiceKey};

use crate::input::PlanInput;

/// What is left of the networks. What a pass ends gives nothing back: its addresses go into quarantine.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// Of the networks that were asked for; counted once, because that looks at all their addresses.
    free: RefCell<BTreeMap<NetworkId, u32>>,
    /// The networks of a service at a revision; none where one of them is not there.
    networks: RefCell<BTreeMap<(ServiceKey, Revision), Known>>,
}

/// The networks of a service; absent where one of them is not there.
type Known = Option<Vec<NetworkId>>;

/// Why an instance cannot have its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NoAddress {
    /// The network that is full, or is not there; absent where only its name would be known.
    pub(crate) network: Option<NetworkId>,
}

impl Addresses {
    /// Whether an instance of this revision can have an address in each of its networks; if not, why.
    pub(crate) fn check(
        &self,
        input: PlanInput<'_>,
        service: &ServiceKey,
        revision: Revision,
        spec: &ServiceSpec,
    ) -> Result<(), NoAddress> {
        if spec.networks.is_empty() {
            return Ok(());
        }
        let Some(networks) = self.networks_of(input.state, service, revision) else {
            return Err(NoAddress { network: None });
        };
        match networks.into_iter().find(|id| self.free(input, *id) == 0) {
            Some(full) => Err(NoAddress { network: Some(full) }),
            None => Ok(()),
        }
    }

    /// Counts the addresses of an instance that is started.
    pub(crate) fn take(
        &self,
        input: PlanInput<'_>,
        service: &ServiceKey,
        revision: Revision,
        spec: &ServiceSpec,
    ) {
        if spec.networks.is_empty() {
            return;
        }
        for id in self.networks_of(input.state, service, revision).unwrap_or_default() {
            let left = self.free(input, id).saturating_sub(1);
            self.free.borrow_mut().insert(id, left);
        }
    }

    fn networks_of(&self, state: &ClusterState, service: &ServiceKey, revision: Revision) -> Known {
        let key = (service.clone(), revision);
        if let Some(known) = self.networks.borrow().get(&key) {
            return known.clone();
        }
        let networks = state.networks_of(service, revision);
        let ids: Known =
            networks.map(|networks| networks.into_iter().map(|network| network.id).collect());
        self.networks.borrow_mut().insert(key, ids.clone());
        ids
    }

    fn free(&self, input: PlanInput<'_>, id: NetworkId) -> u32 {
        if let Some(known) = self.free.borrow().get(&id) {
            return *known;
        }
        let networks = &input.state.networks;
        let free = networks.rows.get(&id).map_or(0, |network| networks.free(network, input.now));
        self.free.borrow_mut().insert(id, free);
        free
    }
}

impl NoAddress {
    /// What operators are told.
    pub(crate) fn facts(
        &self,
        state: &ClusterState,
        service: &ServiceKey,
        spec: &ServiceSpec,
    ) -> BTreeMap<String, String> {
        let row = self.network.and_then(|id| state.networks.rows.get(&id));
        let missing = || {
            let scopes = spec.networks.iter().map(|one| one.network.scope(&service.deployment));
            let mut missing = scopes.filter(|scope| state.networks.find(scope, None).is_none());
            missing.next()
        };
        let scope = row.map(|row| row.scope.clone()).or_else(missing);
        let mut facts = BTreeMap::new();
        let name = scope.as_ref().map(ToString::to_string).unwrap_or_default();
        let remedy = match (row, &scope) {
            (None, Some(NetworkScope::Shared(_))) => format!("jaco network create {name}"),
            (None, Some(NetworkScope::Deployment { .. }) | None) => "jaco apply".to_owned(),
            (Some(_), _) => format!("jaco network resize {name}"),
        };
        if let Some(row) = row {
            facts.insert("subnet".to_owned(), row.subnet.prefix().to_string());
        }
        facts.insert("network".to_owned(), name);
        facts.insert("remedy".to_owned(), remedy);
        facts
    }
}
