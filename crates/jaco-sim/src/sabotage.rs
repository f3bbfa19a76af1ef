//! Defects put in on purpose, between the product's parts and the world: a checker that finds none
//! of them could not find anything.

use jaco_scheduler::Plan;
use jaco_state::Change;
use jaco_state::command::Previous;

/// A defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// An agent that removes what it finds when it starts, instead of adopting it.
    RecreateOnStart,
    /// A planner that stops the old instance at once, instead of letting it serve.
    DropInsteadOfRetire,
    /// A planner that says the same thing again and again.
    NeverQuiet,
    /// An agent that takes every container on its machine for its own.
    IgnoreOwner,
    /// An agent that does not notice that its node is cut off.
    NeverIsolated,
    /// An agent that ends what serves as soon as its successor is asked for.
    EndPredecessors,
    /// An agent that runs whatever it has under an image's name, though it is settled what that is.
    FollowNames,
}

impl Sabotage {
    /// Every defect.
    pub const ALL: [Self; 7] = [
        Self::RecreateOnStart,
        Self::DropInsteadOfRetire,
        Self::NeverQuiet,
        Self::IgnoreOwner,
        Self::NeverIsolated,
        Self::EndPredecessors,
        Self::FollowNames,
    ];

    /// Spoils a plan.
    pub(crate) fn plan(self, mut plan: Plan, state: &jaco_state::ClusterState) -> Plan {
        if self == Self::DropInsteadOfRetire {
            for change in &mut plan.changes {
                if let Change::SlotReplace { previous, .. } = change {
                    *previous = Previous::Drop;
                }
            }
        }
        if self == Self::NeverQuiet
            && plan.changes.is_empty()
            && let Some((service, record)) = state.scheduling.iter().next()
        {
            let (service, record) = (service.clone(), record.clone());
            plan.changes.push(Change::SchedulingSet { service, record: Box::new(record) });
        }
        plan
    }
}
