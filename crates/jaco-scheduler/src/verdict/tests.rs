//! The rules about replicas, a row for each: what is different from a replica that is as it should be,
//! and the verdict.

use jaco_types::Completion;

use super::judge::{Move, Place, Restart, Verdict, Wait, judge};
use super::slot_facts::{
    Bound, Content, Desired, Endpoints, Failure, HandoverFact, Hosts, Leave, Need, NodeFact,
    Reported, Restarts, SlotFacts,
};
use crate::draft::Search;
use crate::eligibility::Colocation;

/// A replica that is where and what it should be.
const GOOD: SlotFacts = SlotFacts {
    need: Need::Wanted,
    desired: Desired::Active,
    node: NodeFact::Keeps,
    bound: Bound::Free,
    colocation: Colocation::Met,
    handover: HandoverFact::None,
    failure: Failure::None,
    completion: None,
    restarts: Restarts::None,
    content: Content::Current,
    report: Reported::Yes,
    endpoints: Endpoints::Free,
    hosts: Hosts::Enough,
    search: Search::Open,
};

const DRAINED: NodeFact = NodeFact::Leave(Leave::Drained);
const NO_PARTNER: NodeFact = NodeFact::Leave(Leave::PartnerMissing);
const NO_LABEL: NodeFact = NodeFact::Leave(Leave::LabelMissing);

/// One row: the facts, and the verdict about them.
type Row = (SlotFacts, Verdict);

fn check(rows: &[Row]) {
    for (facts, verdict) in rows {
        assert_eq!(judge(facts), *verdict, "{facts:#?}");
    }
}

#[test]
fn good_replica_is_kept() {
    check(&[
        (GOOD, Verdict::Keep),
        (SlotFacts { bound: Bound::Data, ..GOOD }, Verdict::Keep),
        (SlotFacts { bound: Bound::Host, ..GOOD }, Verdict::Keep),
        // Nobody tries anything with an exhausted one, and nothing of it is to come.
        (SlotFacts { restarts: Restarts::Exhausted, ..GOOD }, Verdict::Keep),
        (SlotFacts { report: Reported::NotYet, ..GOOD }, Verdict::Keep),
    ]);
}

/// R-SEL-3: what operators disabled stops before anything else is asked, unless it still serves where
/// it came from.
#[test]
fn disabled_replica_stops_first() {
    for base in [
        GOOD,
        SlotFacts { need: Need::Surplus, ..GOOD },
        SlotFacts { node: NodeFact::Lost, ..GOOD },
        SlotFacts { failure: Failure::Restartable, ..GOOD },
        SlotFacts { handover: HandoverFact::Over, ..GOOD },
        SlotFacts { content: Content::Outdated, ..GOOD },
    ] {
        check(&[
            (SlotFacts { desired: Desired::Disabling, ..base }, Verdict::Disable),
            (SlotFacts { desired: Desired::Returning, ..base }, Verdict::Revert),
        ]);
    }
}

/// PL-19 (harsh seed 410302): a successor that failed after its partner was replaced is restarted, and gives up once its
/// budget is spent; the end of its handover does not come without it.
#[test]
fn failed_successor_does_not_wait_for_its_own_handover() {
    let replaced = SlotFacts { colocation: Colocation::Replaced, ..GOOD };
    let handed_over = SlotFacts { handover: HandoverFact::Pending, ..replaced };
    check(&[
        (
            SlotFacts { failure: Failure::Restartable, ..handed_over },
            Verdict::Restart(Restart::Failed),
        ),
        (SlotFacts { failure: Failure::BudgetSpent, ..handed_over }, Verdict::Exhaust),
        (handed_over, Verdict::Wait(Wait::Handover)),
        (
            SlotFacts { failure: Failure::Restartable, ..replaced },
            Verdict::Restart(Restart::PartnerReplaced),
        ),
    ]);
}

/// R-PLACE-7: surplus goes before it is restarted, moved or replaced, whatever it is bound to.
#[test]
fn unneeded_replica_is_removed() {
    for need in [Need::Surplus, Need::Superseded] {
        for bound in [Bound::Free, Bound::Data, Bound::Host] {
            for desired in [Desired::Active, Desired::Disabled, Desired::Starting] {
                let facts = SlotFacts { need, bound, desired, ..GOOD };
                check(&[
                    (facts, Verdict::Remove),
                    (SlotFacts { failure: Failure::Restartable, ..facts }, Verdict::Remove),
                    (SlotFacts { node: NodeFact::Lost, ..facts }, Verdict::Remove),
                    (SlotFacts { content: Content::Outdated, ..facts }, Verdict::Remove),
                ]);
            }
        }
    }
}

