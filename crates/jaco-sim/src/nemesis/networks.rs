//! When networks become the cluster's, and which ones services have. With a stream of random numbers of its
//! own, so that what else happens in a run is the same with and without networks.

use crate::rng::Rng;

/// The network that deployments share.
const SHARED: &str = "backbone";

/// What services are attached to. The small one is full now and then.
const ATTACHMENTS: [&str; 6] =
    ["default", "default", "default,back", "back:26", "default,@backbone", "@backbone,back:26"];

/// The networks of a run.
pub(super) struct Networks {
    rng: Rng,
    /// The step in which the pool is begun; in half of the runs it never is.
    begins: Option<usize>,
    /// Which routers fail, from another stream: the attachments of a run are the same without faults.
    faults: Rng,
}

impl Networks {
    /// Those of a run of so many steps.
    pub(super) fn new(mut rng: Rng, faults: Rng, steps: usize) -> Self {
        let has_networks = rng.below(2) == 0;
        let step = rng.place(steps.max(1));
        // A third of them from the start.
        let step = if rng.below(3) == 0 { 0 } else { step };
        Self { rng, begins: has_networks.then_some(step), faults }
    }

    /// What is done about networks in a step.
    pub(super) fn lines(&self, step: usize) -> Vec<String> {
        match self.begins {
            Some(begins) if begins == step => {
                vec!["network begin".to_owned(), format!("network create {SHARED}")]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// The process of a router that fails in this step.
    pub(super) fn fault(&mut self, step: usize, hosts: &[String]) -> Option<String> {
        let has_routers = self.begins.is_some_and(|begins| begins < step);
        (has_routers && self.faults.below(8) == 0)
            .then(|| format!("kill-router {}", self.faults.pick(hosts)))
    }

    /// What makes up for it where a fault kept that from being done.
    pub(super) fn make_peace(&self) -> Vec<String> {
        self.begins.map_or(Vec::new(), |begins| self.lines(begins))
    }

    /// Adds networks to a service. Before the pool is begun they are not asked for.
    pub(super) fn attach(&mut self, service: &mut String) {
        let attachments = *self.rng.pick(&ATTACHMENTS);
        if self.begins.is_some() && self.rng.below(5) > 0 {
            *service += &format!(" net={attachments}");
        }
    }
}
