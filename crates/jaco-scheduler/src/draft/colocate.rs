//! Reads from the draft where the partners of a service are, again whenever one of them was edited.

use std::collections::BTreeMap;

use jaco_types::ServiceName;

use super::service::ServiceDraft;
use super::slot::SlotDraft;
use crate::eligibility::{Bond, ColocationView, Partner, Presence};
use crate::nodes::NodeIx;

/// Brings the colocation of `services[at]` up to date with its partners and its own goal.
pub(super) fn refresh(services: &mut [ServiceDraft<'_>], at: usize) {
    let goal = services[at].goal();
    let policy = &goal.spec.scheduling;
    if policy.shares_namespaces_with.is_empty() && policy.place_with.is_empty() {
        // An aborted rollout may have led away from a spec that named some.
        if !services[at].colocation.is_empty() {
            services[at].set_colocation(ColocationView::default(), Vec::new());
        }
        return;
    }
    let bonds =
        [(&policy.shares_namespaces_with, Bond::Always), (&policy.place_with, Bond::WhenPlaced)];
    let named =
        bonds.into_iter().flat_map(|(names, bond)| names.iter().map(move |name| (name, bond)));
    let named: Vec<_> = named.filter(|(name, _)| **name != services[at].key.service).collect();
    let places = named.iter().filter_map(|(name, _)| find(services, at, name));
    let own = (at, services[at].goals());
    let versions = places.map(|other| (other, services[other].slots.version()));
    let read_from: Vec<_> = [own].into_iter().chain(versions).collect();
    if services[at].read_from == read_from {
        return;
    }
    let partners = named.into_iter().map(|(service, bond)| {
        let other = find(services, at, service);
        let on = other.map(|other| presence(&services[other].slots)).unwrap_or_default();
        Partner { service, bond, on }
    });
    let view = ColocationView::new(partners.collect());
    services[at].set_colocation(view, read_from);
}

/// The services in an order in which each comes after those that it is colocated with; else that of
/// their keys. A circle, which is not admitted, is broken somewhere.
pub(super) fn order(services: &[ServiceDraft<'_>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(services.len());
    let mut is_done = vec![false; services.len()];
    // A path through the partners, the innermost last; each with the partners still to be visited.
    let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
    for first in 0..services.len() {
        let mut next = (!is_done[first]).then_some(first);
        loop {
            if let Some(at) = next {
                is_done[at] = true;
                path.push((at, partners(services, at)));
            }
            let Some((at, open)) = path.last_mut() else { break };
            next = open.pop().filter(|other| !is_done[*other]);
            if next.is_none() && open.is_empty() {
                order.push(*at);
                path.pop();
            }
        }
    }
    order
}

/// The places of the services that `services[at]` is colocated with.
fn partners(services: &[ServiceDraft<'_>], at: usize) -> Vec<usize> {
    let policy = &services[at].goal().spec.scheduling;
    let names = policy.shares_namespaces_with.iter().chain(&policy.place_with);
    names.filter_map(|name| find(services, at, name)).collect()
}

/// The place of the service of this name in the deployment of `services[at]`.
pub(super) fn find(services: &[ServiceDraft<'_>], at: usize, name: &ServiceName) -> Option<usize> {
    let wanted = (&services[at].key.deployment, name);
    let is = |other: &ServiceDraft<'_>| (&other.key.deployment, &other.key.service).cmp(&wanted);
    services.binary_search_by(is).ok()
}

fn presence(slots: &[SlotDraft<'_>]) -> BTreeMap<NodeIx, Presence> {
    let mut on: BTreeMap<NodeIx, Presence> = BTreeMap::new();
    for slot in slots {
        if let Some(node) = slot.current.at {
            let here = on.entry(node).or_default();
            here.current += 1;
            if slot.current.is_running() {
                here.running += 1;
                here.newest = here.newest.max(slot.current.since);
            }
        }
        if let Some(node) = slot.retiring.as_ref().and_then(|retiring| retiring.at) {
            on.entry(node).or_default().retiring += 1;
        }
    }
    on
}
