//! Which replicas there are, and on which nodes: those whose node cannot keep them move, and those
//! that are missing are made.

use jaco_state::command::ReplaceCause;
use jaco_types::spec::{Placement, ServiceSpec, Storage, UpdateOrder};
use jaco_types::{NodeStatus, Ordinal, ReplicaId, SpecHash};

use crate::company::{InCompany, in_order, is_followed, meet};
use crate::dependency;
use crate::draft::{Draft, Goal, Handover, Pass, ServiceDraft, SlotDraft, Successor};
use crate::eligibility::{Stay, is_misplaced, is_open, lost_at, where_it_is};
use crate::mend::{is_own_kind, remove_deserted};
use crate::placement::{Chooser, global, hosts};
use crate::rollout::Freed;
use crate::waiting::is_given_up;

/// Places the replicas again that their nodes cannot keep, or should not (R-NODE-1, R-NODE-2).
pub(crate) fn relocate(draft: &mut Draft<'_>) -> Freed {
    let mut freed = Freed::Nothing;
    for at in in_order(&draft.services) {
        meet(&mut draft.services, at);
        let (service, pass) = (&mut draft.services[at], &mut draft.pass);
        let moved = if service.goal.spec.placement == Placement::Global {
            adopt_returned_hosts(service, pass);
            remove_deserted(service, pass)
        } else {
            relocate_service(service, pass)
        };
        let renewed = renew(service, pass);
        if (moved, renewed) != (Freed::Nothing, Freed::Nothing) {
            freed = Freed::Something;
        }
    }
    freed
}

/// Starts those anew that have hold of what was replaced: a namespace goes with its container.
fn renew<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Freed {
    let mut freed = Freed::Nothing;
    for slot in &mut service.slots {
        let is_free =
            slot.is_active() && slot.retiring.is_none() && !slot.is_leaving && !is_given_up(slot);
        let (InCompany::OfTheOld, true) = (slot.company, is_free) else { continue };
        let (Some(at), Some(spec)) = (slot.current.at, slot.current.spec) else { continue };
        let row = pass.nodes.row(at);
        let has_room = spec.update.order == UpdateOrder::StartFirst
            && row.status.is_working()
            && row.fits(spec);
        let handover = if has_room { Handover::StartFirst } else { Handover::StopFirst };
        let (revision, cause) = (slot.current.revision, ReplaceCause::CompanyReplaced);
        let successor = Successor { at, revision, spec, cause, handover, consecutive_failures: 0 };
        slot.succeed(pass, successor);
        pass.report.place(slot.id.clone(), slot.current.node, cause.as_str());
        freed = Freed::Something;
    }
    freed
}

fn relocate_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Freed {
    let placement = &service.goal.spec.placement;
    let goal = service.goal;
    let verdict_on = |slot: &SlotDraft<'_>, pass: &Pass<'_>| where_it_is(slot, &goal, pass);
    let all_stay =
        service.slots.iter().all(|slot| !slot.is_active() || verdict_on(slot, pass) == Stay::Keeps);
    if all_stay || service.goal.spec.storage == Storage::Stateful {
        return Freed::Nothing;
    }
    let mut freed = Freed::Nothing;
    let short = hosts::shortage(service, pass);
    let mut chooser = ChooserOfSpec::default();
    for at in 0..service.slots.len() {
        let slot = &service.slots[at];
        if !slot.is_active() || !is_own_kind(slot, placement) {
            continue;
        }
        let verdict = verdict_on(slot, pass);
        let moves = match verdict {
            Stay::Keeps => false,
            Stay::Waits => {
                wake_when_lost(slot, &goal, pass);
                false
            }
            // What people pin elsewhere is moved by the steps of a rollout.
            Stay::Leaves => {
                short.is_none() && !slot.is_leaving && !is_misplaced(slot, &goal, &pass.nodes)
            }
            Stay::Lost => short.is_none() && !is_given_up(slot),
        };
        if moves {
            let is_open = service.slots[at].company == InCompany::No;
            let moved = relocate_slot(service, pass, at, verdict, &mut chooser);
            // What it leaves then is a node that takes replicas.
            if is_open && moved == Moved::Yes {
                freed = Freed::Something;
            }
        }
    }
    freed
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    Yes,
    No,
}

/// Looks again when a replica that waits for its node does so no more.
fn wake_when_lost(slot: &SlotDraft<'_>, goal: &Goal<'_>, pass: &mut Pass<'_>) {
    let row = slot.current.at.map(|at| pass.nodes.row(at));
    let silent = row.filter(|row| row.status == NodeStatus::Down);
    if let Some(at) = silent.and_then(|row| lost_at(slot, goal, row)) {
        pass.wake(at);
    }
}

/// Moves one replica: it runs there what it ran here, because only a rollout changes that.
fn relocate_slot<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    at: usize,
    verdict: Stay,
    chooser: &mut ChooserOfSpec<'a>,
) -> Moved {
    let slot = &service.slots[at];
    let (revision, spec) = match slot.current.spec {
        Some(spec) => (slot.current.revision, spec),
        None => (service.goal.revision, service.goal.spec),
    };
    let chooser = chooser.of(spec, || Chooser::new(&pass.nodes, service));
    let Some(node) = chooser.choose(&pass.nodes, spec, &slot.ordinal) else {
        return Moved::No;
    };
    let (cause, handover) = match verdict {
        Stay::Lost => (ReplaceCause::NodeLost, Handover::Abandon),
        Stay::Leaves | Stay::Keeps | Stay::Waits => (ReplaceCause::Moved, Handover::StartFirst),
    };
    let consecutive_failures = slot.restarts.consecutive;
    let successor = Successor { at: node, revision, spec, cause, handover, consecutive_failures };
    service.slots[at].succeed(pass, successor);
    if spec.hash == service.goal.spec.hash {
        service.begin_step(pass);
    }
    let replica = service.slots[at].id.clone();
    pass.report.place(replica, pass.nodes.row(node).id, cause.as_str());
    Moved::Yes
}

