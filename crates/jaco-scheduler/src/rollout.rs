//! Replacing the replicas of a service one after another (R-ROLL-1 to R-ROLL-4), and going back
//! when that fails.
//!
//! A step puts a successor in. It is over when no replica of the goal is unproven. The step that
//! takes too long, or whose replica fails for good, ends the rollout for good.

use jaco_state::command::ReplaceCause;
use jaco_types::slot::Exhausted;
use jaco_types::spec::{BackPolicy, FailureAction, Storage, UpdateOrder};
use jaco_types::{
    NodeId, Ordinal, ReplicaId, ReplicaState, RestartCount, Revision, Rollout, RolloutState,
    Timestamp,
};

use crate::company::{InCompany, in_order, meet};
use crate::draft::{
    Draft, Goal, Handover, Live, Pass, Roll, ServiceDraft, SlotDraft, Successor, is_proven,
};
use crate::eligibility::{Stay, where_it_is};
use crate::mend::is_own_kind;
use crate::node_table::{NodeIx, NodeRow};
use crate::placement::Chooser;
use crate::prepare::{self, Stand};
use crate::waiting::Waiting;

/// Whether an aborted rollout was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It was aborted now, and what was under way was reverted.
    Aborted,
    /// All is as it was.
    Unchanged,
}

/// Whether steps may have given room back that others wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freed {
    /// Some room.
    Something,
    /// None.
    Nothing,
}

/// Sets what the service's replicas should become: the wanted revision, or the one before it where
/// the rollout to it was aborted.
pub(crate) fn set_goal(service: &mut ServiceDraft<'_>) {
    let target = service.deployment.revision;
    let rollout = service.record.rollout.as_ref();
    match rollout.filter(|one| one.target_revision == target).map(|one| one.state) {
        Some(RolloutState::Aborted) => service.goal = goal_after_abort(service),
        Some(RolloutState::Paused) => service.goal.roll = Roll::Frozen,
        Some(RolloutState::InProgress | RolloutState::Completed) | None => {}
    }
}

fn goal_after_abort<'a>(service: &ServiceDraft<'a>) -> Goal<'a> {
    let wanted = Goal { roll: Roll::Frozen, ..service.goal };
    let Some(revision) = previous_good(service) else { return wanted };
    match service.spec_at(revision) {
        Some(spec) => Goal { revision, spec, roll: Roll::Back },
        None => wanted,
    }
}

/// The revision that the rollout led away from; where replicas had none in common, the newest before
/// the wanted one that is kept. Either with another spec of this service.
fn previous_good(service: &ServiceDraft<'_>) -> Option<Revision> {
    let target = service.deployment.revision;
    let unwanted = service.spec_at(target).map(|spec| spec.hash);
    let is_other = |revision: &Revision| {
        service.spec_at(*revision).is_some_and(|spec| Some(spec.hash) != unwanted)
    };
    let noted = service.record.rollout.as_ref().map(|rollout| rollout.previous_revision);
    let kept = || service.deployment.revisions.range(..target).map(|(revision, _)| *revision);
    noted.filter(is_other).or_else(|| kept().rev().find(is_other))
}

/// What the replicas served before a rollout: the revision that the last one led to or went back
/// to, else the newest that a running replica runs, else the newest that one was made from.
fn serving_revision(service: &ServiceDraft<'_>) -> Revision {
    let target = service.deployment.revision;
    let of_last = service.record.rollout.as_ref().map(|rollout| match rollout.state {
        RolloutState::Completed => rollout.target_revision,
        RolloutState::Aborted | RolloutState::InProgress | RolloutState::Paused => {
            rollout.previous_revision
        }
    });
    let runs = |wanted: Revision| {
        let slots = service.slots.iter();
        slots.flat_map(|slot| slot.live()).any(|live| live.revision == wanted)
    };
    let newest = |is_eligible: fn(&&Live<'_>) -> bool| {
        let live = service.slots.iter().flat_map(|slot| slot.live()).filter(is_eligible);
        live.map(|live| live.revision).filter(|revision| *revision < target).max()
    };
    of_last
        .filter(|revision| runs(*revision))
        .or_else(|| newest(|live| live.is_running()))
        .or_else(|| newest(|_| true))
        .unwrap_or_default()
}

