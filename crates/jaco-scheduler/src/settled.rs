//! Which services a pass has nothing left to decide about, and would not however much time passes.
//!
//! The rules are strict on purpose. A service that could be called settled and is not costs a look;
//! one that is called settled and is not would be forgotten.

use jaco_types::slot::Exhausted;
use jaco_types::{RestartCount, RolloutState};

use crate::company::InCompany;
use crate::draft::{Pass, ServiceDraft, SlotDraft};
use crate::eligibility::{Stay, where_it_is};
use crate::mend::is_own_kind;
use crate::resting::rests;

/// Whether nothing can come of looking at the service again, after a pass that changed nothing of
/// it, as long as its deployment, its record, its slots, what was seen of them, and the nodes that
/// they are on stay as they are. One that is placed by host or on every node depends on all nodes
/// besides.
pub(crate) fn is_settled(service: &ServiceDraft<'_>, pass: &Pass<'_>) -> bool {
    let is_rolling = service
        .record
        .rollout
        .as_ref()
        .is_some_and(|one| one.state == RolloutState::InProgress || one.going_back.is_some());
    service.waiting.is_empty()
        && !is_rolling
        && service.slots.iter().all(|slot| is_at_rest(slot, service, pass))
}

/// Whether a slot is where and what it should be, and nothing about it runs out.
fn is_at_rest(slot: &SlotDraft<'_>, service: &ServiceDraft<'_>, pass: &Pass<'_>) -> bool {
    let placement = &service.goal.spec.placement;
    if !slot.is_active() {
        return !slot.is_leaving
            && !slot.is_outdated(&service.goal)
            && is_own_kind(slot, placement)
            && rests(slot, &service.key, pass);
    }
    // A count of failures is forgotten after a steady run.
    let forgets = match slot.restarts {
        RestartCount { consecutive, exhausted: Exhausted::No } => consecutive > 0,
        RestartCount { exhausted: Exhausted::Yes, .. } => false,
    };
    slot.retiring.is_none()
        && !slot.is_leaving
        && slot.company == InCompany::Yes
        && !forgets
        && !slot.is_outdated(&service.goal)
        && is_own_kind(slot, placement)
        && where_it_is(slot, &service.goal, pass) == Stay::Keeps
        && !rests(slot, &service.key, pass)
}
