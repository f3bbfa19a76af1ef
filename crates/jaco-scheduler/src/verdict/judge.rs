//! What becomes of a slot: one function, from the facts about it to the verdict.
//!
//! Everything that the planner does about a replica that exists, and everything that it reports about
//! one that waits, is a row of a table here. Facts are collected in `facts.rs`; phases (`phases/`,
//! `rollout/`) carry verdicts out, and choose nodes, and decide nothing else about a slot.

use jaco_types::Completion;

use super::slot_facts::{
    Bound, Content, Desired, Endpoints, Failure, HandoverFact, Hosts, Need, NodeFact, Reported,
    Restarts, SlotFacts,
};
use crate::draft::{Phase, Search};
use crate::eligibility::Colocation;

/// What is done with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It stays as it is.
    Keep,
    /// It stops, and keeps its place.
    Disable,
    /// Its handover is abandoned: it would be disabled where it goes, and serves where it was.
    Revert,
    /// It goes.
    Remove,
    /// The retiring instance ends.
    CompleteHandover,
    /// It gets a new instance of the same content on its node.
    Restart(Restart),
    /// Nothing more is tried with it.
    Exhaust,
    /// It ran to its end, and is not run again.
    Finish(Completion),
    /// Its failures in a row are forgotten.
    ForgetFailures,
    /// It gets a new instance of the same content on another node.
    Move(Move),
    /// A disabled slot gets an instance.
    Start(Place),
    /// It gets a new instance of the wanted content, as a step of a rollout.
    Replace(Place),
    /// The definition of a disabled slot becomes the wanted one.
    Define,
    /// It waits.
    Wait(Wait),
}

/// Why a slot is restarted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    Failed,
    /// The service that it shares namespaces with was replaced.
    PartnerReplaced,
}

/// Why a slot moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    /// Its node cannot run it any more: nothing of it is left to hand over.
    Lost,
    /// Its node runs it until the successor serves.
    Leaves,
}

/// Where a slot may get its next instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On its node only.
    Here,
    /// On its node or another one.
    Anywhere,
    /// On another node only.
    Elsewhere,
}

/// What a slot waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Its node answers again, because its data is there.
    DataOnLostNode,
    /// Its data is on a node that it should leave.
    DataOnLeavingNode,
    /// Its node has room, because its data is there.
    NoRoomToStart,
    /// No node takes it.
    NoNode,
    /// Its node answers again, or `on-node-loss` lets it be placed elsewhere.
    UnreachableNode,
    /// A partner, which is being replaced.
    Partner,
    /// The same, and nothing is to be done with it meanwhile.
    PartnerOnly,
    /// Enough pinned hosts; reported once for the service.
    PinnedHosts,
    /// The node that it is named after.
    OwnHost,
    /// An operator, because its restart budget is exhausted.
    Operator,
    /// The end of an earlier instance.
    Termination,
    /// Its successor to be proven.
    Handover,
    /// The end of its crash loop back-off.
    BackOff,
    /// Having run for long enough.
    SteadyRun,
    /// Its turn in a rollout.
    Rollout,
    /// Slots of the wanted kind to serve.
    Successors,
    /// The end of the job that it runs.
    Job,
}

/// The verdict about a slot. Total: each question is a table of its own, and the first that has an
/// answer decides.
pub(crate) fn judge(facts: &SlotFacts) -> Verdict {
    finished(facts)
        .or_else(|| unwanted(facts))
        .or_else(|| disabled(facts))
        .or_else(|| repair(facts))
        .or_else(|| relocation(facts))
        .or_else(|| rollout(facts))
        .or_else(|| waiting(facts))
        .unwrap_or(Verdict::Keep)
}

/// Has it run to its end (R-JOB-1)? That is recorded before anything else is done with it, and only
/// another spec runs it again.
fn finished(facts: &SlotFacts) -> Option<Verdict> {
    match (facts.need, facts.desired, facts.completion) {
        (Need::Surplus | Need::Superseded, ..) => None,
        (_, Desired::Retried, _) if facts.content == Content::Current => Some(retry(facts)),
        (_, Desired::Finished | Desired::FinishedAndDisabled | Desired::Retried, _) => {
            Some(run_again(facts))
        }
        (_, _, Some(completion)) => Some(Verdict::Finish(completion)),
        (_, _, None) => None,
    }
}