/// R-PLACE-4, R-NODE-2, R-SEL-2: a global replica goes with its host, its label and its partner, waits
/// for a silent host, and follows one that joined anew.
#[test]
fn global_replica_goes_with_its_host() {
    let host = SlotFacts { bound: Bound::Host, ..GOOD };
    let on = |node| SlotFacts { node, ..host };
    check(&[
        (on(NodeFact::Gone), Verdict::Remove),
        (on(DRAINED), Verdict::Remove),
        (on(NO_LABEL), Verdict::Remove),
        (on(NO_PARTNER), Verdict::Remove),
        (on(NodeFact::Silent), Verdict::Wait(Wait::OwnHost)),
        (on(NodeFact::Returned), Verdict::Move(Move::Lost)),
        (
            SlotFacts { search: Search::NoNode, ..on(NodeFact::Returned) },
            Verdict::Wait(Wait::OwnHost),
        ),
        (SlotFacts { desired: Desired::Disabled, ..on(DRAINED) }, Verdict::Remove),
        // Where the service is global no more, it serves until its successors do.
        (SlotFacts { need: Need::Interim, ..on(DRAINED) }, Verdict::Wait(Wait::Successors)),
    ]);
}

/// R-HEAL-1, R-HEAL-2: a failed replica is restarted within its budget, and after its back-off.
#[test]
fn failed_replica_is_restarted_within_its_budget() {
    let failed = |failure| SlotFacts { failure, ..GOOD };
    check(&[
        (failed(Failure::Restartable), Verdict::Restart(Restart::Failed)),
        (failed(Failure::BudgetSpent), Verdict::Exhaust),
        (failed(Failure::BackOff), Verdict::Wait(Wait::BackOff)),
        // A rollout does not wait for the back-off of what it replaces.
        (
            SlotFacts { content: Content::Outdated, ..failed(Failure::BackOff) },
            Verdict::Replace(Place::Anywhere),
        ),
        (
            SlotFacts { need: Need::Interim, ..failed(Failure::Restartable) },
            Verdict::Restart(Restart::Failed),
        ),
    ]);
}

/// A failed replica that should leave its node is not restarted there first, unless its data keeps it
/// there; and without its partner it cannot start.
#[test]
fn failed_replica_is_restarted_only_where_it_stays() {
    let failed = SlotFacts { failure: Failure::Restartable, ..GOOD };
    let data = SlotFacts { bound: Bound::Data, ..failed };
    check(&[
        (SlotFacts { node: DRAINED, ..failed }, Verdict::Move(Move::Leaves)),
        (SlotFacts { node: NodeFact::Lost, ..failed }, Verdict::Move(Move::Lost)),
        (SlotFacts { node: NodeFact::Silent, ..failed }, Verdict::Wait(Wait::UnreachableNode)),
        (SlotFacts { node: DRAINED, ..data }, Verdict::Restart(Restart::Failed)),
        (SlotFacts { node: NodeFact::NotPinned, ..data }, Verdict::Restart(Restart::Failed)),
        (SlotFacts { node: NodeFact::Lost, ..data }, Verdict::Wait(Wait::DataOnLostNode)),
        (SlotFacts { colocation: Colocation::Pending, ..failed }, Verdict::Wait(Wait::PartnerOnly)),
        (
            SlotFacts { colocation: Colocation::Replaced, ..failed },
            Verdict::Restart(Restart::PartnerReplaced),
        ),
    ]);
}

/// A steady run clears the count of failures, on any node; an exhausted budget stays so.
#[test]
fn steady_run_clears_the_failures() {
    for node in [NodeFact::Keeps, DRAINED, NodeFact::Silent] {
        let facts = SlotFacts { restarts: Restarts::Forgettable, node, ..GOOD };
        check(&[(facts, Verdict::ForgetFailures)]);
    }
    let counted = SlotFacts { restarts: Restarts::Counted, ..GOOD };
    check(&[(counted, Verdict::Wait(Wait::SteadyRun))]);
}

