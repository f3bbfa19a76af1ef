//! Services that go with others: whether those are there, whether the wish can be met at all, and what
//! follows from it for both (R-CONS-6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jaco_types::ServiceName;
use jaco_types::spec::{Placement, ServiceSpec, Storage};

type Services = BTreeMap<ServiceName, Arc<ServiceSpec>>;

/// What cannot be meant: names of nobody, and circles.
pub(super) fn problems(services: &Services) -> Vec<String> {
    let unknown = services.values().flat_map(|spec| {
        let others = companions(spec).filter(|other| !services.contains_key(*other));
        others.map(|other| unknown(&spec.name, other, services))
    });
    let circles = services.keys().filter(|name| is_in_circle(services, name));
    let circles: Vec<&str> = circles.map(|name| name.as_str()).collect();
    let circle = (!circles.is_empty())
        .then(|| format!("services {} go with each other in a circle", circles.join(", ")));
    unknown.chain(circle).collect()
}

fn unknown(service: &ServiceName, other: &ServiceName, services: &Services) -> String {
    let known = services.keys().map(|name| name.as_str());
    let hint = jaco_compose::nearest(other.as_str(), known);
    let hint = hint.map(|near| format!(", perhaps {near} is meant")).unwrap_or_default();
    format!("service {service} goes with {other}, which is no service of the deployment{hint}")
}

fn companions(spec: &ServiceSpec) -> impl Iterator<Item = &ServiceName> {
    spec.scheduling.beside.iter().chain(&spec.scheduling.place_with)
}

fn is_in_circle(services: &Services, start: &ServiceName) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&ServiceName> = vec![start];
    while let Some(at) = open.pop() {
        for next in services.get(at).into_iter().flat_map(|spec| companions(spec)) {
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

/// Data binds all who share a namespace: where it stays, they stay.
pub(super) fn bind(services: &mut Services) {
    loop {
        let is_bound = |spec: &ServiceSpec| {
            spec.storage == Storage::Stateful && spec.placement != Placement::Global
        };
        let with_data = services.values().filter(|spec| is_bound(spec));
        let bound: BTreeSet<ServiceName> =
            with_data.flat_map(|spec| spec.scheduling.beside.iter().cloned()).collect();
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