/// Where may what failed be run once more?
fn retry(facts: &SlotFacts) -> Verdict {
    match start(facts).filter(|_| facts.search == Search::Open) {
        Some(place) => Verdict::Start(place),
        None => Verdict::Wait(waiting_to_start(facts)),
    }
}

/// Is what ran to its end to be run as something else now? A global replica goes with its node.
fn run_again(facts: &SlotFacts) -> Verdict {
    match (facts.content, facts.node, facts.bound) {
        (_, NodeFact::Gone | NodeFact::Returned, Bound::Host) => Verdict::Remove,
        (Content::Current | Content::Misplaced, ..) => Verdict::Keep,
        (Content::Paused, ..) => Verdict::Wait(Wait::Rollout),
        (Content::Outdated, ..) if facts.desired == Desired::FinishedAndDisabled => {
            Verdict::Disable
        }
        (Content::Outdated, ..) if facts.colocation == Colocation::Pending => {
            Verdict::Wait(Wait::Partner)
        }
        (_, NodeFact::Leave(_), Bound::Host) => Verdict::Remove,
        (_, NodeFact::Silent | NodeFact::Lost, Bound::Host) => Verdict::Wait(Wait::OwnHost),
        (_, NodeFact::Keeps | NodeFact::NotPinned | NodeFact::Leave(_), Bound::Data)
        | (_, NodeFact::Keeps | NodeFact::NotPinned, Bound::Host) => Verdict::Replace(Place::Here),
        (_, _, Bound::Data) => Verdict::Wait(Wait::DataOnLostNode),
        (_, NodeFact::Keeps, Bound::Free | Bound::Job) => Verdict::Replace(Place::Anywhere),
        (_, _, Bound::Free | Bound::Job) => Verdict::Replace(Place::Elsewhere),
    }
}

/// Should nothing of it run here? A global replica goes with its node and with its partner.
fn unwanted(facts: &SlotFacts) -> Option<Verdict> {
    match (facts.desired, facts.need, facts.bound, facts.node) {
        (Desired::Disabling, ..) => Some(Verdict::Disable),
        (Desired::Returning, ..) => Some(Verdict::Revert),
        (_, Need::Surplus | Need::Superseded, ..) => Some(Verdict::Remove),
        (_, Need::Wanted, Bound::Host, NodeFact::Gone | NodeFact::Leave(_)) => {
            Some(Verdict::Remove)
        }
        (_, Need::Wanted | Need::Interim, ..) => None,
    }
}

/// Is it disabled? Then it starts once operators want that and a node takes it; until then its
/// definition follows its service.
fn disabled(facts: &SlotFacts) -> Option<Verdict> {
    let is_free_to_start = facts.need == Need::Wanted
        && facts.endpoints == Endpoints::Free
        && facts.search == Search::Open;
    let start = start(facts).filter(|_| is_free_to_start);
    match (facts.desired, start, facts.content, facts.node, facts.need, facts.endpoints) {
        (
            Desired::Active
            | Desired::Disabling
            | Desired::Returning
            | Desired::Finished
            | Desired::Retried
            | Desired::FinishedAndDisabled,
            ..,
        ) => None,
        (Desired::Starting, Some(place), ..) => Some(Verdict::Start(place)),
        (_, _, Content::Outdated | Content::Misplaced | Content::Paused, ..)
        | (_, _, _, NodeFact::Returned, ..) => Some(Verdict::Define),
        (.., Need::Interim | Need::Surplus | Need::Superseded, _) => {
            Some(Verdict::Wait(Wait::Successors))
        }
        (.., Endpoints::Terminating) => Some(Verdict::Wait(Wait::Termination)),
        (Desired::Disabled, ..) => Some(Verdict::Keep),
        (Desired::Starting, ..) => Some(Verdict::Wait(waiting_to_start(facts))),
    }
}

/// Where a disabled slot may start.
fn start(facts: &SlotFacts) -> Option<Place> {
    match (facts.node, facts.bound, facts.colocation, facts.hosts) {
        (NodeFact::Returned, ..) => Some(Place::Here),
        (NodeFact::Keeps, _, Colocation::Pending | Colocation::Missing, _) => None,
        (NodeFact::Keeps, Bound::Free | Bound::Job, _, Hosts::Enough) => Some(Place::Anywhere),
        (NodeFact::Keeps, ..) => Some(Place::Here),
        (NodeFact::Silent, ..) => None,
        (_, Bound::Free | Bound::Job, _, Hosts::Enough) => Some(Place::Elsewhere),
        (_, Bound::Data | Bound::Host, ..) | (_, Bound::Free | Bound::Job, _, Hosts::Short) => None,
    }
}