/// The chooser for the spec that was asked for last: what is full for one spec may have room for
/// another, and almost always there is only one.
#[derive(Default)]
struct ChooserOfSpec<'a>(Option<(SpecHash, Chooser<'a>)>);

impl<'a> ChooserOfSpec<'a> {
    fn of(&mut self, spec: &ServiceSpec, build: impl FnOnce() -> Chooser<'a>) -> &mut Chooser<'a> {
        if self.0.as_ref().is_some_and(|(hash, _)| *hash != spec.hash) {
            self.0 = None;
        }
        &mut self.0.get_or_insert_with(|| (spec.hash, build())).1
    }
}

/// A host that left and joined again is another node of the same name; its replica goes on there,
/// once the node takes replicas and has room.
fn adopt_returned_hosts<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let Goal { revision, spec, .. } = service.goal;
    let (cause, handover) = (ReplaceCause::NodeLost, Handover::Abandon);
    let mut adopted = false;
    let without_node = |slot: &&mut SlotDraft<'_>| slot.is_active() && slot.current.at.is_none();
    for slot in service.slots.iter_mut().filter(without_node) {
        let Ordinal::Host(host) = &slot.ordinal else { continue };
        let Some(at) = pass.nodes.find_host(host) else { continue };
        let row = pass.nodes.row(at);
        if !is_open(row) || !row.fits(spec) {
            continue;
        }
        let consecutive_failures = slot.restarts.consecutive;
        let successor = Successor { at, revision, spec, cause, handover, consecutive_failures };
        slot.succeed(pass, successor);
        pass.report.place(slot.id.clone(), slot.current.node, cause.as_str());
        adopted = true;
    }
    if adopted {
        service.begin_step(pass);
    }
}

/// Whether a service goes with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goes {
    Alone,
    WithOthers,
}

impl Goes {
    fn of(spec: &ServiceSpec) -> Self {
        let policy = &spec.scheduling;
        match policy.beside.is_empty() && policy.place_with.is_empty() {
            true => Self::Alone,
            false => Self::WithOthers,
        }
    }
}

/// For how many replicas room is made at once, of one service and of all: who asks for more than the
/// cluster has room for must not get the planner's memory for them.
const RESERVED_MAX: usize = 1_024;
const RESERVED_ALL_MAX: usize = 262_144;

/// Makes the replicas that are missing of services of this kind (R-LOOP-3). What others go with gives
/// those a place.
pub(crate) fn fill(draft: &mut Draft<'_>, goes: Goes) -> Freed {
    let mut freed = Freed::Nothing;
    make_room(draft);
    for at in in_order(&draft.services) {
        if Goes::of(draft.services[at].goal.spec) != goes {
            continue;
        }
        meet(&mut draft.services, at);
        if dependency::unmet(&draft.services, at).is_none() {
            let before = draft.services[at].slots.len();
            fill_service(&mut draft.services[at], &mut draft.pass);
            let service = &draft.services[at];
            let made = service.slots.len() > before;
            // Those of another kind may have waited for these.
            let placement = &service.goal.spec.placement;
            let supersedes = service.slots.iter().any(|slot| !is_own_kind(slot, placement));
            if made && (supersedes || is_followed(&draft.services, at)) {
                freed = Freed::Something;
            }
        }
    }
    freed
}

/// How many replicas the service has too few of.
fn missing(service: &ServiceDraft<'_>) -> usize {
    let placement = &service.goal.spec.placement;
    let present = service.slots.iter().filter(|slot| is_own_kind(slot, placement)).count();
    let wanted = usize::try_from(service.goal.spec.replicas).unwrap_or(usize::MAX);
    wanted.saturating_sub(present)
}

/// Makes room in the plan for all that is missing and for a record of each service, so that a large one
/// does not move again and again while it grows.
fn make_room(draft: &mut Draft<'_>) {
    let counts = draft.services.iter().map(missing);
    let all = counts.fold(0, usize::saturating_add).min(RESERVED_ALL_MAX);
    draft.pass.changes.reserve(all + draft.services.len());
    draft.pass.report.placed.reserve(all);
}

fn fill_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    if service.goal.spec.placement == Placement::Global {
        return global::fill(service, pass);
    }
    let missing = missing(service);
    if missing == 0 || hosts::shortage(service, pass).is_some() {
        return;
    }
    let spec = service.goal.spec;
    let mut chooser = Chooser::new(&pass.nodes, service);
    service.slots.reserve_exact(missing.min(RESERVED_MAX));
    for _ in 0..missing {
        let (index, ordinal) = next_ordinal(service, pass);
        let Some(node) = chooser.choose(&pass.nodes, spec, &ordinal) else {
            return;
        };
        service.record.next_index = index.saturating_add(1);
        service.create(pass, ordinal, node);
        let slot = service.slots.last().expect("a slot was just created");
        pass.report.place(slot.id.clone(), slot.current.node, spec.placement.as_str());
    }
}

/// The next index whose name nobody has. Two services can only share a name if an older version
/// admitted them; skipping is what keeps such a cluster alive.
fn next_ordinal(service: &ServiceDraft<'_>, pass: &Pass<'_>) -> (u64, Ordinal) {
    let mut index = service.record.next_index;
    loop {
        let ordinal = Ordinal::Index(index);
        let id = ReplicaId::new(&service.key, &ordinal);
        if index == u64::MAX || !pass.input.state.slots.contains(&id) {
            return (index, ordinal);
        }
        index += 1;
    }
}