/// R-ROLL-2: a handover ends once the successor is proven, and until then it is waited for.
#[test]
fn handover_ends_once_the_successor_is_proven() {
    let handover = |handover| SlotFacts { handover, ..GOOD };
    check(&[
        (handover(HandoverFact::Over), Verdict::CompleteHandover),
        (handover(HandoverFact::Pending), Verdict::Wait(Wait::Handover)),
        // What is not worth waiting for goes on meanwhile.
        (
            SlotFacts { node: DRAINED, ..handover(HandoverFact::Pending) },
            Verdict::Move(Move::Leaves),
        ),
        (
            SlotFacts { content: Content::Outdated, ..handover(HandoverFact::Pending) },
            Verdict::Replace(Place::Anywhere),
        ),
    ]);
}

/// R-NODE-1, R-NODE-2: a replica moves off a node that is lost, drained, or without its partner.
#[test]
fn free_replica_moves_off_a_node_that_cannot_keep_it() {
    let on = |node| SlotFacts { node, ..GOOD };
    for (node, why) in [
        (NodeFact::Lost, Move::Lost),
        (NodeFact::Gone, Move::Lost),
        (DRAINED, Move::Leaves),
        (NO_PARTNER, Move::Leaves),
    ] {
        check(&[
            (on(node), Verdict::Move(why)),
            (SlotFacts { search: Search::NoNode, ..on(node) }, Verdict::Wait(Wait::NoNode)),
            (SlotFacts { hosts: Hosts::Short, ..on(node) }, Verdict::Wait(Wait::PinnedHosts)),
        ]);
    }
    check(&[
        (on(NodeFact::Silent), Verdict::Wait(Wait::UnreachableNode)),
        // One thing at a time, where something of it still runs there.
        (
            SlotFacts { endpoints: Endpoints::Terminating, ..on(DRAINED) },
            Verdict::Wait(Wait::Termination),
        ),
        (
            SlotFacts { endpoints: Endpoints::Terminating, ..on(NodeFact::Lost) },
            Verdict::Move(Move::Lost),
        ),
    ]);
}

/// An exhausted replica is not tried again on another node, unless its own is no member any more or
/// should be left.
#[test]
fn exhausted_replica_is_not_tried_elsewhere() {
    let on = |node| SlotFacts { restarts: Restarts::Exhausted, node, ..GOOD };
    check(&[
        (on(NodeFact::Lost), Verdict::Wait(Wait::Operator)),
        (on(NodeFact::Silent), Verdict::Wait(Wait::Operator)),
        (on(NodeFact::Gone), Verdict::Move(Move::Lost)),
        (on(DRAINED), Verdict::Move(Move::Leaves)),
        (SlotFacts { search: Search::NoNode, ..on(DRAINED) }, Verdict::Wait(Wait::Operator)),
        (SlotFacts { colocation: Colocation::Replaced, ..on(NodeFact::Keeps) }, {
            Verdict::Wait(Wait::PartnerOnly)
        }),
        (SlotFacts { content: Content::Outdated, ..on(NodeFact::Keeps) }, {
            Verdict::Replace(Place::Anywhere)
        }),
    ]);
}

/// PL-8, PL-8: data is never left behind. It waits for its node, whatever asks it to go.
#[test]
fn replica_with_data_stays_on_its_node() {
    let data = |node| SlotFacts { bound: Bound::Data, node, ..GOOD };
    for node in [NodeFact::Lost, NodeFact::Gone, NodeFact::Silent] {
        check(&[
            (data(node), Verdict::Wait(Wait::DataOnLostNode)),
            (
                SlotFacts { content: Content::Outdated, ..data(node) },
                Verdict::Wait(Wait::DataOnLostNode),
            ),
            (
                SlotFacts { desired: Desired::Starting, ..data(node) },
                Verdict::Wait(Wait::DataOnLostNode),
            ),
        ]);
    }
    for node in [DRAINED, NO_PARTNER, NodeFact::NotPinned] {
        check(&[
            (data(node), Verdict::Wait(Wait::DataOnLeavingNode)),
            // It is updated where it is meanwhile.
            (SlotFacts { content: Content::Outdated, ..data(node) }, Verdict::Replace(Place::Here)),
            (
                SlotFacts { desired: Desired::Starting, ..data(node) },
                Verdict::Wait(Wait::DataOnLeavingNode),
            ),
        ]);
    }
}