fn waiting_to_start(facts: &SlotFacts) -> Wait {
    match (facts.bound, facts.node, facts.hosts) {
        (Bound::Host, ..) => Wait::OwnHost,
        (_, NodeFact::Keeps, _) if facts.colocation == Colocation::Pending => Wait::Partner,
        (Bound::Data, NodeFact::Keeps | NodeFact::Returned, _) => Wait::NoRoomToStart,
        (Bound::Data, NodeFact::Leave(_) | NodeFact::NotPinned, _) => Wait::DataOnLeavingNode,
        (Bound::Data, ..) => Wait::DataOnLostNode,
        (Bound::Free | Bound::Job, _, Hosts::Short) => Wait::PinnedHosts,
        (Bound::Free | Bound::Job, NodeFact::Silent, _) => Wait::UnreachableNode,
        (Bound::Free | Bound::Job, ..) => Wait::NoNode,
    }
}

/// Is something to be put right where it is? What should leave its node is not restarted there first,
/// unless its data keeps it there; and without its partner it cannot start.
fn repair(facts: &SlotFacts) -> Option<Verdict> {
    let is_handed_over = facts.handover == HandoverFact::Over;
    let stays = match (facts.node, facts.bound) {
        (NodeFact::Keeps, _)
        | (NodeFact::Leave(_) | NodeFact::NotPinned, Bound::Data | Bound::Job) => true,
        (NodeFact::Leave(_) | NodeFact::NotPinned, Bound::Free | Bound::Host)
        | (NodeFact::Silent | NodeFact::Lost | NodeFact::Gone | NodeFact::Returned, _) => false,
    };
    let has_partner = match (facts.colocation, facts.handover) {
        (Colocation::Met, _) => true,
        // A failed successor would wait for the end of its handover, and that for the successor.
        (Colocation::Replaced, HandoverFact::Pending) => true,
        (Colocation::Replaced | Colocation::Pending | Colocation::Missing, _) => false,
    };
    let can_start = stays && has_partner;
    match (facts.failure, facts.restarts) {
        _ if is_handed_over => Some(Verdict::CompleteHandover),
        (Failure::BudgetSpent, _) if can_start => Some(Verdict::Exhaust),
        (Failure::Restartable, _) if can_start => Some(Verdict::Restart(Restart::Failed)),
        (_, Restarts::Forgettable) => Some(Verdict::ForgetFailures),
        _ if facts.need == Need::Interim => Some(Verdict::Wait(Wait::Successors)),
        _ => None,
    }
}

/// Does it leave a node that cannot or should not keep it (R-NODE-1, R-NODE-2)? A namespace goes with
/// its container, so who holds that of a partner's old instance starts anew.
fn relocation(facts: &SlotFacts) -> Option<Verdict> {
    let may_go = facts.hosts == Hosts::Enough && facts.search == Search::Open;
    let can_leave = may_go && facts.bound == Bound::Free;
    let can_move = may_go && matches!(facts.bound, Bound::Free | Bound::Job);
    let is_free = facts.endpoints == Endpoints::Free;
    match (facts.node, facts.restarts) {
        (NodeFact::Returned, _) if facts.search == Search::Open => Some(Verdict::Move(Move::Lost)),
        (NodeFact::Lost, Restarts::Exhausted) => None,
        (NodeFact::Lost | NodeFact::Gone, _) if can_move => Some(Verdict::Move(Move::Lost)),
        (NodeFact::Leave(_), _) if can_leave && is_free => Some(Verdict::Move(Move::Leaves)),
        (_, Restarts::Exhausted) => None,
        (NodeFact::Keeps | NodeFact::Leave(_) | NodeFact::NotPinned, _)
            if facts.colocation == Colocation::Replaced
                && facts.handover == HandoverFact::None
                && is_free =>
        {
            Some(Verdict::Restart(Restart::PartnerReplaced))
        }
        _ => None,
    }
}