/// Answers the steps that failed: those that may are passed over, and too many end the rollout the
/// way that the service asks for.
pub(crate) fn judge<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Judgement {
    let Some(rollout) =
        service.record.rollout.as_ref().filter(|_| service.goal.roll == Roll::Forward)
    else {
        return Judgement::Unchanged;
    };
    let is_ours = rollout.target_revision == service.deployment.revision;
    if !is_ours || rollout.state != RolloutState::InProgress {
        return Judgement::Unchanged;
    }
    if rollout.preparing.is_some() {
        return judge_preparing(service, pass);
    }
    let (current_step, last_step_at) = (rollout.current_step, rollout.last_step_at);
    let total = rollout.total_steps.max(1);
    let progress = Progress::of(service, pass);
    let policy = service.goal.spec.update;
    let due = last_step_at.after(policy.step_timeout);
    let is_open = progress.is_open(current_step);
    let late = progress.unproven.filter(|_| is_open && pass.input.now >= due);
    let is_spent = |slot: &&SlotDraft<'_>| {
        slot.restarts.exhausted == Exhausted::Yes && !slot.is_outdated(&service.goal)
    };
    let spent: Vec<&ReplicaId> =
        service.slots.iter().filter(is_spent).map(|slot| &slot.id).collect();
    let reason = match (spent.first(), late) {
        (Some(spent), _) => format!("restart_exhausted: {spent} failed too often in a row"),
        (None, Some(late)) => {
            let (late, limit) = (&service.slots[late].id, policy.step_timeout);
            format!("step_timeout: {late} did not run within {limit}")
        }
        (None, None) => {
            if is_open {
                pass.wake(due);
            }
            return Judgement::Unchanged;
        }
    };
    let failed = u64::try_from(spent.len()).unwrap_or(u64::MAX) + u64::from(late.is_some());
    let may_fail = u64::from(policy.max_failure_permille) * u64::from(total) / 1000;
    let action = if failed <= may_fail { FailureAction::Continue } else { policy.failure_action };
    match action {
        FailureAction::Rollback => {
            abort(service, pass, reason);
            Judgement::Aborted
        }
        FailureAction::Pause => {
            pause(service, reason);
            Judgement::Unchanged
        }
        FailureAction::Continue => {
            match late {
                Some(late) => leave_alone(&mut service.slots[late], pass),
                None if is_open => pass.wake(due),
                None => {}
            }
            Judgement::Unchanged
        }
    }
}

/// Answers a node that cannot get the image: nothing was replaced yet.
fn judge_preparing<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Judgement {
    let action = service.goal.spec.update.failure_action;
    let reason = match prepare::follow(service, pass) {
        Stand::Waits => return Judgement::Unchanged,
        Stand::Through => None,
        Stand::Failed(reason) => Some(reason).filter(|_| action != FailureAction::Continue),
    };
    if let Some(rollout) = &mut service.record.rollout {
        rollout.preparing = None;
    }
    match (reason, action) {
        (None, _) => Judgement::Unchanged,
        (Some(reason), FailureAction::Pause) => {
            pause(service, reason);
            Judgement::Unchanged
        }
        (Some(reason), FailureAction::Rollback | FailureAction::Continue) => {
            abort(service, pass, reason);
            Judgement::Aborted
        }
    }
}

/// Replaces nothing more: what runs goes on, what failed stays as it is with its predecessor.
fn pause(service: &mut ServiceDraft<'_>, reason: String) {
    service.goal.roll = Roll::Frozen;
    if let Some(rollout) = &mut service.record.rollout {
        rollout.state = RolloutState::Paused;
        rollout.failure_reason = reason;
    }
}

/// Nothing more is tried with a replica until the next apply.
fn leave_alone<'a>(slot: &mut SlotDraft<'a>, pass: &mut Pass<'a>) {
    let consecutive = slot.restarts.consecutive.saturating_add(1);
    slot.set_restarts(pass, RestartCount { consecutive, exhausted: Exhausted::Yes });
}

fn abort<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, reason: String) {
    let target = service.goal;
    service.goal = goal_after_abort(service);
    if let Some(rollout) = &mut service.record.rollout {
        rollout.state = RolloutState::Aborted;
        rollout.failure_reason = reason;
    }
    if service.goal.roll == Roll::Frozen {
        return;
    }
    let is_under_way = |slot: &&mut SlotDraft<'_>| {
        slot.current.hash == target.spec.hash
            && slot.retiring.is_some_and(|retiring| retiring.hash != target.spec.hash)
    };
    for slot in service.slots.iter_mut().filter(is_under_way) {
        slot.revert(pass);
    }
}

/// How far a service's replicas are on the way to its goal.
struct Progress {
    /// Replicas of another spec, as places in the list of slots; only those that can be replaced
    /// now, those that serve nobody first, then by index.
    outdated: Vec<usize>,
    /// All replicas of another spec, also on nodes that do not answer.
    outdated_anywhere: u32,
    total: u32,
    /// Replicas of the goal that are not proven yet and still may be, and others of which their
    /// nodes have not said anything yet.
    in_flight: u32,
    /// One of the former.
    unproven: Option<usize>,
    /// Replicas that serve nobody, of whatever spec.
    not_serving: u32,
}

