//! Explains where one more replica of a service could go: every node's answer, now.
//!
//! The same rules on the same draft as in [`crate::plan`]; nothing is worked out in another way.

use jaco_types::unit::{Bytes, MilliCores};
use jaco_types::{Hostname, NodeId, ServiceKey};

use crate::attribute::affinity;
use crate::draft::Draft;
use crate::eligibility::{Ineligible, refusals};
use crate::input::PlanInput;
use crate::pass::{read, repair};
use crate::placement;
use crate::rollout;
pub use placement::{NodeScore, SpreadShare};

/// What a node says to one more replica of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAnswer {
    /// The node.
    pub node: NodeId,
    /// Its name.
    pub hostname: Hostname,
    /// Every rule that keeps the replica off it; empty where it would be taken.
    pub failed: Vec<Ineligible>,
    /// What the choice goes by.
    pub facts: NodeChoice,
    /// Its score, with `scoring: nomad` and where the constraints allow the node.
    pub score: Option<NodeScore>,
}

/// What the choice among nodes goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeChoice {
    /// The weights of the affinities that hold of it.
    pub affinity: i64,
    /// Replicas of the service that it has.
    pub of_service: u32,
    /// Replicas of all services that it has.
    pub of_all: u32,
    /// Processor time that is not reserved; absent where it declares none.
    pub cpu_left: Option<MilliCores>,
    /// Memory that is not reserved; absent where it declares none.
    pub memory_left: Option<Bytes>,
}

/// Every node's answer, by host name, to one more replica of the service; `None` when nobody
/// wants such a service.
#[must_use]
pub fn explain(input: &PlanInput<'_>, service: &ServiceKey) -> Option<Vec<NodeAnswer>> {
    let mut draft = draft(input);
    let at = draft.find(service)?;
    let (service, pass) = draft.open(at);
    let limit = service.limit(&pass.nodes);
    let others = service.others(limit.as_ref());
    let goal = service.goal().spec;
    let scores = placement::scores(&pass.nodes, service);
    let answers = pass.nodes.rows().map(|(at, row)| {
        let here = service.slots.iter().filter(|slot| slot.current.at == Some(at)).count();
        let left = row.left();
        NodeAnswer {
            node: row.id,
            hostname: row.node.hostname.clone(),
            failed: refusals(&pass.nodes, at, goal, goal, others),
            facts: NodeChoice {
                affinity: affinity(row.node, &goal.scheduling.affinities),
                of_service: u32::try_from(here).unwrap_or(u32::MAX),
                of_all: row.usage.replicas,
                cpu_left: left.cpu,
                memory_left: left.memory,
            },
            score: scores.iter().find(|(node, _)| *node == at).map(|(_, score)| *score),
        }
    });
    Some(answers.collect())
}

/// How many replicas each value of each spread criterion of the service should have, and has; `None` when
/// nobody wants such a service.
#[must_use]
pub fn spread_shares(input: &PlanInput<'_>, service: &ServiceKey) -> Option<Vec<SpreadShare>> {
    let mut draft = draft(input);
    let at = draft.find(service)?;
    let (service, pass) = draft.open(at);
    Some(placement::shares(&pass.nodes, service))
}

/// The state as a pass has it when it begins to choose nodes.
pub(super) fn draft<'a>(input: &PlanInput<'a>) -> Draft<'a> {
    let mut draft = read(*input);
    draft.remove_unwanted();
    draft.set_goals(rollout::set_goal);
    repair(&mut draft);
    draft
}