/// R-CONS-6: who shares namespaces with another starts anew once that was replaced, and when nothing
/// else of it is in motion.
#[test]
fn replica_follows_its_replaced_partner() {
    let replaced = SlotFacts { colocation: Colocation::Replaced, ..GOOD };
    let restart = Verdict::Restart(Restart::PartnerReplaced);
    check(&[
        (replaced, restart),
        (SlotFacts { bound: Bound::Data, ..replaced }, restart),
        (SlotFacts { content: Content::Outdated, ..replaced }, restart),
        (SlotFacts { handover: HandoverFact::Pending, ..replaced }, Verdict::Wait(Wait::Handover)),
        (
            SlotFacts { endpoints: Endpoints::Terminating, ..replaced },
            Verdict::Wait(Wait::Termination),
        ),
        (SlotFacts { node: DRAINED, ..replaced }, Verdict::Move(Move::Leaves)),
        (SlotFacts { node: NodeFact::Silent, ..replaced }, Verdict::Wait(Wait::UnreachableNode)),
    ]);
}

/// R-ROLL-1: what is not what its service wants is replaced, once its node has reported what it is.
#[test]
fn outdated_replica_waits_for_its_turn() {
    let outdated = SlotFacts { content: Content::Outdated, ..GOOD };
    check(&[
        (outdated, Verdict::Replace(Place::Anywhere)),
        (SlotFacts { bound: Bound::Data, ..outdated }, Verdict::Replace(Place::Here)),
        (SlotFacts { bound: Bound::Host, ..outdated }, Verdict::Replace(Place::Here)),
        (SlotFacts { report: Reported::NotYet, ..outdated }, Verdict::Wait(Wait::Rollout)),
        (
            SlotFacts { endpoints: Endpoints::Terminating, ..outdated },
            Verdict::Wait(Wait::Termination),
        ),
        (SlotFacts { colocation: Colocation::Pending, ..outdated }, Verdict::Wait(Wait::Partner)),
        (SlotFacts { content: Content::Paused, ..GOOD }, Verdict::Wait(Wait::Rollout)),
        // What should leave is moved as it is; where no node takes that, the new content may fit.
        (SlotFacts { node: DRAINED, ..outdated }, Verdict::Move(Move::Leaves)),
        (
            SlotFacts { node: DRAINED, search: Search::NoNode, ..outdated },
            Verdict::Replace(Place::Elsewhere),
        ),
    ]);
}

/// R-PLACE-3: what is on a host that is not named any more is moved by a step of the rollout.
#[test]
fn misplaced_replica_is_moved_by_the_rollout() {
    let misplaced = SlotFacts { content: Content::Misplaced, node: NodeFact::NotPinned, ..GOOD };
    check(&[
        (misplaced, Verdict::Replace(Place::Elsewhere)),
        (SlotFacts { content: Content::Paused, ..misplaced }, Verdict::Wait(Wait::Rollout)),
        // Too few of the named hosts are usable: it stays until there are more.
        (
            SlotFacts { content: Content::Current, hosts: Hosts::Short, ..misplaced },
            Verdict::Wait(Wait::PinnedHosts),
        ),
    ]);
}

/// R-SEL-4: an enabled replica starts where it was; one that is bound to nothing elsewhere, if it must.
#[test]
fn enabled_replica_starts_where_it_was() {
    let starting = SlotFacts { desired: Desired::Starting, ..GOOD };
    let data = SlotFacts { bound: Bound::Data, ..starting };
    let host = SlotFacts { bound: Bound::Host, ..starting };
    check(&[
        (starting, Verdict::Start(Place::Anywhere)),
        (data, Verdict::Start(Place::Here)),
        (host, Verdict::Start(Place::Here)),
        (SlotFacts { hosts: Hosts::Short, ..starting }, Verdict::Start(Place::Here)),
        (SlotFacts { node: NodeFact::Lost, ..starting }, Verdict::Start(Place::Elsewhere)),
        (SlotFacts { node: DRAINED, ..starting }, Verdict::Start(Place::Elsewhere)),
        (SlotFacts { node: NodeFact::NotPinned, ..starting }, Verdict::Start(Place::Elsewhere)),
        (SlotFacts { node: NodeFact::Returned, ..host }, Verdict::Start(Place::Here)),
        // It starts as what its service wants, so that it need not be defined first.
        (SlotFacts { content: Content::Outdated, ..starting }, Verdict::Start(Place::Anywhere)),
    ]);
}