impl Progress {
    fn of<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Self {
        let mut progress = Self {
            outdated: Vec::new(),
            outdated_anywhere: 0,
            total: service.record.rollout.as_ref().map_or(0, |rollout| rollout.total_steps),
            in_flight: 0,
            unproven: None,
            not_serving: 0,
        };
        let placement = &service.goal.spec.placement;
        // What rests has its definition renewed without a step.
        let own = service
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.is_active() && is_own_kind(slot, placement));
        for (at, slot) in own {
            let is_reachable =
                slot.current.at.is_some_and(|node| pass.nodes.row(node).status.is_working());
            let serves = slot.serves(service.role);
            progress.not_serving += u32::from(!serves);
            if slot.is_outdated(&service.goal) {
                progress.outdated_anywhere += 1;
                match slot.current.seen {
                    Some(_) if is_reachable && slot.is_leaving => progress.in_flight += 1,
                    Some(_) if is_reachable => progress.outdated.push(at),
                    // It was placed or restarted a moment ago: one thing at a time.
                    None if is_reachable => progress.in_flight += 1,
                    Some(_) | None => {}
                }
            } else if is_reachable
                && slot.restarts.exhausted == Exhausted::No
                && (slot.retiring.is_some() || !is_proven(&slot.current, service.role, pass))
            {
                progress.in_flight += 1;
                progress.unproven = progress.unproven.or(Some(at));
            }
        }
        let rank =
            |at: &usize| (service.slots[*at].serves(service.role), &service.slots[*at].ordinal);
        progress.outdated.sort_by(|a, b| rank(a).cmp(&rank(b)));
        progress
    }

    fn started(&self) -> u32 {
        self.total.saturating_sub(self.outdated_anywhere)
    }

    fn done(&self) -> u32 {
        self.started().saturating_sub(self.in_flight)
    }

    /// Whether a step was started and is not over. A replica that was proven and fails later opens
    /// no step again, so that its failure is answered by a restart and not by the clock.
    fn is_open(&self, current_step: u32) -> bool {
        self.in_flight > 0 && self.started() > current_step
    }
}

/// Starts rollouts, their next steps, and ends those that are through.
pub(crate) fn advance(draft: &mut Draft<'_>) -> Freed {
    let mut freed = Freed::Nothing;
    for at in in_order(&draft.services) {
        meet(&mut draft.services, at);
        if advance_service(&mut draft.services[at], &mut draft.pass) == Freed::Something {
            freed = Freed::Something;
        }
    }
    freed
}

fn advance_service<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Freed {
    if service.goal.roll == Roll::Frozen || is_quiet(service) {
        return Freed::Nothing;
    }
    let mut progress = Progress::of(service, pass);
    if service.goal.roll == Roll::Forward {
        let was_preparing = is_preparing(service);
        keep_record(service, pass, &mut progress);
        if is_preparing(service) && !was_preparing {
            // A node may have given up on the same image a moment ago.
            judge_preparing(service, pass);
        }
        if service.goal.roll != Roll::Forward || is_preparing(service) {
            return Freed::Nothing;
        }
    }
    let step_at = next_step_at(service);
    if pass.input.now < step_at {
        if !progress.outdated.is_empty() {
            pass.wake(step_at);
        }
        return Freed::Nothing;
    }
    take_steps(service, pass, &progress)
}

/// Whether its first step waits for the nodes.
fn is_preparing(service: &ServiceDraft<'_>) -> bool {
    service.record.rollout.as_ref().is_some_and(|rollout| rollout.preparing.is_some())
}

/// Nothing is outdated and no rollout is under way: the case of almost every service.
fn is_quiet(service: &ServiceDraft<'_>) -> bool {
    let under_way = service
        .record
        .rollout
        .as_ref()
        .is_some_and(|rollout| rollout.state == RolloutState::InProgress);
    let is_outdated = |slot: &SlotDraft<'_>| slot.is_active() && slot.is_outdated(&service.goal);
    !under_way && !service.slots.iter().any(is_outdated)
}

