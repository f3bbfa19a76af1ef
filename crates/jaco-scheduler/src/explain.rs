//! Answers about a service that no pass has to give: what every node says to it, now.
//!
//! The same rules on the same draft as in [`crate::plan`]; nothing is worked out in another way.

use jaco_types::unit::{Bytes, MilliCores};
use jaco_types::{Hostname, NodeId, ServiceKey};

use crate::attribute::affinity;
use crate::company::meet;
use crate::draft::Draft;
use crate::eligibility::{Ineligible, Others, verdict};
use crate::input::PlanInput;
use crate::mend;

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

/// What every node, by host name, would say to one more replica of the service; `None` when nobody
/// wants such a service.
#[must_use]
pub fn explain(input: &PlanInput<'_>, service: &ServiceKey) -> Option<Vec<NodeAnswer>> {
    let mut draft = Draft::read(*input);
    draft.remove_unwanted();
    mend::mend(&mut draft);
    let at = draft.services.binary_search_by(|known| known.key.cmp(service)).ok()?;
    meet(&mut draft.services, at);
    let service = &draft.services[at];
    let limit = service.limit(&draft.pass.nodes);
    let others =
        Others { company: &service.company, limit: limit.as_ref(), resting: &service.resting };
    let goal = service.goal.spec;
    let answers = draft.pass.nodes.rows().map(|(at, row)| {
        let here = service.slots.iter().filter(|slot| slot.current.at == Some(at)).count();
        let left = row.left();
        NodeAnswer {
            node: row.id,
            hostname: row.node.hostname.clone(),
            failed: verdict(&draft.pass.nodes.demands, (at, row), goal, goal, others),
            facts: NodeChoice {
                affinity: affinity(row.node, &goal.scheduling.affinities),
                of_service: u32::try_from(here).unwrap_or(u32::MAX),
                of_all: row.usage.replicas,
                cpu_left: left.cpu,
                memory_left: left.memory,
            },
        }
    });
    Some(answers.collect())
}