#[test]
fn enabled_replica_says_what_it_waits_for() {
    let starting = SlotFacts { desired: Desired::Starting, search: Search::NoNode, ..GOOD };
    let data = SlotFacts { bound: Bound::Data, ..starting };
    let host = SlotFacts { bound: Bound::Host, ..starting };
    check(&[
        (starting, Verdict::Wait(Wait::NoNode)),
        (data, Verdict::Wait(Wait::NoRoomToStart)),
        (host, Verdict::Wait(Wait::OwnHost)),
        (SlotFacts { node: NodeFact::Silent, ..starting }, Verdict::Wait(Wait::UnreachableNode)),
        (SlotFacts { hosts: Hosts::Short, ..starting }, Verdict::Wait(Wait::PinnedHosts)),
        (SlotFacts { colocation: Colocation::Pending, ..data }, Verdict::Wait(Wait::Partner)),
        (
            SlotFacts { endpoints: Endpoints::Terminating, search: Search::Open, ..data },
            Verdict::Wait(Wait::Termination),
        ),
        (SlotFacts { need: Need::Interim, ..data }, Verdict::Wait(Wait::Successors)),
        (SlotFacts { content: Content::Outdated, ..data }, Verdict::Define),
    ]);
}

/// R-SEL-3: a disabled replica runs nothing, and its definition follows its service without a step.
#[test]
fn definition_of_a_disabled_replica_follows_its_service() {
    let disabled = SlotFacts { desired: Desired::Disabled, ..GOOD };
    check(&[
        (disabled, Verdict::Keep),
        (SlotFacts { node: NodeFact::Lost, ..disabled }, Verdict::Keep),
        (SlotFacts { node: DRAINED, ..disabled }, Verdict::Keep),
        (SlotFacts { content: Content::Outdated, ..disabled }, Verdict::Define),
        (SlotFacts { content: Content::Paused, ..disabled }, Verdict::Define),
        (SlotFacts { node: NodeFact::Returned, bound: Bound::Host, ..disabled }, Verdict::Define),
        (
            SlotFacts { endpoints: Endpoints::Terminating, ..disabled },
            Verdict::Wait(Wait::Termination),
        ),
    ]);
}

/// R-JOB-1: what ran to its end is recorded before anything else is done with it, wherever its node is.
#[test]
fn end_of_a_job_is_recorded() {
    for completion in [Completion::Succeeded, Completion::Failed] {
        let ended = SlotFacts { completion: Some(completion), ..GOOD };
        let failed = SlotFacts { failure: Failure::BudgetSpent, ..ended };
        let recorded = Verdict::Finish(completion);
        check(&[
            (ended, recorded),
            (failed, recorded),
            (SlotFacts { node: DRAINED, ..ended }, recorded),
            (SlotFacts { node: NodeFact::Lost, ..ended }, recorded),
            (SlotFacts { node: NodeFact::Silent, ..ended }, recorded),
            (SlotFacts { desired: Desired::Disabling, ..ended }, recorded),
            (SlotFacts { content: Content::Outdated, ..ended }, recorded),
            (SlotFacts { need: Need::Surplus, ..ended }, Verdict::Remove),
        ]);
    }
}