/// Writes down where the rollout stands, before its next step.
fn keep_record<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>, progress: &mut Progress) {
    let target = service.deployment.revision;
    let now = pass.input.now;
    let is_current = service.record.rollout.as_ref().is_some_and(|rollout| {
        rollout.target_revision == target && rollout.state == RolloutState::InProgress
    });
    if !is_current {
        let was_left_behind = service
            .record
            .rollout
            .as_ref()
            .is_some_and(|rollout| rollout.state == RolloutState::InProgress);
        if progress.outdated.is_empty() && !was_left_behind {
            return;
        }
        progress.total = progress.outdated_anywhere;
        let previous_revision = serving_revision(service);
        service.record.rollout = Some(Rollout {
            target_revision: target,
            previous_revision,
            total_steps: progress.total,
            current_step: 0,
            state: RolloutState::InProgress,
            failure_reason: String::new(),
            started_at: now,
            last_step_at: now,
            preparing: None,
        });
        let preparing = prepare::begin(service, pass, places(service, pass, progress));
        if let Some(rollout) = &mut service.record.rollout {
            rollout.preparing = preparing;
        }
    }
    let Some(rollout) = &mut service.record.rollout else { return };
    rollout.current_step = rollout.current_step.max(progress.done().min(rollout.total_steps));
    if progress.outdated.is_empty() && progress.in_flight == 0 {
        rollout.current_step = rollout.total_steps;
        rollout.state = RolloutState::Completed;
        rollout.preparing = None;
    }
}

/// Where the successors go, each with what runs there now.
fn places<'a>(
    service: &ServiceDraft<'a>,
    pass: &Pass<'a>,
    progress: &Progress,
) -> Vec<(NodeId, Option<Live<'a>>)> {
    let place = |at: &usize| {
        let slot = &service.slots[*at];
        let (node, _) = way_of(service, pass, *at)?;
        let there = (slot.current.at == Some(node)).then_some(slot.current);
        Some((pass.nodes.row(node).node.id, there))
    };
    progress.outdated.iter().filter_map(place).collect()
}

/// How fast replicas are replaced, and in which order: as the wanted revision says for the way that
/// they go.
fn pace(service: &ServiceDraft<'_>) -> BackPolicy {
    let policy = service.goal.spec.update;
    match service.goal.roll {
        Roll::Forward | Roll::Frozen => {
            let (parallelism, order, delay) = (policy.parallelism, policy.order, policy.delay);
            BackPolicy { parallelism, order, delay }
        }
        Roll::Back => {
            let wanted = service.spec_at(service.deployment.revision);
            wanted.map_or(policy.back, |spec| spec.update.back)
        }
    }
}

/// When the next step may begin: `delay` after the last one did, the first at once.
fn next_step_at(service: &ServiceDraft<'_>) -> Timestamp {
    match &service.record.rollout {
        Some(rollout) if service.goal.roll == Roll::Forward && rollout.current_step > 0 => {
            rollout.last_step_at.after(service.goal.spec.update.delay)
        }
        Some(rollout) if service.goal.roll == Roll::Back => {
            rollout.last_step_at.after(pace(service).delay)
        }
        Some(_) | None => Timestamp(0),
    }
}

fn take_steps<'a>(
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
        let cause = ReplaceCause::SpecChanged;
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
fn way_of<'a>(
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
    let retiring = slot.retiring.as_ref().filter(|_| keep == Keep::Nothing);
    for live in std::iter::once(&slot.current).chain(retiring) {
        if let Some(spec) = live.spec.filter(|_| live.node == row.node.id) {
            row.usage.release(spec, live.gpus.ids(row.node));
        }
    }
    row.fits(goal.spec)
}

/// Replicas that would be replaced if what they cannot do without were not being replaced itself.
pub(crate) fn held<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Vec<Waiting<'a>> {
    if service.company.is_empty() || service.goal.roll == Roll::Frozen || is_quiet(service) {
        return Vec::new();
    }
    let outdated = Progress::of(service, pass).outdated;
    let held = outdated.into_iter().map(|at| &service.slots[at]);
    let held = held.filter(|slot| slot.company == InCompany::Soon);
    let beside = companions(service);
    held.map(|slot| Waiting::ForCompany { replica: slot.id.clone(), beside: beside.clone() })
        .collect()
}

/// What replicas of a service cannot do without, for people.
pub(crate) fn companions(service: &ServiceDraft<'_>) -> String {
    let beside = service.goal.spec.scheduling.beside.iter();
    beside.map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Replicas that could be replaced and have nowhere to be, where nothing else of the service is
/// under way that could make room.
pub(crate) fn stuck<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Vec<ReplicaId> {
    if service.goal.roll == Roll::Frozen || is_quiet(service) {
        return Vec::new();
    }
    let progress = Progress::of(service, pass);
    if progress.in_flight > 0 {
        return Vec::new();
    }
    let mut stuck = progress.outdated;
    stuck.retain(|at| {
        service.slots[*at].company != InCompany::Soon && way_of(service, pass, *at).is_none()
    });
    stuck.into_iter().map(|at| service.slots[at].id.clone()).collect()
}
