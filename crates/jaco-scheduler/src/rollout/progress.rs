//! How far a service's replicas are on the way to its goal.

use jaco_types::slot::Exhausted;
use jaco_types::{Ordinal, Timestamp};

use crate::draft::{Goal, Pass, Roll, ServiceDraft, SlotDraft, is_proven, watched_until};
use crate::eligibility::is_misplaced;
use crate::mend::is_own_kind;
use crate::placement::hosts;

/// How far a service's replicas are on the way to its goal.
pub(super) struct Progress {
    /// Replicas of another spec, or where the goal does not want them, as places in the list of
    /// slots; only those that can be replaced now, those that serve nobody first, then by index.
    pub(super) outdated: Vec<usize>,
    /// All of them, also on nodes that do not answer.
    pub(super) outdated_anywhere: u32,
    /// Replicas of a kind that the placement has no use for; they go once the others serve,
    /// if those can.
    pub(super) surplus: u32,
    /// Replicas that a step replaced or made, or that go back, and that are not proven yet and still
    /// may be; places in the list of slots.
    pub(super) unproven: Vec<usize>,
    /// These, and others of which their nodes have not said anything yet.
    pub(super) in_flight: u32,
    /// Until when a failure of what is proven is still its step's; none once that is over.
    pub(super) watched_until: Option<Timestamp>,
    /// Replicas that serve nobody, of whatever spec.
    pub(super) not_serving: u32,
}

impl Progress {
    pub(super) fn of<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Self {
        let mut progress = Self {
            outdated: Vec::new(),
            outdated_anywhere: 0,
            surplus: 0,
            unproven: Vec::new(),
            in_flight: 0,
            watched_until: None,
            not_serving: 0,
        };
        let (goal, proof) = (service.goal, service.proof());
        let may_move = hosts::shortage(service, pass).is_none();
        let is_own = |slot: &SlotDraft<'_>| is_own_kind(slot, &goal.spec.placement);
        let own = service.slots.iter().filter(|slot| is_own(slot)).count();
        let has_surplus = own < service.slots.len();
        for (at, slot) in service.slots.iter().enumerate() {
            if !is_own(slot) {
                progress.surplus += 1;
                continue;
            }
            // What rests has its definition renewed without a step.
            if !slot.is_active() {
                continue;
            }
            let is_reachable =
                slot.current.at.is_some_and(|node| pass.nodes.row(node).status.is_working());
            progress.not_serving += u32::from(!slot.serves(service.role));
            if slot.is_outdated(&goal) || (may_move && is_misplaced(slot, &goal, &pass.nodes)) {
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
                // What takes over from the other kind is waited for, whoever made it.
                && (has_surplus || is_step(service, slot, pass))
            {
                if slot.retiring.is_some() || !is_proven(slot, proof, pass) {
                    progress.in_flight += 1;
                    progress.unproven.push(at);
                } else {
                    progress.watched_until = progress.watched_until.max(watched_until(slot, pass));
                }
            }
        }
        // What takes over from them cannot be made, or is left alone: they serve on, and nothing waits.
        let is_spent = |slot: &SlotDraft<'_>| slot.restarts.exhausted == Exhausted::Yes;
        if own == 0 || service.slots.iter().any(is_spent) {
            progress.surplus = 0;
        }
        let rank =
            |at: &usize| (service.slots[*at].serves(service.role), &service.slots[*at].ordinal);
        progress.outdated.sort_by(|a, b| rank(a).cmp(&rank(b)));
        progress
    }

    /// What a rollout that begins now has to do.
    pub(super) fn steps(&self) -> u32 {
        let unproven = u32::try_from(self.unproven.len()).unwrap_or(u32::MAX);
        self.outdated_anywhere.saturating_add(self.surplus).saturating_add(unproven)
    }

    /// How many of so many steps are over.
    pub(super) fn done(&self, total: u32) -> u32 {
        let unproven = u32::try_from(self.unproven.len()).unwrap_or(u32::MAX);
        let ahead = self.outdated_anywhere.saturating_add(self.surplus);
        total.saturating_sub(ahead).saturating_sub(unproven)
    }

    /// Whether nothing is left to be started or proven.
    pub(super) fn is_through(&self) -> bool {
        self.outdated.is_empty() && self.in_flight == 0 && self.surplus == 0
    }
}

/// Whether a replica is as it is because of the rollout that is under way. One that ran what is
/// wanted before, and one of a node that joined later, neither hold it up nor fail it.
pub(super) fn is_step(service: &ServiceDraft<'_>, slot: &SlotDraft<'_>, pass: &Pass<'_>) -> bool {
    let Goal { roll: Roll::Forward, .. } = service.goal else { return true };
    let Some(rollout) = &service.record.rollout else { return false };
    let came_later = || {
        let row = slot.current.at.map(|at| pass.nodes.row(at));
        matches!(slot.ordinal, Ordinal::Host(_))
            && row.is_some_and(|row| row.node.joined_at > rollout.started_at)
    };
    slot.current.revision > rollout.previous_revision && !came_later()
}
