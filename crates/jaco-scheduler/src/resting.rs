//! What people want to rest: its replicas stop and keep their places, follow their service's
//! definition without running it, and start where they were once nobody wants them to rest
//! (R-SEL-3, R-SEL-4).

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jaco_state::DisabledSet;
use jaco_state::command::ReplaceCause;
use jaco_types::spec::Storage;
use jaco_types::{AllocationScope, NodeId, Ordinal, ServiceKey, Standing};

use crate::company::{InCompany, in_order, is_followed, meet};
use crate::draft::{Draft, Handover, Live, Pass, ServiceDraft, SlotDraft, Successor};
use crate::eligibility::{Stay, is_open, where_it_is};
use crate::gpu::Held;
use crate::mend::is_own_kind;
use crate::node_table::{NodeIx, NodeTable};
use crate::placement::{Chooser, hosts};
use crate::rollout::Freed;

/// The nodes on which services rest, whichever replicas they have there.
pub(crate) struct Resting<'a> {
    /// Those on which every service does.
    all: Rc<BTreeSet<NodeIx>>,
    /// Those on which one does, where there are more.
    pairs: BTreeMap<&'a ServiceKey, Rc<BTreeSet<NodeIx>>>,
}

impl<'a> Resting<'a> {
    /// What these wishes mean for these nodes.
    pub(crate) fn read(wishes: &'a DisabledSet, nodes: &NodeTable<'_>) -> Self {
        let mut all = BTreeSet::new();
        let mut pairs: BTreeMap<&ServiceKey, BTreeSet<NodeIx>> = BTreeMap::new();
        for scope in wishes.scopes.keys() {
            match scope {
                AllocationScope::Node(node) => all.extend(nodes.find(*node)),
                AllocationScope::Pair { service, node } => {
                    pairs.entry(service).or_default().extend(nodes.find(*node));
                }
                AllocationScope::Service(_) | AllocationScope::Replica { .. } => {}
            }
        }
        let both = |own: BTreeSet<NodeIx>| Rc::new(own.union(&all).copied().collect());
        let pairs = pairs.into_iter().map(|(service, own)| (service, both(own))).collect();
        Self { all: Rc::new(all), pairs }
    }

    /// The nodes on which this service rests.
    pub(crate) fn of(&self, service: &ServiceKey) -> Rc<BTreeSet<NodeIx>> {
        Rc::clone(self.pairs.get(service).unwrap_or(&self.all))
    }
}

/// Whether people want a slot to rest where it is.
pub(crate) fn rests(slot: &SlotDraft<'_>, service: &ServiceKey, pass: &Pass<'_>) -> bool {
    rests_on(slot, service, slot.current.node, pass)
}

fn rests_on(slot: &SlotDraft<'_>, service: &ServiceKey, node: NodeId, pass: &Pass<'_>) -> bool {
    pass.input.state.disabled.of(service, Some(&slot.id), node).is_some()
}

impl ServiceDraft<'_> {
    /// Whether a replica that is new on a node runs there.
    pub(crate) fn standing_of_new(&self, pass: &Pass<'_>, at: NodeIx) -> Standing {
        let node = pass.nodes.row(at).id;
        match pass.input.state.disabled.of(&self.key, None, node) {
            Some(_) => Standing::Disabled,
            None => Standing::Active,
        }
    }
}

/// Stops what should rest. One that was on its way to a node where it would rest, and still serves
/// where it came from, stays there.
pub(crate) fn disable(draft: &mut Draft<'_>) {
    let Draft { pass, services, .. } = draft;
    if pass.input.state.disabled.scopes.is_empty() {
        return;
    }
    for service in services {
        let key = &service.key;
        for slot in service.slots.iter_mut().filter(|slot| slot.is_active()) {
            if !rests(slot, key, pass) {
                continue;
            }
            let serves_elsewhere = slot
                .retiring
                .as_ref()
                .is_some_and(|old| old.is_running() && !rests_on(slot, key, old.node, pass));
            if serves_elsewhere {
                slot.revert(pass);
            } else {
                slot.disable(pass);
            }
        }
    }
}

