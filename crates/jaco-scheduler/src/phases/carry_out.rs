//! Carries verdicts about slots out, one phase at a time. Which node a replica gets is the only thing
//! that is chosen here; whether it gets one is the verdict's to say.

use jaco_state::command::ReplaceCause;
use jaco_types::slot::Exhausted;
use jaco_types::spec::{ServiceSpec, UpdateOrder};
use jaco_types::{RestartCount, SpecHash};

use crate::draft::{
    Draft, Goal, Handover, InstanceDraft, Pass, Phase, Proven, ServiceDraft, SlotDraft, Successor,
    keeps_lasting,
};
use crate::nodes::NodeIx;
use crate::nodes::gpu::Held;
use crate::placement::Chooser;
use crate::verdict::{
    Move, Place, Restart, ServiceFacts, Verdict, agenda, failures_with_this, home,
};

/// How many verdicts of one phase a slot may get in a row. Each changes a fact that it followed from;
/// the bound only guards against a defect.
const VERDICTS_MAX: usize = 8;

/// Carries the verdicts of a phase out, for all services.
pub(crate) fn carry_out(draft: &mut Draft<'_>, phase: Phase) {
    for at in draft.order().iter() {
        let (service, pass) = draft.open(*at);
        carry_out_in(service, pass, phase);
    }
}

/// Carries the verdicts of a phase out, for one service.
pub(crate) fn carry_out_in<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, phase: Phase) {
    if !agenda(service, pass).has(phase) {
        return;
    }
    if phase == Phase::Remove {
        return remove(service, pass);
    }
    let facts = ServiceFacts::read(service, pass);
    let mut choosers = Choosers::default();
    for at in turns(service, &facts, pass, phase) {
        for _ in 0..VERDICTS_MAX {
            let judged = facts.of(service, &service.slots[at], pass);
            let verdict = judged.verdict();
            if verdict.phase() != Some(phase) || is_held(service, at, verdict, pass) {
                break;
            }
            act(service, pass, at, verdict, &mut choosers);
        }
    }
}

/// The order in which a phase takes the slots of a service: what may start on one node only comes before
/// what could take its room there and start elsewhere as well.
fn turns<'a>(
    service: &ServiceDraft<'a>,
    facts: &ServiceFacts<'a>,
    pass: &Pass<'a>,
    phase: Phase,
) -> Vec<usize> {
    let has_choice = |at: &usize| {
        facts.of(service, &service.slots[*at], pass).verdict() != Verdict::Start(Place::Here)
    };
    let mut turns: Vec<usize> = (0..service.slots.len()).collect();
    if phase == Phase::Start {
        turns.sort_by_cached_key(has_choice);
    }
    turns
}

/// Whether a restart has to wait for others of its service: as in a rollout, only as many as are replaced
/// at a time may be missing. One that is not restarted any more holds no other up.
fn is_held(service: &ServiceDraft<'_>, at: usize, verdict: Verdict, pass: &Pass<'_>) -> bool {
    let slot = &service.slots[at];
    let is_missing = |slot: &&SlotDraft<'_>| {
        slot.is_active() && !slot.serves(service.role) && slot.restarts.exhausted == Exhausted::No
    };
    let missing = || service.slots.iter().filter(is_missing).count();
    let parallelism = usize::try_from(service.goal().spec.update.parallelism).unwrap_or(usize::MAX);
    verdict == Verdict::Restart(Restart::PartnerReplaced)
        && slot.serves(service.role)
        && restart_handover(slot, pass) == Handover::StopFirst
        && missing() >= parallelism.max(1)
}

/// Removes what is to be removed, all of it at once: which replica is removed was decided for all together.
fn remove<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    let facts = ServiceFacts::read(service, pass);
    let goes = |slot: &SlotDraft<'a>| facts.of(service, slot, pass).verdict() == Verdict::Remove;
    let goes: Vec<bool> = service.slots.iter().map(goes).collect();
    let removed = u32::try_from(goes.iter().filter(|goes| **goes).count()).unwrap_or(u32::MAX);
    service.removed = service.removed.saturating_add(removed);
    let mut goes = goes.into_iter();
    service.slots.retain(|slot| {
        let goes = goes.next().unwrap_or(false);
        if goes {
            slot.remove(pass);
        }
        !goes
    });
}

