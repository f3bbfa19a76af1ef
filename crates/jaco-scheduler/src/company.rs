//! The services that a service goes with, and where they are: what `place-with`, `scale-with` and
//! shared namespaces ask of a node (R-CONS-6).
//!
//! A service that goes with others is looked at after them, in each phase. What it knows of them is
//! as of that moment; [`meet`] is called again wherever they may have moved since.

use std::collections::BTreeMap;
use std::rc::Rc;

use jaco_types::{ServiceKey, ServiceName, StateIndex};

use crate::draft::{ServiceDraft, SlotDraft};
use crate::eligibility::Ineligible;
use crate::node_table::NodeIx;

/// The services that a service goes with. Empty for almost all.
#[derive(Debug, Default)]
pub(crate) struct Company<'a>(Vec<Companion<'a>>);

/// One of them.
#[derive(Debug)]
struct Companion<'a> {
    service: &'a ServiceName,
    bond: Bond,
    on: BTreeMap<NodeIx, Presence>,
}

/// When a service is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bond {
    /// When a replica gets a node.
    WhenPlaced,
    /// As long as there is a replica.
    Always,
}

/// What a companion has on a node.
#[derive(Debug, Clone, Copy, Default)]
struct Presence {
    /// Current instances.
    current: u32,
    /// Those of them that run.
    running: u32,
    /// Instances that serve until their successor does, here or elsewhere.
    retiring: u32,
    /// The newest of those that run.
    newest: Option<StateIndex>,
}

/// Whether a replica has what it cannot do without where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InCompany {
    /// It has, or needs nothing.
    Yes,
    /// For now: what it needs is here and does not run, or hands over to a successor, here or
    /// elsewhere.
    Soon,
    /// What it needs was replaced and runs, and it still has hold of the old one.
    OfTheOld,
    /// What it needs is elsewhere or nowhere.
    No,
}

impl Company<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many replicas of the service a node can have, each with one of the others for itself; and
    /// how many of them now, because those run.
    pub(crate) fn pairs(&self, node: NodeIx) -> (u32, u32) {
        let bound = self.0.iter().filter(|companion| companion.bond == Bond::Always);
        let here = bound.map(|companion| companion.at(node));
        here.fold((u32::MAX, u32::MAX), |(all, now), here| {
            (all.min(here.current), now.min(here.running))
        })
    }

    /// The first of those that replicas come one for one with.
    pub(crate) fn partner(&self) -> Option<&ServiceName> {
        let mut bound = self.0.iter().filter(|companion| companion.bond == Bond::Always);
        bound.next().map(|companion| companion.service)
    }

    /// Whether a new replica would find all of them here.
    pub(crate) fn is_on(&self, node: NodeIx) -> bool {
        self.missing(node).next().is_none()
    }

    /// Those that a new replica would not find here, or not running.
    pub(crate) fn missing(&self, node: NodeIx) -> impl Iterator<Item = Ineligible> {
        let missing = self.0.iter().filter(move |companion| {
            let here = companion.at(node);
            match companion.bond {
                Bond::WhenPlaced => here.current == 0,
                Bond::Always => here.running == 0,
            }
        });
        missing.map(|companion| Ineligible::NotBeside { service: companion.service.clone() })
    }

    /// Whether a replica that has been here since `since` has what it needs; `None` is one that is new
    /// in this pass.
    fn judge(&self, node: NodeIx, since: Option<StateIndex>) -> InCompany {
        let mut verdict = InCompany::Yes;
        for companion in self.0.iter().filter(|companion| companion.bond == Bond::Always) {
            let here = companion.at(node);
            let next = match (here.current, here.retiring) {
                (0, 0) => InCompany::No,
                (_, retiring) if retiring > 0 || here.running == 0 => InCompany::Soon,
                _ if since.is_some_and(|since| here.newest > Some(since)) => InCompany::OfTheOld,
                _ => InCompany::Yes,
            };
            verdict = match (verdict, next) {
                (InCompany::No, _) | (_, InCompany::No) => InCompany::No,
                (InCompany::Soon, _) | (_, InCompany::Soon) => InCompany::Soon,
                (InCompany::OfTheOld, _) | (_, InCompany::OfTheOld) => InCompany::OfTheOld,
                (InCompany::Yes, InCompany::Yes) => InCompany::Yes,
            };
        }
        verdict
    }
}