/// Starts what does not rest any more. What goes with it may have to follow it.
pub(crate) fn enable(draft: &mut Draft<'_>) -> Freed {
    let is_asleep = |service: &ServiceDraft<'_>| service.slots.iter().any(|slot| !slot.is_active());
    let mut freed = Freed::Nothing;
    if !draft.services.iter().any(is_asleep) {
        return freed;
    }
    for at in in_order(&draft.services) {
        if is_asleep(&draft.services[at]) {
            meet(&mut draft.services, at);
            let moved = enable_service(&mut draft.services[at], &mut draft.pass);
            if moved == Freed::Something && is_followed(&draft.services, at) {
                freed = Freed::Something;
            }
        }
    }
    freed
}

/// Says whether one started elsewhere than where it was.
fn enable_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Freed {
    let mut moved = Freed::Nothing;
    for slot in 0..service.slots.len() {
        if !is_to_start(&service.slots[slot], service, pass) {
            continue;
        }
        let Some(at) = place_for(service, pass, slot) else { continue };
        let (revision, spec) = (service.goal.revision, service.goal.spec);
        let (cause, handover) = (ReplaceCause::Enabled, Handover::Abandon);
        let successor = Successor { at, revision, spec, cause, handover, consecutive_failures: 0 };
        if service.slots[slot].current.at != Some(at) {
            moved = Freed::Something;
        }
        service.slots[slot].succeed(pass, successor);
        service.begin_step(pass);
        let (id, node) = (service.slots[slot].id.clone(), service.slots[slot].current.node);
        pass.report.place(id, node, cause.as_str());
    }
    moved
}

/// Whether a slot is disabled and nobody wants it to rest.
pub(crate) fn is_to_start(
    slot: &SlotDraft<'_>,
    service: &ServiceDraft<'_>,
    pass: &Pass<'_>,
) -> bool {
    !slot.is_active()
        && !slot.is_leaving
        && is_own_kind(slot, &service.goal.spec.placement)
        && !rests(slot, &service.key, pass)
}

/// Where a disabled slot starts: where it was. What is bound to no node, and cannot, goes where a new
/// replica would.
fn place_for<'a>(service: &ServiceDraft<'a>, pass: &Pass<'a>, slot: usize) -> Option<NodeIx> {
    let (goal, slot) = (service.goal, &service.slots[slot]);
    let fits = |at: &NodeIx| pass.nodes.row(*at).fits(goal.spec);
    if let Some(at) = home_of(slot, pass)
        && slot.current.at.is_none()
    {
        return Some(at).filter(|at| is_open(pass.nodes.row(*at)) && fits(at));
    }
    let verdict = where_it_is(slot, &goal, pass);
    let own = slot.current.at.filter(|_| verdict == Stay::Keeps);
    if own.is_some() && slot.company == InCompany::Soon {
        return None;
    }
    let is_bound =
        goal.spec.storage == Storage::Stateful || matches!(slot.ordinal, Ordinal::Host(_));
    let may_go = !is_bound && verdict != Stay::Waits && hosts::shortage(service, pass).is_none();
    let elsewhere = || {
        let mut chooser = may_go.then(|| Chooser::new(&pass.nodes, service))?;
        chooser.choose(&pass.nodes, goal.spec, &slot.ordinal)
    };
    own.filter(fits).or_else(elsewhere)
}

/// The member that a global slot is named after, which may have left and joined again.
fn home_of(slot: &SlotDraft<'_>, pass: &Pass<'_>) -> Option<NodeIx> {
    match &slot.ordinal {
        Ordinal::Host(host) => pass.nodes.find_host(host),
        Ordinal::Index(_) => None,
    }
}

/// Gives what rests the definition that its service has in the end of the pass.
pub(crate) fn renew(draft: &mut Draft<'_>) {
    let Draft { pass, services, .. } = draft;
    for service in services {
        let goal = service.goal;
        for slot in service.slots.iter_mut().filter(|slot| !slot.is_active()) {
            let came_back = home_of(slot, pass).filter(|_| slot.current.at.is_none());
            if !slot.is_outdated(&goal) && came_back.is_none() {
                continue;
            }
            let at = slot.current.at.or(came_back);
            let node = at.map_or(slot.current.node, |at| pass.nodes.row(at).id);
            let (revision, hash, spec) = (goal.revision, goal.spec.hash, Some(goal.spec));
            let gpus = Held::NONE;
            let definition = Live { node, at, since: None, revision, hash, spec, seen: None, gpus };
            slot.redefine(pass, definition);
        }
    }
}
