//! One step: who is replaced next, where its successor goes, and which of the two starts first.

use jaco_state::command::ReplaceCause;
use jaco_types::spec::{BackPolicy, Storage, UpdateOrder};
use jaco_types::{Millis, Ordinal, ReplicaState, Timestamp};

use super::Freed;
use super::progress::Progress;
use crate::company::InCompany;
use crate::draft::{Goal, Handover, Pass, Roll, ServiceDraft, SlotDraft, Successor};
use crate::eligibility::{Stay, where_it_is};
use crate::node_table::{NodeIx, NodeRow};
use crate::placement::Chooser;

/// How fast replicas are replaced, and in which order: as the wanted revision says for the way that
/// they go.
pub(super) fn pace(service: &ServiceDraft<'_>) -> BackPolicy {
    let policy = service.goal.spec.update;
    match service.goal.roll {
        Roll::Forward | Roll::Frozen => {
            let (parallelism, order, delay) = (policy.parallelism, policy.order, policy.delay);
            BackPolicy { parallelism, order, delay, ..policy.back }
        }
        Roll::Back => {
            let wanted = service.spec_at(service.deployment.revision);
            wanted.map_or(policy.back, |spec| spec.update.back)
        }
    }
}

/// When the next step may begin: `delay` after the last one did, the first at once.
pub(super) fn next_step_at(service: &ServiceDraft<'_>) -> Timestamp {
    match &service.record.rollout {
        Some(rollout) if service.goal.roll == Roll::Forward && rollout.current_step > 0 => {
            rollout.last_step_at.after(service.goal.spec.update.delay)
        }
        Some(rollout) if service.goal.roll == Roll::Back => {
            let is_first = rollout.going_back.is_some_and(|back| back.current_step == 0);
            let delay = if is_first { Millis(0) } else { pace(service).delay };
            rollout.last_step_at.after(delay)
        }
        Some(_) | None => Timestamp(0),
    }
}

pub(super) fn take_steps<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    progress: &Progress,
) -> Freed {
    let goal = service.goal;
    let parallelism = pace(service).parallelism.max(1);
    let mut free = parallelism.saturating_sub(progress.in_flight);
    let mut not_serving = progress.not_serving;
    let mut freed = Freed::Nothing;
    for at in &progress.outdated {
        if free == 0 {
            break;
        }
        if service.slots[*at].company == InCompany::Soon {
            continue;
        }
        let serves = service.slots[*at].serves(service.role);
        let Some((node, handover)) = way_of(service, pass, *at) else {
            continue;
        };
        if handover == Handover::StopFirst && serves {
            // One more would be missing: only as many as are replaced at a time may be.
            if not_serving >= parallelism {
                continue;
            }
            not_serving += 1;
        }
        freed = Freed::Something;
        free -= 1;
        let (revision, spec) = (goal.revision, goal.spec);
        let cause = match service.slots[*at].is_outdated(&goal) {
            true => ReplaceCause::SpecChanged,
            false => ReplaceCause::Moved,
        };
        let successor =
            Successor { at: node, revision, spec, cause, handover, consecutive_failures: 0 };
        service.slots[*at].succeed(pass, successor);
        service.begin_step(pass);
    }
    freed
}

/// Where the successor goes, and which of the two starts first. Elsewhere, if the node should be left
/// anyway. Else, in this order: beside the old instance; on another node that has fewer of the
/// service, so that the spread does not suffer; in the place of the old instance, which has to stop
/// first then.
pub(super) fn way_of<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    slot: usize,
) -> Option<(NodeIx, Handover)> {
    let (goal, slot) = (service.goal, &service.slots[slot]);
    let own = slot.current.at?;
    let row = pass.nodes.row(own);
    let is_bound =
        goal.spec.storage == Storage::Stateful || matches!(slot.ordinal, Ordinal::Host(_));
    let leaves = where_it_is(slot, &goal, pass) == Stay::Leaves;
    if leaves && !is_bound {
        return other_node(service, pass, slot).map(|other| (other, Handover::StartFirst));
    }
    let in_place = || fits_without(row, slot, goal, Keep::Nothing);
    if pace(service).order == UpdateOrder::StopFirst || !goal.spec.host_ports.is_empty() {
        // A sibling on this node may hold the port: then only another node has room.
        let elsewhere = || (!is_bound).then(|| other_node(service, pass, slot)).flatten();
        return match in_place() {
            true => Some((own, Handover::StopFirst)),
            false => elsewhere().map(|other| (other, Handover::StartFirst)),
        };
    }
    // What has ended, or never served while another still does, needs no room beside its successor.
    let is_of_no_use = slot.current.state().is_some_and(ReplicaState::is_over)
        || (slot.retiring.is_some() && !slot.current.is_running());
    if is_of_no_use && fits_without(row, slot, goal, Keep::Retiring) {
        return Some((own, Handover::Abandon));
    }
    if !is_of_no_use && row.fits(goal.spec) {
        return Some((own, Handover::StartFirst));
    }
    let count_on = |node| service.slots.iter().filter(|slot| slot.current.at == Some(node)).count();
    let calmer = (!is_bound).then(|| other_node(service, pass, slot)).flatten();
    if let Some(calmer) = calmer.filter(|other| count_on(*other) < count_on(own)) {
        return Some((calmer, Handover::StartFirst));
    }
    in_place().then_some((own, Handover::StopFirst))
}

/// The node that the slot would get if it were new.
fn other_node<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    slot: &SlotDraft<'a>,
) -> Option<NodeIx> {
    let mut chooser = Chooser::new(&pass.nodes, service);
    chooser.choose(&pass.nodes, service.goal.spec, &slot.ordinal)
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
