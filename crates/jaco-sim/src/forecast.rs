//! Forecasts of the planner for a simulated cluster, and what then is the case, for tests that compare the two
//! (R-CLI-3). The forecast is the product's own, on what the leader of the simulation knows.

use std::collections::BTreeMap;

use jaco_scheduler::forecast::{End, forecast};
use jaco_scheduler::{Hypothesis, PlanInput, suppose};
use jaco_state::ClusterState;
use jaco_types::{NodeFacts, ServiceKey};

use crate::world::World;

/// The host of each replica, by its name.
pub type Homes = BTreeMap<String, String>;

/// What would be different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// A node is lost.
    Lose(String),
    /// A node without limits joins.
    Join(String),
    /// A service has another size.
    Scale(ServiceKey, u32),
}

impl World {
    /// Where each replica is, as the leader knows it; none while nobody leads.
    #[must_use]
    pub fn homes(&self) -> Option<Homes> {
        self.leaders_view(|input| homes(input.state))
    }

    /// Where each would be in the end; none while nobody leads, and where the forecast has no end.
    ///
    /// # Panics
    /// When the question names a node that is no member, or cannot be asked.
    #[must_use]
    pub fn forecast(&self, question: &Question) -> Option<Homes> {
        self.leaders_view(|input| {
            let mut hypothesis = Hypothesis::default();
            match question {
                Question::Lose(host) => {
                    let mut nodes = input.state.nodes.values();
                    let lost = nodes.find(|node| node.hostname.as_str() == host);
                    hypothesis.lost.insert(lost.expect("it is a member").id);
                }
                Question::Join(host) => {
                    let hostname = host.parse().expect("it is a host name");
                    hypothesis.added.insert(hostname, NodeFacts::default());
                }
                Question::Scale(service, replicas) => {
                    hypothesis.scaled.insert(service.clone(), *replicas);
                }
            }
            let (state, signals) = suppose(input, &hypothesis).expect("it can be asked");
            let told = forecast(&PlanInput { state: &state, signals: &signals, ..*input });
            (told.end == End::Rest).then(|| homes(&told.state))
        })?
    }

    fn leaders_view<T>(&self, look: impl FnOnce(&PlanInput<'_>) -> T) -> Option<T> {
        let machine = &self.machines[self.consensus.leader?.0];
        let daemon = machine.daemon.as_ref()?;
        let leading = daemon.leading.as_ref()?;
        Some(look(&leading.input(&daemon.state, machine.cluster_time(self.now))))
    }
}

fn homes(state: &ClusterState) -> Homes {
    let slots = state.slots.values().map(|slot| {
        let node = state.nodes.get(&slot.current.node);
        let host = node.map_or_else(|| "?".to_owned(), |node| node.hostname.to_string());
        (slot.id.to_string(), host)
    });
    slots.collect()
}
