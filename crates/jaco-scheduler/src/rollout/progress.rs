//! How far a service's replicas are on the way to its goal.

use jaco_types::slot::Exhausted;

use crate::draft::{Pass, ServiceDraft, is_proven};
use crate::mend::is_own_kind;

/// How far a service's replicas are on the way to its goal.
pub(super) struct Progress {
    /// Replicas of another spec, as places in the list of slots; only those that can be replaced
    /// now, those that serve nobody first, then by index.
    pub(super) outdated: Vec<usize>,
    /// All replicas of another spec, also on nodes that do not answer.
    pub(super) outdated_anywhere: u32,
    pub(super) total: u32,
    /// Replicas of the goal that are not proven yet and still may be, and others of which their
    /// nodes have not said anything yet.
    pub(super) in_flight: u32,
    /// One of the former.
    pub(super) unproven: Option<usize>,
    /// Replicas that serve nobody, of whatever spec.
    pub(super) not_serving: u32,
}

impl Progress {
    pub(super) fn of<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Self {
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

    pub(super) fn started(&self) -> u32 {
        self.total.saturating_sub(self.outdated_anywhere)
    }

    pub(super) fn done(&self) -> u32 {
        self.started().saturating_sub(self.in_flight)
    }

    /// Whether a step was started and is not over. A replica that was proven and fails later opens
    /// no step again, so that its failure is answered by a restart and not by the clock.
    pub(super) fn is_open(&self, current_step: u32) -> bool {
        self.in_flight > 0 && self.started() > current_step
    }
}
