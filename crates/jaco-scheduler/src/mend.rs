//! What happens to replicas where they are: handovers end, failures are answered, surplus goes.
//! Nothing here needs room, and most of it frees some.

use jaco_state::command::ReplaceCause;
use jaco_types::slot::Exhausted;
use jaco_types::spec::{Placement, Storage};
use jaco_types::{Availability, NodeStatus, Ordinal, ReasonCode, ReplicaState, RestartCount};

use crate::attribute::missing_label;
use crate::company::{InCompany, in_order, meet};
use crate::draft::{
    Draft, Goal, Handover, Pass, Proof, ServiceDraft, ServiceRole, SlotDraft, Successor, is_proven,
};
use crate::eligibility::{Stay, where_it_is};
use crate::placement::candidates;
use crate::rollout::{self, Freed, Judgement};
use crate::victim;

/// Brings every service's replicas in order without placing any.
pub(crate) fn mend(draft: &mut Draft<'_>) {
    draft.services.iter_mut().for_each(rollout::set_goal);
    for at in in_order(&draft.services) {
        meet(&mut draft.services, at);
        let service = &mut draft.services[at];
        mend_service(service, &mut draft.pass);
        if rollout::judge(service, &mut draft.pass) == Judgement::Aborted {
            // The revision that it goes back to may want fewer, and what serves it may have failed.
            meet(&mut draft.services, at);
            let service = &mut draft.services[at];
            mend_service(service, &mut draft.pass);
            rollout::judge(service, &mut draft.pass);
        }
    }
}

/// Surplus goes first, so that nothing is restarted to be removed.
fn mend_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    remove_surplus(service, pass);
    let (goal, role, proof) = (service.goal, service.role, service.proof());
    for slot in service.slots.iter_mut().filter(|slot| slot.is_active()) {
        settle(slot, proof, pass);
        answer_failure(slot, &goal, role, pass);
        forget_failures(slot, pass);
    }
}

/// A handover ends when the successor serves, or when the retiring instance's node left.
fn settle<'a>(slot: &mut SlotDraft<'a>, proof: Proof, pass: &mut Pass<'a>) {
    let Some(retiring) = &slot.retiring else { return };
    if retiring.at.is_none() || is_proven(slot, proof, pass) {
        slot.settle(pass);
    }
}

/// Each failed instance counts once, because another one follows it or nothing does (R-HEAL-1,
/// R-HEAL-2).
fn answer_failure<'a>(
    slot: &mut SlotDraft<'a>,
    goal: &Goal<'a>,
    role: ServiceRole,
    pass: &mut Pass<'a>,
) {
    if slot.restarts.exhausted == Exhausted::Yes || !has_failed(slot, role) {
        return;
    }
    // It cannot start as long as what it needs does not run, and starts anew once that does.
    if slot.company != InCompany::Yes {
        return;
    }
    let Some(at) = slot.current.at.filter(|_| stays(slot, goal, pass)) else { return };
    // It restarts as what it was: only a rollout changes what a replica runs. One whose spec is no
    // longer kept is the rollout's to replace.
    let Some(spec) = slot.current.spec else { return };
    // A node that stopped it because it was cut off says nothing about the replica.
    let is_its_own = slot.current.seen.and_then(|seen| seen.code) != Some(ReasonCode::NodeIsolated);
    let consecutive = slot.restarts.consecutive.saturating_add(u32::from(is_its_own));
    if is_its_own && consecutive >= pass.input.config.failure_budget {
        let spent = RestartCount { consecutive, exhausted: Exhausted::Yes };
        return slot.set_restarts(pass, spent);
    }
    if is_its_own && is_left_alone(slot, consecutive, pass) {
        return;
    }
    let revision = slot.current.revision;
    slot.succeed(
        pass,
        Successor {
            at,
            revision,
            spec,
            cause: ReplaceCause::Failed,
            handover: Handover::Abandon,
            consecutive_failures: consecutive,
        },
    );
}

/// Whether a failure that made it so many in a row is too fresh to be answered. The moment of it is
/// by its node's clock: where that is ahead, nothing is waited for.
fn is_left_alone(slot: &SlotDraft<'_>, consecutive: u32, pass: &mut Pass<'_>) -> bool {
    let Some(seen) = slot.current.seen.filter(|seen| seen.since <= pass.input.now) else {
        return false;
    };
    let due = seen.since.after(RestartCount::back_off(consecutive));
    pass.wake(due);
    pass.input.now < due
}

/// A replica without data that should leave its node is not restarted there first.
fn stays(slot: &SlotDraft<'_>, goal: &Goal<'_>, pass: &Pass<'_>) -> bool {
    match where_it_is(slot, goal, pass) {
        Stay::Keeps => true,
        Stay::Leaves => {
            goal.spec.storage == Storage::Stateful && matches!(slot.ordinal, Ordinal::Index(_))
        }
        Stay::Lost | Stay::Waits => false,
    }
}

fn has_failed(slot: &SlotDraft<'_>, role: ServiceRole) -> bool {
    match slot.current.state() {
        Some(ReplicaState::Failed | ReplicaState::Degraded) => true,
        Some(ReplicaState::Stopped) => role == ServiceRole::Server || !slot.current.is_done(),
        Some(
            ReplicaState::Pending
            | ReplicaState::Pulling
            | ReplicaState::Starting
            | ReplicaState::Running,
        )
        | None => false,
    }
}