/// Is it not what its service wants it to be? Then a step of the rollout replaces it, once its node
/// has reported what it is: one thing at a time.
fn rollout(facts: &SlotFacts) -> Option<Verdict> {
    let place = match (facts.node, facts.bound) {
        (NodeFact::Leave(_) | NodeFact::NotPinned, Bound::Free | Bound::Job) => Place::Elsewhere,
        (NodeFact::Keeps, Bound::Free | Bound::Job) => Place::Anywhere,
        (NodeFact::Keeps | NodeFact::Leave(_) | NodeFact::NotPinned, _) => Place::Here,
        (NodeFact::Silent | NodeFact::Lost | NodeFact::Gone | NodeFact::Returned, _) => {
            return None;
        }
    };
    match (facts.content, facts.report, facts.endpoints, facts.colocation) {
        (Content::Current | Content::Paused, ..)
        | (_, Reported::NotYet, ..)
        | (_, _, Endpoints::Terminating, _) => None,
        // A job that runs is not begun again on another host: only another spec ends it.
        (Content::Misplaced, ..) if facts.bound == Bound::Job => None,
        (.., Colocation::Pending) => Some(Verdict::Wait(Wait::Partner)),
        (Content::Outdated | Content::Misplaced, ..) => Some(Verdict::Replace(place)),
    }
}

/// Does it wait? For what an operator can do something about first.
fn waiting(facts: &SlotFacts) -> Option<Verdict> {
    stranded(facts).or(in_motion(facts)).or(unsettled(facts)).map(Verdict::Wait)
}

/// Is something of it on its way?
fn in_motion(facts: &SlotFacts) -> Option<Wait> {
    match (facts.handover, facts.failure, facts.endpoints) {
        (HandoverFact::Pending, ..) => Some(Wait::Handover),
        (_, Failure::BackOff, _) => Some(Wait::BackOff),
        (.., Endpoints::Terminating) => Some(Wait::Termination),
        _ => None,
    }
}

/// Is it not all that it should be yet?
fn unsettled(facts: &SlotFacts) -> Option<Wait> {
    match (facts.colocation, facts.restarts, facts.content, facts.node) {
        (Colocation::Pending | Colocation::Replaced | Colocation::Missing, ..) => {
            Some(Wait::PartnerOnly)
        }
        (_, Restarts::Counted, ..) => Some(Wait::SteadyRun),
        (_, _, Content::Outdated | Content::Misplaced | Content::Paused, _) => Some(Wait::Rollout),
        (.., NodeFact::NotPinned) => Some(Wait::PinnedHosts),
        _ => None,
    }
}

/// Is it where it cannot or should not be, and cannot leave?
fn stranded(facts: &SlotFacts) -> Option<Wait> {
    let is_terminating = facts.endpoints == Endpoints::Terminating;
    match (facts.node, facts.bound) {
        (NodeFact::Keeps, _) | (NodeFact::NotPinned, Bound::Free | Bound::Host | Bound::Job) => {
            None
        }
        (NodeFact::Leave(_), Bound::Job) => Some(Wait::Job),
        (_, Bound::Host) => Some(Wait::OwnHost),
        (NodeFact::Leave(_) | NodeFact::NotPinned, Bound::Data) => Some(Wait::DataOnLeavingNode),
        (_, Bound::Data) => Some(Wait::DataOnLostNode),
        (NodeFact::Silent, _) if facts.hosts == Hosts::Enough && is_hopeful(facts) => {
            Some(Wait::UnreachableNode)
        }
        (_, Bound::Free | Bound::Job) if is_terminating => Some(Wait::Termination),
        (_, Bound::Free | Bound::Job) if facts.hosts == Hosts::Short => Some(Wait::PinnedHosts),
        (_, Bound::Free | Bound::Job) if !is_hopeful(facts) => Some(Wait::Operator),
        (_, Bound::Free | Bound::Job) => Some(Wait::NoNode),
    }
}

/// Whether anything more is tried with it. Of one whose node left nothing is known.
fn is_hopeful(facts: &SlotFacts) -> bool {
    facts.restarts != Restarts::Exhausted || facts.node == NodeFact::Gone
}

impl Verdict {
    /// The phase that carries it out; none where there is nothing to do now.
    pub(crate) fn phase(self) -> Option<Phase> {
        match self {
            Self::Disable | Self::Revert => Some(Phase::Disable),
            Self::Remove => Some(Phase::Remove),
            Self::CompleteHandover
            | Self::Restart(Restart::Failed)
            | Self::Exhaust
            | Self::Finish(_)
            | Self::ForgetFailures => Some(Phase::Repair),
            Self::Restart(Restart::PartnerReplaced) | Self::Move(_) => Some(Phase::Move),
            Self::Start(_) => Some(Phase::Start),
            Self::Replace(_) => Some(Phase::Roll),
            Self::Define => Some(Phase::Define),
            Self::Keep | Self::Wait(_) => None,
        }
    }
}