/// R-JOB-1: neither drains nor lost nodes nor operators run it again; another spec does, elsewhere if need be.
#[test]
fn finished_job_is_run_again_as_another_spec_only() {
    let finished = SlotFacts { desired: Desired::Finished, ..GOOD };
    let failed = SlotFacts { restarts: Restarts::Exhausted, ..finished };
    let disabled = SlotFacts { desired: Desired::FinishedAndDisabled, ..GOOD };
    for kept in [finished, failed, disabled] {
        for node in [NodeFact::Keeps, DRAINED, NodeFact::Silent, NodeFact::Lost, NodeFact::Gone] {
            check(&[(SlotFacts { node, ..kept }, Verdict::Keep)]);
        }
    }
    let outdated = SlotFacts { content: Content::Outdated, ..finished };
    let data = SlotFacts { bound: Bound::Data, ..outdated };
    let host = SlotFacts { bound: Bound::Host, ..outdated };
    check(&[
        (outdated, Verdict::Replace(Place::Anywhere)),
        (SlotFacts { node: NodeFact::Lost, ..outdated }, Verdict::Replace(Place::Elsewhere)),
        (SlotFacts { node: NodeFact::Gone, ..outdated }, Verdict::Replace(Place::Elsewhere)),
        (SlotFacts { node: DRAINED, ..outdated }, Verdict::Replace(Place::Elsewhere)),
        (SlotFacts { content: Content::Paused, ..outdated }, Verdict::Wait(Wait::Rollout)),
        (SlotFacts { colocation: Colocation::Pending, ..outdated }, Verdict::Wait(Wait::Partner)),
        (SlotFacts { desired: Desired::FinishedAndDisabled, ..outdated }, Verdict::Disable),
        (data, Verdict::Replace(Place::Here)),
        (SlotFacts { node: NodeFact::Lost, ..data }, Verdict::Wait(Wait::DataOnLostNode)),
        (host, Verdict::Replace(Place::Here)),
        (SlotFacts { node: NodeFact::Lost, ..host }, Verdict::Wait(Wait::OwnHost)),
        (SlotFacts { node: NodeFact::Gone, ..host }, Verdict::Remove),
    ]);
}

/// R-JOB-1, R-HEAL-2: an apply lets what failed run once more, where it was or elsewhere.
#[test]
fn failed_job_is_retried_after_an_apply() {
    let retried = SlotFacts { desired: Desired::Retried, ..GOOD };
    let data = SlotFacts { bound: Bound::Data, ..retried };
    check(&[
        (retried, Verdict::Start(Place::Anywhere)),
        (SlotFacts { node: NodeFact::Lost, ..retried }, Verdict::Start(Place::Elsewhere)),
        (SlotFacts { search: Search::NoNode, ..retried }, Verdict::Wait(Wait::NoNode)),
        (SlotFacts { node: NodeFact::Lost, ..data }, Verdict::Wait(Wait::DataOnLostNode)),
        (SlotFacts { content: Content::Outdated, ..retried }, Verdict::Replace(Place::Anywhere)),
    ]);
}

/// R-JOB-1, R-NODE-2: a drain waits for the job that runs; a lost node does not hold it.
#[test]
fn running_job_is_not_drained() {
    let job = SlotFacts { bound: Bound::Job, ..GOOD };
    check(&[
        (job, Verdict::Keep),
        (SlotFacts { node: DRAINED, ..job }, Verdict::Wait(Wait::Job)),
        (
            SlotFacts { node: NodeFact::NotPinned, content: Content::Misplaced, ..job },
            Verdict::Wait(Wait::Rollout),
        ),
        (SlotFacts { node: NodeFact::Lost, ..job }, Verdict::Move(Move::Lost)),
        (SlotFacts { node: NodeFact::Gone, ..job }, Verdict::Move(Move::Lost)),
        (SlotFacts { content: Content::Outdated, ..job }, Verdict::Replace(Place::Anywhere)),
    ]);
}