fn act<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    at: usize,
    verdict: Verdict,
    choosers: &mut Choosers<'a>,
) {
    match verdict {
        Verdict::Disable => service.slots.edit(at).disable(pass),
        Verdict::Revert => service.slots.edit(at).revert_handover(pass),
        Verdict::CompleteHandover => service.slots.edit(at).complete_handover(pass),
        Verdict::Restart(why) => {
            let InstanceDraft { revision, spec, .. } = service.slots[at].current;
            if spec.is_some_and(|spec| !pass.has_addresses(&service.key, revision, spec)) {
                return;
            }
            if let Some(spec) = spec {
                pass.take_addresses(&service.key, revision, spec);
            }
            match why {
                Restart::Failed => restart_failed(service.slots.edit(at), pass),
                Restart::PartnerReplaced => restart(service.slots.edit(at), pass),
            }
        }
        Verdict::Exhaust => exhaust(service.slots.edit(at), pass),
        Verdict::Finish(completion) => {
            let slot = service.slots.edit(at);
            let failures = failures_with_this(slot);
            slot.finish(pass, completion, failures);
        }
        Verdict::ForgetFailures => {
            service.slots.edit(at).set_restarts(pass, RestartCount::default());
        }
        Verdict::Move(why) => relocate(service, pass, at, why, choosers),
        Verdict::Start(place) => start(service, pass, at, place, choosers),
        Verdict::Define => define(service, pass, at, choosers),
        // Removed together, replaced by the rollout, or left as they are.
        Verdict::Remove | Verdict::Replace(_) | Verdict::Keep | Verdict::Wait(_) => {}
    }
}

/// Each failed instance counts once, because another one follows it or nothing does.
fn restart_failed<'a>(slot: &mut SlotDraft<'a>, pass: &mut Pass<'a>) {
    let (Some(at), Some(spec)) = (slot.current.at, slot.current.spec) else { return };
    let revision = slot.current.revision;
    let (cause, handover) = (ReplaceCause::Failed, Handover::Abandon);
    let consecutive_failures = failures_with_this(slot);
    slot.replace(pass, Successor { at, revision, spec, cause, handover, consecutive_failures });
}

fn exhaust<'a>(slot: &mut SlotDraft<'a>, pass: &mut Pass<'a>) {
    let consecutive = failures_with_this(slot);
    slot.set_restarts(pass, RestartCount { consecutive, exhausted: Exhausted::Yes });
}

/// Starts a replica anew that holds the namespaces of its partner's old instance.
fn restart<'a>(slot: &mut SlotDraft<'a>, pass: &mut Pass<'a>) {
    let (Some(at), Some(spec)) = (slot.current.at, slot.current.spec) else { return };
    let handover = restart_handover(slot, pass);
    let (revision, cause) = (slot.current.revision, ReplaceCause::ColocatedReplaced);
    let successor = Successor { at, revision, spec, cause, handover, consecutive_failures: 0 };
    slot.replace(pass, successor);
    pass.report.place(slot.id.clone(), slot.current.node, cause.as_str());
}

fn restart_handover(slot: &SlotDraft<'_>, pass: &Pass<'_>) -> Handover {
    let has_room = slot.current.at.zip(slot.current.spec).is_some_and(|(at, spec)| {
        let row = pass.nodes.row(at);
        spec.update.order == UpdateOrder::StartFirst && row.status.is_working() && row.fits(spec)
    });
    if has_room { Handover::StartFirst } else { Handover::StopFirst }
}

/// Moves one replica: it runs there what it ran here, because only a rollout changes that. One whose
/// host joined anew is made there as if it were new.
fn relocate<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    at: usize,
    why: Move,
    choosers: &mut Choosers<'a>,
) {
    let (slot, goal) = (&service.slots[at], service.goal());
    let home = home(slot, pass);
    let (revision, spec) = match slot.current.spec.filter(|_| home.is_none()) {
        Some(spec) => (slot.current.revision, spec),
        None => (goal.revision, goal.spec),
    };
    let node = match home {
        _ if !pass.has_addresses(&service.key, revision, spec) => None,
        Some(home) => open_with_room(home, spec, pass),
        None => choosers.choose(service, pass, at, spec),
    };
    let Some(node) = node else { return service.set_no_node(at) };
    let is_proven = service.proof().of(slot, pass.input.now) == Proven::Yes;
    let has_spare = slot.retiring.as_ref().is_some_and(|old| old.is_running());
    let (cause, handover) = match why {
        Move::Lost => (ReplaceCause::NodeLost, Handover::Abandon),
        // What is not proven is no reason to end what was.
        Move::Leaves if has_spare && !is_proven => (ReplaceCause::Moved, Handover::Abandon),
        Move::Leaves => (ReplaceCause::Moved, Handover::StartFirst),
    };
    let consecutive_failures = slot.restarts.consecutive;
    let successor = Successor { at: node, revision, spec, cause, handover, consecutive_failures };
    place(service, pass, at, successor);
    if spec.hash == goal.spec.hash {
        service.begin_step(pass);
    }
}

