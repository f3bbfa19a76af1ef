//! The steps of a change, at the price of the change.

use std::collections::BTreeMap;

use crate::change::PlanChange;
use crate::diff::{Step, diff};
use crate::names::{Names, NamesChange, change_all};
use crate::seen::{Found, Seen};
use crate::site::{Peer, Policy, Port, Scope, SitePlan};

/// The steps from `seen`, which is what the plan before the change leads to, to the plan that the change leads to:
/// those of [`diff`], in its order. `None` where the change or what is seen concerns all of the plan, so that only
/// [`diff`] can tell.
pub fn steps(change: &PlanChange, seen: &Seen) -> Option<Vec<Step>> {
    let policy = seen.policy.as_ref().filter(|_| change.mesh.is_none())?;
    let tunnel = match seen.tunnel {
        Some(Found::Sound(tunnel)) => Some(tunnel),
        None => None,
        Some(Found::Broken) => return None,
    };
    if change.tunnel.is_some() {
        return None;
    }
    // What the change names, before and after it: of all else nothing changes.
    let unchanged = || Policy { mesh: policy.mesh, ..Policy::default() };
    let mut before = Seen {
        policy: Some(Policy { served: of_table(&change.served, &policy.served), ..unchanged() }),
        tunnel: seen.tunnel,
        names: of_names(&change.names, &seen.names),
        ..Seen::default()
    };
    let mut after = SitePlan {
        policy: Policy { served: of_table(&change.served, &policy.served), ..unchanged() },
        tunnel,
        names: before.names.clone(),
        ..SitePlan::default()
    };
    ports(change, seen, &mut before, &mut after);
    peers(change, seen, &mut before, &mut after);
    let routes = change.routes.keys().filter(|address| seen.routes.contains(address));
    before.routes = routes.copied().collect();
    change_all(&mut after.routes, &change.routes);
    change_all(&mut after.policy.served, &change.served);
    after.names.change(&change.names);
    if let Some(listeners) = &change.listeners {
        before.listeners.clone_from(&seen.listeners);
        after.listeners.clone_from(listeners);
    }
    Some(diff(&after, &before))
}

fn ports(change: &PlanChange, seen: &Seen, before: &mut Seen, after: &mut SitePlan) {
    let scopes = seen.policy.iter().flat_map(|policy| &policy.scopes);
    let scopes: BTreeMap<_, _> = scopes.filter(|(id, _)| change.ports.contains_key(id)).collect();
    for (id, port) in &change.ports {
        let interface = Port::interface_of(*id);
        if let Some(found) = seen.ports.get(&interface) {
            before.ports.insert(interface, found.clone());
        }
        if let (Some(policy), Some(scope)) = (&mut before.policy, scopes.get(id)) {
            policy.scopes.insert(*id, (*scope).clone());
        }
        if let Some(port) = port {
            after.policy.scopes.insert(*id, Scope::of(port));
            after.ports.insert(*id, port.clone());
        }
    }
}

fn peers(change: &PlanChange, seen: &Seen, before: &mut Seen, after: &mut SitePlan) {
    for (key, change) in &change.peers {
        let known = seen.peers.get(key);
        let (endpoint, lost) = match (known, change) {
            (Some(peer), Some(change)) => (peer.endpoint, change.lost.clone()),
            (Some(peer), None) => (peer.endpoint, peer.addresses.clone()),
            (None, _) => Default::default(),
        };
        if known.is_some() {
            before.peers.insert(*key, Peer { endpoint, addresses: lost });
        }
        if let Some(change) = change {
            let addresses = change.gained.clone();
            after.peers.insert(*key, Peer { endpoint: change.endpoint, addresses });
        }
    }
}

/// What is known now of what changes.
fn of_names(change: &NamesChange, names: &Names) -> Names {
    Names {
        known: of_table(&change.known, &names.known),
        owners: of_table(&change.owners, &names.owners),
        askers: of_table(&change.askers, &names.askers),
        pool: names.pool,
    }
}

fn of_table<K: Ord + Clone, V: Clone>(
    change: &BTreeMap<K, Option<V>>,
    table: &BTreeMap<K, V>,
) -> BTreeMap<K, V> {
    let known = change.keys().filter_map(|key| table.get_key_value(key));
    known.map(|(key, value)| (key.clone(), value.clone())).collect()
}