/// All facts that there can be: each combination has a verdict, and it is sound.
#[test]
fn every_combination_of_facts_is_judged_soundly() {
    for facts in all() {
        let verdict = judge(&facts);
        let is_active = facts.desired == Desired::Active;
        let is_bound = matches!(facts.bound, Bound::Data | Bound::Host);
        match verdict {
            // PL-8: what is bound gets no other node.
            Verdict::Move(_) => {
                assert!(!is_bound || facts.node == NodeFact::Returned, "PL-8: {facts:#?}");
            }
            Verdict::Start(place) | Verdict::Replace(place) => {
                assert!(!is_bound || place == Place::Here, "PL-8: {facts:#?}");
            }
            // PL-18: nothing is started that is disabled.
            Verdict::Restart(_) | Verdict::CompleteHandover | Verdict::Exhaust => {
                assert!(is_active, "PL-18: {facts:#?}");
            }
            Verdict::Define => assert!(!is_active, "PL-18: {facts:#?}"),
            // PL-7: one that should not be where it is is kept by nobody.
            Verdict::Keep => assert!(
                !is_active || facts.node == NodeFact::Keeps || facts.desired == Desired::Disabled,
                "PL-7: {facts:#?}"
            ),
            Verdict::Disable
            | Verdict::Revert
            | Verdict::Finish(_)
            | Verdict::Remove
            | Verdict::ForgetFailures
            | Verdict::Wait(_) => {}
        }
        if matches!(facts.desired, Desired::Finished | Desired::FinishedAndDisabled) {
            let may_run = facts.desired == Desired::Finished && facts.content == Content::Outdated;
            let is_replaced = matches!(verdict, Verdict::Replace(_));
            let is_run_again =
                matches!(verdict, Verdict::Restart(_) | Verdict::Move(_) | Verdict::Start(_));
            assert!(!is_run_again && (may_run || !is_replaced), "PL-23: {facts:#?}");
        }
        if facts.desired == Desired::Disabled {
            assert!(
                !matches!(verdict, Verdict::Start(_) | Verdict::Move(_) | Verdict::Replace(_)),
                "PL-18: {facts:#?}"
            );
        }
    }
}

const DESIRED: [Desired; 8] = [
    Desired::Active,
    Desired::Disabling,
    Desired::Returning,
    Desired::Disabled,
    Desired::Starting,
    Desired::Finished,
    Desired::Retried,
    Desired::FinishedAndDisabled,
];
const NODES: [NodeFact; 8] = [
    NodeFact::Keeps,
    DRAINED,
    NO_PARTNER,
    NodeFact::NotPinned,
    NodeFact::Silent,
    NodeFact::Lost,
    NodeFact::Gone,
    NodeFact::Returned,
];
const NEEDS: [Need; 4] = [Need::Wanted, Need::Surplus, Need::Interim, Need::Superseded];
const BOUNDS: [Bound; 4] = [Bound::Free, Bound::Data, Bound::Host, Bound::Job];
const CONTENTS: [Content; 4] =
    [Content::Current, Content::Outdated, Content::Misplaced, Content::Paused];
const RESTARTS: [Restarts; 4] =
    [Restarts::None, Restarts::Counted, Restarts::Forgettable, Restarts::Exhausted];
const FAILURES: [Failure; 4] =
    [Failure::None, Failure::BackOff, Failure::Restartable, Failure::BudgetSpent];
const PARTNERS: [Colocation; 4] =
    [Colocation::Met, Colocation::Replaced, Colocation::Pending, Colocation::Missing];

/// Without its type: the name of one within eleven others has 85 million characters.
type All = Box<dyn Iterator<Item = SlotFacts>>;

fn all() -> All {
    let all: All = Box::new(DESIRED.into_iter().map(|desired| SlotFacts { desired, ..GOOD }));
    let all = vary(all, &NODES, |node, facts| SlotFacts { node, ..facts });
    let all = vary(all, &NEEDS, |need, facts| SlotFacts { need, ..facts });
    let all = vary(all, &BOUNDS, |bound, facts| SlotFacts { bound, ..facts });
    let all = vary(all, &CONTENTS, |content, facts| SlotFacts { content, ..facts });
    let all = vary(all, &RESTARTS, |restarts, facts| SlotFacts { restarts, ..facts });
    let all = vary(all, &FAILURES, |failure, facts| SlotFacts { failure, ..facts });
    let all = vary(all, &PARTNERS, |colocation, facts| SlotFacts { colocation, ..facts });
    let all = vary(all, &[HandoverFact::None, HandoverFact::Pending], |handover, facts| {
        SlotFacts { handover, ..facts }
    });
    let all = vary(all, &[None, Some(Completion::Succeeded)], |completion, facts| SlotFacts {
        completion,
        ..facts
    });
    let all =
        vary(all, &[Hosts::Enough, Hosts::Short], |hosts, facts| SlotFacts { hosts, ..facts });
    vary(all, &[Search::Open, Search::NoNode], |search, facts| SlotFacts { search, ..facts })
}

fn vary<T: Copy + 'static>(
    all: All,
    values: &'static [T],
    with: impl Fn(T, SlotFacts) -> SlotFacts + Copy + 'static,
) -> All {
    Box::new(all.flat_map(move |facts| values.iter().map(move |value| with(*value, facts))))
}