/// Starts a slot that operators enabled: where it was, if that has room.
fn start<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    at: usize,
    place_allowed: Place,
    choosers: &mut Choosers<'a>,
) {
    let (slot, Goal { revision, spec, .. }) = (&service.slots[at], service.goal());
    if !pass.has_addresses(&service.key, revision, spec) {
        return service.set_no_node(at);
    }
    let here = match slot.current.at {
        Some(own) => Some(own).filter(|own| {
            let row = pass.nodes.row(*own);
            row.may_start_again(spec) && slot.fits_at(row, spec)
        }),
        None => home(slot, pass).and_then(|home| open_with_room(home, spec, pass)),
    };
    let node = match place_allowed {
        Place::Here => here,
        Place::Anywhere => here.or_else(|| choosers.choose(service, pass, at, spec)),
        Place::Elsewhere => choosers.choose(service, pass, at, spec),
    };
    let Some(node) = node else { return service.set_no_node(at) };
    if here == Some(node) {
        // A chooser has to place all that it counts.
        *choosers = Choosers::default();
    }
    let cause = match slot.completion() {
        Some(_) => ReplaceCause::Failed,
        None => ReplaceCause::Enabled,
    };
    let handover = Handover::Abandon;
    let successor =
        Successor { at: node, revision, spec, cause, handover, consecutive_failures: 0 };
    place(service, pass, at, successor);
    service.begin_step(pass);
}

fn open_with_room(node: NodeIx, spec: &ServiceSpec, pass: &Pass<'_>) -> Option<NodeIx> {
    let row = pass.nodes.row(node);
    (row.takes_replicas() && row.fits(spec)).then_some(node)
}

fn place<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    at: usize,
    successor: Successor<'a>,
) {
    pass.take_addresses(&service.key, successor.revision, successor.spec);
    let slot = service.slots.edit(at);
    slot.replace(pass, successor);
    pass.report.place(slot.id.clone(), slot.current.node, successor.cause.as_str());
}

/// Gives a disabled slot the definition that its service has. One whose host joined anew follows it; one
/// that gets data only now, and ports that another one has on its node, is defined elsewhere.
fn define<'a>(
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    at: usize,
    choosers: &mut Choosers<'a>,
) {
    let (slot, goal) = (&service.slots[at], service.goal());
    let has_no_data = slot.current.spec.is_some_and(|spec| !keeps_lasting(spec, &slot.ordinal));
    let gets_data = has_no_data && keeps_lasting(goal.spec, &slot.ordinal);
    let is_taken = |own: NodeIx| {
        let row = pass.nodes.row(own);
        goal.spec.host_ports.iter().any(|port| row.usage.has_port(*port))
            || !row.lacks_volumes(goal.spec).is_empty()
    };
    let moves = gets_data && slot.current.at.is_some_and(is_taken);
    let another = moves.then(|| choosers.choose(service, pass, at, goal.spec)).flatten();
    let stays_disabled = |node: &NodeIx| {
        let (disabled, node) = (&pass.input.state.disabled, pass.nodes.row(*node).id);
        disabled.of(&service.key, Some(&slot.id), node).is_some()
    };
    let another = another.filter(stays_disabled);
    let slot = service.slots.edit(at);
    let own = another.or(slot.current.at).or_else(|| home(slot, pass));
    let node = own.map_or(slot.current.node, |at| pass.nodes.row(at).id);
    let definition = InstanceDraft {
        node,
        at: own,
        since: None,
        revision: goal.revision,
        hash: goal.spec.hash,
        spec: Some(goal.spec),
        observed: None,
        gpus: Held::NONE,
    };
    slot.define(pass, definition);
}

/// The chooser for the spec that was asked for last: what is full for one spec may have room for
/// another, and almost always there is only one.
#[derive(Default)]
struct Choosers<'a>(Option<(SpecHash, Chooser<'a>)>);

impl<'a> Choosers<'a> {
    /// The node that a slot would get if it were new.
    fn choose(
        &mut self,
        service: &ServiceDraft<'a>,
        pass: &Pass<'a>,
        at: usize,
        spec: &ServiceSpec,
    ) -> Option<NodeIx> {
        if self.0.as_ref().is_some_and(|(hash, _)| *hash != spec.hash) {
            self.0 = None;
        }
        let build = || (spec.hash, Chooser::new(&pass.nodes, service));
        let (_, chooser) = self.0.get_or_insert_with(build);
        chooser.choose(&pass.nodes, spec, &service.slots[at].ordinal)
    }
}
