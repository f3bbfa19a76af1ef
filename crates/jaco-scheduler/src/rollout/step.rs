//! One step: who is replaced next, where its successor goes, and which of the two starts first.

use jaco_state::command::ReplaceCause;
use jaco_types::spec::{RollbackPolicy, UpdateOrder};
use jaco_types::{ReplicaState, Timestamp};

use super::better_node::{OnNodes, better_node, other_node};
use super::progress::Progress;
use crate::draft::{
    Goal, Handover, Pass, Proven, Roll, ServiceDraft, ServiceRole, SlotDraft, Successor,
};
use crate::nodes::{NodeIx, NodeRow};
use crate::verdict::{Place, ServiceFacts, Verdict};

/// How fast replicas are replaced, and in which order: as the wanted revision says for the way that
/// they go.
pub(super) fn pace(service: &ServiceDraft<'_>) -> RollbackPolicy {
    let policy = service.goal().spec.update;
    match service.goal().roll {
        Roll::Forward | Roll::Paused => {
            let (parallelism, order, delay) = (policy.parallelism, policy.order, policy.delay);
            RollbackPolicy { parallelism, order, delay, ..policy.rollback }
        }
        Roll::Back => {
            let wanted = service.spec_at(service.deployment.revision);
            wanted.map_or(policy.rollback, |spec| spec.update.rollback)
        }
    }
}

/// When the next step may begin: `delay` after the last one did, the first at once.
pub(super) fn next_step_at(service: &ServiceDraft<'_>, progress: &Progress) -> Timestamp {
    let Some(rollout) = &service.record.rollout else { return Timestamp(0) };
    let done = match service.goal().roll {
        Roll::Back => rollout.rollback_progress.map_or(1, |back| back.current_step),
        Roll::Forward | Roll::Paused => rollout.current_step,
    };
    match done == 0 && progress.unproven.is_empty() {
        true => Timestamp(0),
        false => rollout.last_step_at.after(pace(service).delay),
    }
}

/// Whether steps were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    Some,
    None,
}

/// Takes as many steps as the pace allows.
pub(super) fn take_steps<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    progress: &Progress,
) -> Taken {
    let goal = service.goal();
    let parallelism = pace(service).parallelism.max(1);
    let mut free = parallelism.saturating_sub(progress.places_taken());
    let mut not_serving = progress.not_serving;
    let mut taken = Taken::None;
    let facts = ServiceFacts::read(service, pass);
    for at in &progress.outdated {
        if free == 0 {
            break;
        }
        let serves = service.slots[*at].serves(service.role);
        let on_nodes = OnNodes::of(service);
        let target = target_of(service, &facts, pass, *at, &on_nodes);
        let Some((node, handover)) = target else { continue };
        if handover == Handover::StopFirst && serves {
            // One more would be missing: only as many as are replaced at a time may be.
            if not_serving >= parallelism {
                continue;
            }
            not_serving += 1;
        }
        taken = Taken::Some;
        free -= 1;
        let (revision, spec) = (goal.revision, goal.spec);
        let cause = match service.slots[*at].is_outdated(&goal) {
            true => ReplaceCause::SpecChanged,
            false => ReplaceCause::Moved,
        };
        let successor =
            Successor { at: node, revision, spec, cause, handover, consecutive_failures: 0 };
        pass.take_addresses(&service.key, revision, spec);
        let slot = service.slots.edit(*at);
        let before = slot.current.node;
        slot.replace(pass, successor);
        if slot.current.node != before {
            pass.report.place(slot.id.clone(), slot.current.node, cause.as_str());
        }
        service.begin_step(pass);
    }
    taken
}

/// Where the successor of a replica goes that a step is to replace, and which of the two starts first,
/// with its siblings `on_nodes`. Of the places that the verdict allows, in this order: where the spread
/// lacks one; beside the old instance; on another node that has fewer of the service; in the place of
/// the old instance, which has to stop first then.
pub(super) fn target_of<'a>(
    service: &ServiceDraft<'a>,
    facts: &ServiceFacts<'a>,
    pass: &Pass<'a>,
    slot: usize,
    on_nodes: &OnNodes,
) -> Option<(NodeIx, Handover)> {
    let siblings = on_nodes.without(slot);
    let slot = &service.slots[slot];
    let verdict = facts.of(service, slot, pass).verdict();
    let Verdict::Replace(place) = verdict else { return None };
    let goal = service.goal();
    if !pass.has_addresses(&service.key, goal.revision, goal.spec) {
        return None;
    }
    if slot.completion().is_some() || service.role == ServiceRole::Job {
        return job_target(service, pass, slot, &siblings, place);
    }
    match place {
        Place::Anywhere => better_node(service, pass, slot, &siblings)
            .map(|better| (better, handover_elsewhere(service, pass, slot)))
            .or_else(|| target_nearby(service, pass, slot, &siblings, place)),
        Place::Here => target_nearby(service, pass, slot, &siblings, place),
        Place::Elsewhere => {
            other_node(service, pass, slot, &siblings).map(|other| (other, Handover::StartFirst))
        }
    }
}