impl Companion<'_> {
    fn at(&self, node: NodeIx) -> Presence {
        self.on.get(&node).copied().unwrap_or_default()
    }
}

/// The services in an order in which each comes after those that it goes with; else that of their
/// keys. A circle, which is not admitted, is broken somewhere.
pub(crate) fn in_order(services: &[ServiceDraft<'_>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(services.len());
    let mut is_done = vec![false; services.len()];
    // Those that wait for what they go with, the innermost last; each with what is still to be asked.
    let mut way: Vec<(usize, Vec<usize>)> = Vec::new();
    for first in 0..services.len() {
        let mut next = (!is_done[first]).then_some(first);
        loop {
            if let Some(at) = next {
                is_done[at] = true;
                way.push((at, companions(services, at)));
            }
            let Some((at, open)) = way.last_mut() else { break };
            next = open.pop().filter(|other| !is_done[*other]);
            if next.is_none() && open.is_empty() {
                order.push(*at);
                way.pop();
            }
        }
    }
    order
}

/// The places of the services that `services[at]` goes with.
fn companions(services: &[ServiceDraft<'_>], at: usize) -> Vec<usize> {
    let policy = &services[at].goal.spec.scheduling;
    let names = policy.beside.iter().chain(&policy.place_with);
    names.filter_map(|name| find(services, at, name)).collect()
}

fn find(services: &[ServiceDraft<'_>], at: usize, name: &ServiceName) -> Option<usize> {
    let wanted = (&services[at].key.deployment, name);
    let is = |other: &ServiceDraft<'_>| (&other.key.deployment, &other.key.service).cmp(&wanted);
    services.binary_search_by(is).ok()
}

/// Whether another service goes with `services[at]`.
pub(crate) fn is_followed(services: &[ServiceDraft<'_>], at: usize) -> bool {
    let ServiceKey { deployment, service } = &services[at].key;
    let first = services.partition_point(|other| other.key.deployment < *deployment);
    let own = services[first..].iter().take_while(|other| other.key.deployment == *deployment);
    own.map(|other| &other.goal.spec.scheduling)
        .any(|policy| policy.beside.contains(service) || policy.place_with.contains(service))
}

/// Notes where the services are that `services[at]` goes with, and what that means for its replicas.
pub(crate) fn meet(services: &mut [ServiceDraft<'_>], at: usize) {
    let policy = &services[at].goal.spec.scheduling;
    if policy.beside.is_empty() && policy.place_with.is_empty() {
        // A rollout that was aborted in this pass may have led away from a spec that named some.
        if !services[at].company.is_empty() {
            services[at].company = Rc::default();
            services[at].slots.iter_mut().for_each(|slot| slot.company = InCompany::Yes);
        }
        return;
    }
    let bonds = [(&policy.beside, Bond::Always), (&policy.place_with, Bond::WhenPlaced)];
    let named =
        bonds.into_iter().flat_map(|(names, bond)| names.iter().map(move |name| (name, bond)));
    let company =
        named.filter(|(name, _)| **name != services[at].key.service).map(|(name, bond)| {
            let other = find(services, at, name);
            let on = other.map(|other| presence(&services[other].slots)).unwrap_or_default();
            Companion { service: name, bond, on }
        });
    let company = Rc::new(Company(company.collect()));
    let service = &mut services[at];
    for slot in &mut service.slots {
        let judged = slot.current.at.map(|node| company.judge(node, slot.current.since));
        // Where its node has left, that says more.
        slot.company = judged.unwrap_or(InCompany::Yes);
    }
    service.company = company;
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
