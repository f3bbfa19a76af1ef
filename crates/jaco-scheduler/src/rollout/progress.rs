//! How far a service's replicas are on the way to its goal.

use std::collections::BTreeSet;

use jaco_types::slot::Exhausted;
use jaco_types::{DesiredState, Ordinal, ReplicaId, RolloutState};

use crate::draft::{Goal, Pass, Phase, Proof, Proven, Roll, ServiceDraft, SlotDraft};
use crate::verdict::{Content, NodeFact, Reported, ServiceFacts, SlotFacts, is_own_kind};

/// How far a service's replicas are on the way to its goal.
pub(super) struct Progress {
    /// Replicas of another spec, or where the goal does not want them, as places in the list of
    /// slots; only those that can be replaced now, those that do not serve first, then by index.
    pub(super) outdated: Vec<usize>,
    /// All of them, also on nodes that do not answer.
    pub(super) outdated_anywhere: u32,
    /// Replicas of a kind that the placement has no use for; they go once the others serve,
    /// if those can.
    pub(super) surplus: u32,
    /// Replicas that a step replaced or created, or a rollback, and that are not proven yet and still
    /// may be; places in the list of slots.
    pub(super) unproven: Vec<(usize, Stage)>,
    /// These, and others that their nodes have not reported yet.
    pub(super) in_flight: u32,
    /// Replicas that do not serve, of whatever spec.
    pub(super) not_serving: u32,
}

/// How far a step is whose successor is not proven yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The successor is not up.
    Starting,
    /// It is up, and the next step waits for its watch time.
    Watched,
    /// It is up, and its predecessor serves until its watch time is over: the next step may begin,
    /// because nothing is missing if this one fails.
    Overlapping,
}

fn stage(slot: &SlotDraft<'_>, proven: Proven, proof: Proof) -> Stage {
    let is_spare = slot.retiring.as_ref().is_some_and(|old| old.is_running())
        && slot.restarts.consecutive == 0
        // Who writes a `monitor` wants the steps to wait for it.
        && proof.monitor(slot).is_none();
    match proven {
        Proven::No => Stage::Starting,
        Proven::NotBefore(_) if is_spare => Stage::Overlapping,
        Proven::NotBefore(_) | Proven::Yes => Stage::Watched,
    }
}

