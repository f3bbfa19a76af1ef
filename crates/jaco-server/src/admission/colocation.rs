//! Colocation: whether the other services exist, whether there are cycles, and what shared data implies (R-CONS-6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::ServiceName;
use jaco_types::spec::{Placement, ServiceSpec, Storage};

type Services = BTreeMap<ServiceName, Arc<ServiceSpec>>;

/// Unknown services and cycles.
pub(super) fn problems(services: &Services) -> Vec<String> {
    let unknown = services.values().flat_map(|spec| {
        let others = colocated_with(spec).filter(|other| !services.contains_key(*other));
        others.map(|other| unknown(&spec.name, other, services))
    });
    let cycle = services.keys().filter(|name| is_in_cycle(services, name));
    let cycle: Vec<&str> = cycle.map(|name| name.as_str()).collect();
    let cycle = (!cycle.is_empty()).then(|| {
        format!(
            "services {} are colocated with each other in a cycle: remove one of the references",
            cycle.join(", ")
        )
    });
    unknown.chain(cycle).collect()
}

fn unknown(service: &ServiceName, other: &ServiceName, services: &Services) -> String {
    let known = services.keys().map(|name| name.as_str());
    let hint = jaco_compose::nearest(other.as_str(), known);
    let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    format!(
        "service {service} is colocated with {other}, which is no service of the deployment{hint}"
    )
}

fn colocated_with(spec: &ServiceSpec) -> impl Iterator<Item = &ServiceName> {
    spec.scheduling.shares_namespaces_with.iter().chain(&spec.scheduling.place_with)
}

fn is_in_cycle(services: &Services, start: &ServiceName) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&ServiceName> = vec![start];
    while let Some(at) = open.pop() {
        for next in services.get(at).into_iter().flat_map(|spec| colocated_with(spec)) {
            if next == start {
                return true;
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

/// A service that shares namespaces with one that has data must stay on its node as well: it counts as stateful.
pub(super) fn bind(services: &mut Services) {
    loop {
        let has_data = |spec: &ServiceSpec| {
            spec.storage == Storage::Stateful && spec.placement != Placement::Global
        };
        let stateful = services.values().filter(|spec| has_data(spec));
        let bound: BTreeSet<ServiceName> = stateful
            .flat_map(|spec| spec.scheduling.shares_namespaces_with.iter().cloned())
            .collect();
        let free = services
            .values_mut()
            .filter(|spec| bound.contains(&spec.name) && spec.storage == Storage::Stateless);
        let mut is_done = true;
        for spec in free {
            Arc::make_mut(spec).storage = Storage::Stateful;
            is_done = false;
        }
        if is_done {
            return;
        }
    }
}