/// A steady run clears the count, unless the budget is spent: then only an apply does.
fn forget_failures<'a>(slot: &mut SlotDraft<'a>, pass: &mut Pass<'a>) {
    if slot.restarts.consecutive == 0 || slot.restarts.exhausted == Exhausted::Yes {
        return;
    }
    let Some(seen) = slot.current.seen.filter(|_| slot.current.is_running()) else { return };
    let steady_at = seen.since.after(pass.input.config.steady_after);
    if pass.input.now < steady_at {
        return pass.wake(steady_at);
    }
    slot.set_restarts(pass, RestartCount::default());
}

/// Removes what is more than wanted: too many of them, or of a kind that the placement has no use
/// for.
fn remove_surplus<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    match service.goal.spec.placement {
        Placement::Global => remove_stranded(service, pass),
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => scale_down(service, pass),
    }
    remove_other_kind(service, pass);
}

/// Whether a slot is named the way this placement names its slots.
pub(crate) fn is_own_kind(slot: &SlotDraft<'_>, placement: &Placement) -> bool {
    match (&slot.ordinal, placement) {
        (Ordinal::Host(_), Placement::Global)
        | (Ordinal::Index(_), Placement::Spread | Placement::Pack | Placement::Hosts(_)) => true,
        (Ordinal::Host(_), Placement::Spread | Placement::Pack | Placement::Hosts(_))
        | (Ordinal::Index(_), Placement::Global) => false,
    }
}

/// After a change to or from `global`, the replicas of the other kind serve until those of the new
/// kind do; where both would take the same port of a host they cannot, and go at once.
fn remove_other_kind<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let placement = &service.goal.spec.placement;
    let (own, other): (Vec<_>, Vec<_>) =
        service.slots.iter().partition(|slot| is_own_kind(slot, placement));
    if other.is_empty() {
        return;
    }
    let wants_some = match placement {
        Placement::Global => {
            !candidates(&pass.nodes, service.goal.spec, &service.company).is_empty()
        }
        Placement::Spread | Placement::Pack | Placement::Hosts(_) => service.goal.spec.replicas > 0,
    };
    // One that is without what it goes with is about to go itself, and takes nothing over.
    let own: Vec<_> = own.into_iter().filter(|slot| slot.company != InCompany::No).collect();
    let is_taken_over =
        own.iter().all(|slot| !slot.is_active() || slot.current.is_up(service.role))
            && !(own.is_empty() && wants_some);
    let clashes = !service.goal.spec.host_ports.is_empty();
    if is_taken_over || clashes {
        remove_where(service, pass, |slot, goal| !is_own_kind(slot, &goal.spec.placement));
    }
}

/// Takes leave of the replicas of the other kind that nothing is left to wait for: those of the new
/// kind rest, and so are as good as up the moment they are made, or none of them is wanted any more.
pub(crate) fn remove_superseded(draft: &mut Draft<'_>) -> Freed {
    let mut freed = Freed::Nothing;
    for service in &mut draft.services {
        let placement = &service.goal.spec.placement;
        if service.slots.iter().all(|slot| is_own_kind(slot, placement)) {
            continue;
        }
        let before = service.slots.len();
        remove_other_kind(service, &mut draft.pass);
        if service.slots.len() < before {
            freed = Freed::Something;
        }
    }
    freed
}

/// A global replica goes with its node, when the node is drained, and when the node does not carry
/// the service's labels any more (R-PLACE-4, R-NODE-2, R-SEL-2).
fn remove_stranded<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let nodes = &pass.nodes;
    let policy = &service.goal.spec.scheduling;
    let is_stranded = |slot: &SlotDraft<'_>| {
        let Ordinal::Host(host) = &slot.ordinal else { return false };
        let Some(at) = nodes.find_host(host) else { return true };
        let came_back_as_another = slot.current.at != Some(at);
        let row = nodes.row(at);
        match row.status {
            NodeStatus::Down | NodeStatus::EngineDown => came_back_as_another,
            NodeStatus::Joining | NodeStatus::Ready | NodeStatus::DiskFull => {
                row.availability == Availability::Draining
                    || missing_label(row.node, policy).is_some()
            }
        }
    };
    let stranded: Vec<bool> = service.slots.iter().map(is_stranded).collect();
    let mut stranded = stranded.into_iter();
    remove_where(service, pass, |_, _| stranded.next().unwrap_or(false));
}

/// A global replica goes with what it cannot do without.
pub(crate) fn remove_deserted<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Freed {
    let is_deserted = |slot: &SlotDraft<'_>| {
        slot.company == InCompany::No && matches!(slot.ordinal, Ordinal::Host(_))
    };
    if !service.slots.iter().any(is_deserted) {
        return Freed::Nothing;
    }
    remove_where(service, pass, |slot, _| is_deserted(slot));
    Freed::Something
}

/// Removes what is more than wanted.
fn scale_down<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let wanted = usize::try_from(service.goal.spec.replicas).unwrap_or(usize::MAX);
    let placement = &service.goal.spec.placement;
    let own = || service.slots.iter().filter(|slot| is_own_kind(slot, placement));
    let surplus = own().count().saturating_sub(wanted);
    if surplus == 0 {
        return;
    }
    let victims = victim::choose(&pass.nodes, service, own(), surplus);
    remove_where(service, pass, |slot, _| victims.contains(&slot.ordinal));
}

fn remove_where<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    mut goes: impl FnMut(&SlotDraft<'a>, &Goal<'a>) -> bool,
) {
    let (goal, before) = (service.goal, service.slots.len());
    service.slots.retain_mut(|slot| {
        let goes = goes(slot, &goal);
        if goes {
            slot.remove(pass);
        }
        !goes
    });
    let removed = u32::try_from(before - service.slots.len()).unwrap_or(u32::MAX);
    service.removed = service.removed.saturating_add(removed);
}