impl Progress {
    pub(super) fn of<'a>(service: &ServiceDraft<'a>, pass: &mut Pass<'a>) -> Self {
        let mut progress = Self {
            outdated: Vec::new(),
            outdated_anywhere: 0,
            surplus: 0,
            unproven: Vec::new(),
            in_flight: 0,
            not_serving: 0,
        };
        let (goal, proof) = (service.goal(), service.proof());
        let facts = ServiceFacts::read(service, pass);
        let is_own = |slot: &SlotDraft<'_>| is_own_kind(slot, &goal.spec.placement);
        let own = service.slots.iter().filter(|slot| is_own(slot)).count();
        let awaited = Awaited::by(service);
        for (at, slot) in service.slots.iter().enumerate() {
            if !is_own(slot) {
                progress.surplus += 1;
                continue;
            }
            // The definition of a disabled slot is updated without a step.
            if slot.desired_state == DesiredState::Disabled {
                continue;
            }
            let SlotFacts { node, content, report, .. } = facts.of(service, slot, pass).facts;
            // What ran to its end can be run anew elsewhere, wherever its node is.
            let is_reachable = slot.completion().is_some()
                || matches!(node, NodeFact::Keeps | NodeFact::Leave(_) | NodeFact::NotPinned);
            progress.not_serving += u32::from(!slot.serves(service.role));
            if content != Content::Current {
                progress.outdated_anywhere += 1;
                match report {
                    _ if !is_reachable => {}
                    // It was placed or restarted a moment ago: one thing at a time.
                    Reported::NotYet => progress.in_flight += 1,
                    Reported::Yes if slot.is_terminating => progress.in_flight += 1,
                    Reported::Yes => progress.outdated.push(at),
                }
            } else if is_reachable
                && slot.restarts.exhausted == Exhausted::No
                && awaited.has(service, slot, pass)
            {
                let proven = proof.of(slot, pass.input.now);
                if let Proven::NotBefore(at) = proven {
                    pass.wake(at);
                }
                if slot.retiring.is_some() || proven != Proven::Yes {
                    progress.in_flight += 1;
                    progress.unproven.push((at, stage(slot, proven, proof)));
                }
            }
        }
        // Their successors cannot be created, or are exhausted: they continue to serve, and nothing waits.
        let is_exhausted = |slot: &SlotDraft<'_>| slot.restarts.exhausted == Exhausted::Yes;
        if own == 0 || service.slots.iter().any(is_exhausted) {
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

    /// How many steps have to get on before the next one may begin. One whose successor is up, while
    /// its predecessor serves, holds up none.
    pub(super) fn places_taken(&self) -> u32 {
        let overlapping =
            self.unproven.iter().filter(|(_, stage)| *stage == Stage::Overlapping).count();
        self.in_flight.saturating_sub(u32::try_from(overlapping).unwrap_or(u32::MAX))
    }

    /// Whether nothing is left to be started or proven.
    pub(super) fn is_through(&self) -> bool {
        self.outdated.is_empty() && self.in_flight == 0 && self.surplus == 0
    }
}

/// Whether a replica is as it is because of the rollout in progress. One that ran what is
/// wanted before, and one of a node that joined later, neither hold it up nor fail it.
pub(super) fn is_step(service: &ServiceDraft<'_>, slot: &SlotDraft<'_>, pass: &Pass<'_>) -> bool {
    let Goal { roll: Roll::Forward, .. } = service.goal() else { return true };
    let Some(rollout) = &service.record.rollout else { return false };
    let came_later = || {
        let row = slot.current.at.map(|at| pass.nodes.row(at));
        matches!(slot.ordinal, Ordinal::Host(_))
            && row.is_some_and(|row| row.node.joined_at > rollout.started_at)
    };
    slot.current.revision > rollout.previous_revision && !came_later()
}

/// Whether a rollout to a revision is in progress.
pub(super) fn is_rolling(service: &ServiceDraft<'_>) -> bool {
    let rollout = service.record.rollout.as_ref();
    rollout.is_some_and(|rollout| rollout.state == RolloutState::InProgress)
}

/// Whether a rollback is in progress.
pub(super) fn is_rolling_back(service: &ServiceDraft<'_>) -> bool {
    service.record.rollout.as_ref().is_some_and(|rollout| rollout.rollback_progress.is_some())
}

/// Whether the first step waits for the nodes to have the image.
pub(super) fn is_prepulling(service: &ServiceDraft<'_>) -> bool {
    service.record.rollout.as_ref().is_some_and(|rollout| rollout.prepull.is_some())
}

/// Whether some active replica is not what its service wants it to be, as far as was judged last.
pub(super) fn needs_steps(service: &ServiceDraft<'_>) -> bool {
    service.agenda().is_none_or(|agenda| agenda.has(Phase::Roll))
}

/// Which replicas a rollout waits for until they are proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// Those that are as they are because of the rollout.
    Steps,
    /// All of them: there are replicas of a kind that the placement has no use for, and what takes over from these
    /// is waited for, whoever made it.
    All,
}

impl Awaited {
    pub(super) fn by(service: &ServiceDraft<'_>) -> Self {
        let placement = &service.goal().spec.placement;
        match service.slots.iter().all(|slot| is_own_kind(slot, placement)) {
            true => Self::Steps,
            false => Self::All,
        }
    }

    fn has(self, service: &ServiceDraft<'_>, slot: &SlotDraft<'_>, pass: &Pass<'_>) -> bool {
        self == Self::All || is_step(service, slot, pass)
    }

    /// Whether a replica was created, started anew or moved since the record was written: it gets the whole
    /// time of a step from now. One whose predecessor of before the rollout still serves has never been
    /// proven, and its time runs on.
    pub(super) fn renews_step(
        self,
        service: &ServiceDraft<'_>,
        slot: &SlotDraft<'_>,
        pass: &Pass<'_>,
    ) -> bool {
        let is_first_attempt = slot
            .retiring
            .as_ref()
            .is_some_and(|retiring| retiring.revision != slot.current.revision);
        let is_newer = slot.current.since.is_none_or(|since| since > service.record.modified);
        // The definition of a disabled slot is updated without a step.
        slot.is_active() && is_newer && !is_first_attempt && self.has(service, slot, pass)
    }
}

/// Whether some replica that is waited for gets the whole time of a step from now.
pub(super) fn is_step_renewed(service: &ServiceDraft<'_>, pass: &Pass<'_>) -> bool {
    let awaited = Awaited::by(service);
    service.slots.iter().any(|slot| awaited.renews_step(service, slot, pass))
}

/// The replicas whose steps have begun and are not over, as the pass leaves them.
pub(crate) fn in_flight<'a>(
    service: &ServiceDraft<'a>,
    pass: &mut Pass<'a>,
) -> BTreeSet<ReplicaId> {
    let is_moving = is_rolling(service) || is_rolling_back(service);
    if !is_moving || is_prepulling(service) || !pass.input.state.audit.records_steps() {
        return BTreeSet::new();
    }
    let unproven = Progress::of(service, pass).unproven;
    unproven.into_iter().map(|(at, _)| service.slots[at].id.clone()).collect()
}
