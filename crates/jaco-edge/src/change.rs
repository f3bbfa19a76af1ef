//! What differs between two plans of an edge, so that one that has the first can be told the second at the price of
//! the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_dataplane::edge::{EdgePlan, EdgeService, Listener, ListenerKey, PlannedRoute};
use jaco_types::route::{IpRange, RouteDomain};
use jaco_types::{CertificateName, RouteKey, ServiceKey};

use crate::difference::{Difference, differences};
use crate::tls::{CertificatePem, Certificates};

/// What differs between two plans with their certificates; what it does not name stays. `None` in a table removes the
/// entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EdgeChange {
    /// Of [`EdgePlan::listeners`].
    pub listeners: BTreeMap<ListenerKey, Option<Listener>>,
    /// Of [`EdgePlan::routes`].
    pub routes: BTreeMap<RouteKey, Option<Arc<PlannedRoute>>>,
    /// Of [`EdgePlan::services`].
    pub services: BTreeMap<ServiceKey, Option<Arc<EdgeService>>>,
    /// Of [`EdgePlan::challenges`].
    pub challenges: BTreeMap<String, Option<String>>,
    /// The new [`EdgePlan::trusted_proxies`], if they change.
    pub trusted_proxies: Option<BTreeSet<IpRange>>,
    /// Of [`Certificates::by_name`].
    pub certificates_by_name: BTreeMap<CertificateName, Option<Arc<CertificatePem>>>,
    /// Of [`Certificates::by_domain`].
    pub certificates_by_domain: BTreeMap<RouteDomain, Option<Arc<CertificatePem>>>,
    /// Of [`Certificates::challenges`].
    pub certificates_of_challenges: BTreeMap<RouteDomain, Option<Arc<CertificatePem>>>,
}

impl EdgeChange {
    /// What leads from one plan with its certificates to another. What both share is not read.
    pub fn between(old: (&EdgePlan, &Certificates), new: (&EdgePlan, &Certificates)) -> Self {
        let ((old, old_pems), (new, new_pems)) = (old, new);
        let trusted = (old.trusted_proxies != new.trusted_proxies).then_some(&new.trusted_proxies);
        Self {
            listeners: changed(&old.listeners, &new.listeners),
            routes: changed_routes(old, new),
            services: changed(&old.services, &new.services),
            challenges: changed(&old.challenges, &new.challenges),
            trusted_proxies: trusted.cloned(),
            certificates_by_name: changed(&old_pems.by_name, &new_pems.by_name),
            certificates_by_domain: changed(&old_pems.by_domain, &new_pems.by_domain),
            certificates_of_challenges: changed(&old_pems.challenges, &new_pems.challenges),
        }
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Makes the second plan of the first one.
    pub fn apply(&self, plan: &mut EdgePlan, certificates: &mut Certificates) {
        change(&mut plan.listeners, &self.listeners);
        for (key, route) in &self.routes {
            match route {
                Some(route) => drop(plan.routes.insert_shared(key.clone(), Arc::clone(route))),
                None => drop(plan.routes.remove(key)),
            }
        }
        change(&mut plan.services, &self.services);
        change(&mut plan.challenges, &self.challenges);
        if let Some(trusted) = &self.trusted_proxies {
            plan.trusted_proxies.clone_from(trusted);
        }
        change(&mut certificates.by_name, &self.certificates_by_name);
        change(&mut certificates.by_domain, &self.certificates_by_domain);
        change(&mut certificates.challenges, &self.certificates_of_challenges);
    }
}

fn changed_routes(old: &EdgePlan, new: &EdgePlan) -> BTreeMap<RouteKey, Option<Arc<PlannedRoute>>> {
    let changed = new.routes.changed_since(&old.routes).into_iter();
    let changed = changed.filter(|row| row.old != row.new);
    changed.map(|row| (row.key.clone(), new.routes.get_shared(row.key))).collect()
}

fn changed<K: Ord + Clone, V: PartialEq + Clone>(
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
) -> BTreeMap<K, Option<V>> {
    let changes = differences(old, new).into_iter().map(|(key, difference)| {
        let value = match difference {
            Difference::Added(new) | Difference::Changed(_, new) => Some(new.clone()),
            Difference::Removed(_) => None,
        };
        (key.clone(), value)
    });
    changes.collect()
}

fn change<K: Ord + Clone, V: Clone>(table: &mut BTreeMap<K, V>, changes: &BTreeMap<K, Option<V>>) {
    for (key, value) in changes {
        match value {
            Some(value) => drop(table.insert(key.clone(), value.clone())),
            None => drop(table.remove(key)),
        }
    }
}
