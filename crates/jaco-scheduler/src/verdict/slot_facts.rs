//! All that decides about a slot, as closed sets of values, so that the tables of `judge.rs` can be read
//! and tested row by row.

use jaco_types::Completion;

use crate::draft::Search;
use crate::eligibility::Colocation;

/// All that decides about a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotFacts {
    pub(crate) need: Need,
    pub(crate) desired: Desired,
    pub(crate) node: NodeFact,
    pub(crate) bound: Bound,
    pub(crate) colocation: Colocation,
    pub(crate) handover: HandoverFact,
    pub(crate) failure: Failure,
    /// How its instance ran to its end, where that is not recorded yet.
    pub(crate) completion: Option<Completion>,
    pub(crate) restarts: Restarts,
    pub(crate) content: Content,
    pub(crate) report: Reported,
    pub(crate) endpoints: Endpoints,
    pub(crate) hosts: Hosts,
    pub(crate) search: Search,
}

/// Whether the service needs the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is one of the wanted replicas.
    Wanted,
    /// There are too many, and it is one of those that go.
    Surplus,
    /// It is named as another placement names its slots (`global` by host, others by index), and
    /// serves until the slots of the wanted kind do.
    Interim,
    /// It is of another kind, and nothing is left to wait for.
    Superseded,
}

/// Whether the slot is active, and whether operators want it so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Desired {
    Active,
    /// It is active, and operators disabled it where it is.
    Disabling,
    /// The same, and its retiring instance still serves on a node where it is not disabled.
    Returning,
    Disabled,
    /// It is disabled, and operators enabled it.
    Starting,
    /// It ran to its end.
    Finished,
    /// It failed, with all its retries, and an apply allows them anew.
    Retried,
    /// The same, and operators disabled it where it is.
    FinishedAndDisabled,
}

/// What the node of a replica says to its staying there: for one that is named after a host, the node
/// of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeFact {
    /// The node works and keeps what it has. A cordoned node is one (R-PLACE-6).
    Keeps,
    /// The replica should leave the node at once.
    Leave(Leave),
    /// The node works, and the placement names other hosts: a step of a rollout moves the replica.
    NotPinned,
    /// The node does not answer, or its engine does not; `on-node-loss` lets the replica wait, for ever
    /// or for now.
    Silent,
    /// The same, and `on-node-loss` lets the replica be placed elsewhere.
    Lost,
    /// The node is no member any more.
    Gone,
    /// Another member joined under the name of the host.
    Returned,
}

/// Why a replica should leave its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Operators drain the node.
    Drained,
    /// A partner that the replica cannot do without is not there (R-CONS-6).
    PartnerMissing,
    /// The node lost a label that the global service selects by (R-SEL-2).
    LabelMissing,
}

/// What binds a replica to its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Free,
    /// Its data is there (PL-8).
    Data,
    /// Its job runs there: another instance would begin it again.
    Job,
    /// It is named after the host.
    Host,
}

/// How far the handover from the retiring to the current instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandoverFact {
    None,
    Pending,
    /// The current instance is proven, or the node of the retiring one left.
    Over,
}

/// Whether the current instance failed, and what the restart budget says (R-HEAL-1, R-HEAL-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    None,
    /// Its crash loop back-off is not over.
    BackOff,
    /// It is to be restarted now.
    Restartable,
    /// It was the last that the budget allows.
    BudgetSpent,
}

/// The failures in a row that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restarts {
    /// None, or those of one that retries until it completes: a steady run does not clear them.
    None,
    /// Some, and the replica has not run for long enough to forget them.
    Counted,
    /// Some, and it has.
    Forgettable,
    /// The budget is exhausted: only an apply starts it again.
    Exhausted,
}

/// Whether the slot runs what its service's goal says, where that wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Current,
    /// It runs another spec.
    Outdated,
    /// It runs the right spec on a host that the placement does not name any more.
    Misplaced,
    /// One of the two, while the rollout is paused.
    Paused,
}

/// Whether the node reported the current instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reported {
    Yes,
    /// It was placed or restarted a moment ago.
    NotYet,
}

/// Whether an earlier instance of the slot is still terminating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoints {
    Free,
    Terminating,
}

/// Whether a service that is pinned to hosts has enough of them (R-PLACE-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hosts {
    Enough,
    Short,
}