/// The successor's place where the replica runs to its end: its own node, or else another one. Two instances
/// would do the same work at once, and what has ended needs no handover.
fn job_target<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    slot: &SlotDraft<'a>,
    siblings: &[NodeIx],
    place: Place,
) -> Option<(NodeIx, Handover)> {
    let handover = match slot.completion() {
        Some(_) => Handover::Abandon,
        None => Handover::StopFirst,
    };
    let has_room = |own: &NodeIx| {
        let row = pass.nodes.row(*own);
        match slot.completion() {
            Some(_) => {
                let spec = service.goal().spec;
                row.may_start_again(spec) && row.fits(spec)
            }
            None => fits_without(row, slot, service.goal(), Keep::Nothing),
        }
    };
    let own = || slot.current.at.filter(has_room);
    let other = || other_node(service, pass, slot, siblings);
    let node = match place {
        Place::Here => own(),
        Place::Anywhere => better_node(service, pass, slot, siblings).or_else(own).or_else(other),
        Place::Elsewhere => other(),
    };
    node.map(|node| (node, handover))
}

/// Whether a replica that a step is to replace has anywhere to be.
pub(super) fn has_target<'a>(
    service: &ServiceDraft<'a>,
    facts: &ServiceFacts<'a>,
    pass: &Pass<'a>,
    slot: usize,
    on_nodes: &OnNodes,
) -> bool {
    // The question that costs little first: there may be thousands of them.
    let goal = service.goal();
    if !pass.has_addresses(&service.key, goal.revision, goal.spec) {
        return false;
    }
    let own = service.slots[slot].current.at.map(|at| pass.nodes.row(at));
    let is_kept = || facts.of(service, &service.slots[slot], pass).verdict();
    own.is_some_and(|row| row.fits(service.goal().spec))
        && matches!(is_kept(), Verdict::Replace(Place::Anywhere | Place::Here))
        || target_of(service, facts, pass, slot, on_nodes).is_some()
}

/// Which of the two starts first where the successor has a node with room for it: nothing forces the old
/// instance to stop first but the update policy.
fn handover_elsewhere(
    service: &ServiceDraft<'_>,
    pass: &Pass<'_>,
    slot: &SlotDraft<'_>,
) -> Handover {
    match pace(service).order {
        _ if is_of_no_use(service, pass, slot) => Handover::Abandon,
        UpdateOrder::StopFirst => Handover::StopFirst,
        UpdateOrder::StartFirst => Handover::StartFirst,
    }
}

/// The successor's place where its replica is, or on an emptier node if there is no room beside it.
fn target_nearby<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    slot: &SlotDraft<'a>,
    siblings: &[NodeIx],
    place: Place,
) -> Option<(NodeIx, Handover)> {
    let goal = service.goal();
    let elsewhere = || {
        let is_free = place == Place::Anywhere;
        is_free.then(|| other_node(service, pass, slot, siblings)).flatten()
    };
    let own = slot.current.at?;
    let row = pass.nodes.row(own);
    let in_place = || fits_without(row, slot, goal, Keep::Nothing);
    if pace(service).order == UpdateOrder::StopFirst || !goal.spec.host_ports.is_empty() {
        // A sibling on this node may hold the port: then only another node has room.
        return match in_place() {
            true => Some((own, Handover::StopFirst)),
            false => elsewhere().map(|other| (other, Handover::StartFirst)),
        };
    }
    let is_of_no_use = is_of_no_use(service, pass, slot);
    if is_of_no_use && fits_without(row, slot, goal, Keep::Retiring) {
        return Some((own, Handover::Abandon));
    }
    if !is_of_no_use && row.fits(goal.spec) {
        return Some((own, Handover::StartFirst));
    }
    // Another step gives its room back once it is proven.
    let is_handed_over = |slot: &SlotDraft<'_>| {
        slot.retiring
            .as_ref()
            .is_some_and(|old| old.at == Some(own) || slot.current.at == Some(own))
    };
    if service.slots.iter().any(is_handed_over) {
        return None;
    }
    let count_on = |node| siblings.iter().filter(|at| **at == node).count();
    if let Some(emptier) = elsewhere().filter(|other| count_on(*other) <= count_on(own)) {
        return Some((emptier, Handover::StartFirst));
    }
    in_place().then_some((own, Handover::StopFirst))
}

/// Whether a slot's current instance has ended, or is not proven while its predecessor serves: it needs
/// no room beside its successor.
fn is_of_no_use(service: &ServiceDraft<'_>, pass: &Pass<'_>, slot: &SlotDraft<'_>) -> bool {
    let is_proven = || service.proof().of(slot, pass.input.now) == Proven::Yes;
    slot.current.state().is_some_and(ReplicaState::is_over)
        || slot.retiring.as_ref().is_some_and(|old| match slot.current.is_running() {
            true => old.is_running() && !is_proven(),
            false => true,
        })
}

/// Which instance of a slot stays beside the successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    Retiring,
    Nothing,
}

/// Whether the goal fits on the slot's node once what is not kept of the slot is gone.
fn fits_without(row: &NodeRow<'_>, slot: &SlotDraft<'_>, goal: Goal<'_>, keep: Keep) -> bool {
    let mut row = row.clone();
    let retiring = slot.retiring.as_deref().filter(|_| keep == Keep::Nothing);
    for live in std::iter::once(&slot.current).chain(retiring) {
        if let Some(spec) = live.spec.filter(|_| live.node == row.id) {
            row.usage.release(spec, live.gpus.ids(row.node));
        }
    }
    row.fits(goal.spec)
}
