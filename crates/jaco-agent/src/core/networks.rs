//! Networks of this owner. They outlive containers, so unused ones are removed: once after the
//! start, and whenever the last instance of a deployment or of a network of the cluster is gone.

use super::Effect;
use crate::engine::KeptNetworks;

/// State of the networks on this node.
#[derive(Debug, Default)]
pub(super) struct Networks {
    /// What there may be; `None` before the first sweep: an earlier agent may have left any.
    of: Option<KeptNetworks>,
    sweep: Sweep,
}

/// State of the removal of unused networks.
#[derive(Debug, Default)]
enum Sweep {
    #[default]
    Idle,
    /// What there may be afterwards.
    InProgress(KeptNetworks),
    /// Retried at the next tick: the network may not be in use by then.
    Failed,
}

impl Networks {
    /// Keeps these networks and removes others.
    pub(super) fn keep(&mut self, keep: KeptNetworks, effects: &mut Vec<Effect>) {
        let is_left = self.of.as_ref().is_none_or(|known| !known.is_subset(&keep));
        if let Some(known) = self.of.as_mut().filter(|known| !keep.is_subset(known)) {
            known.extend(keep.clone());
        }
        match &mut self.sweep {
            Sweep::Idle if is_left => {
                effects.push(Effect::RemoveNetworks { keep: keep.clone() });
                self.sweep = Sweep::InProgress(keep);
            }
            Sweep::InProgress(after) => after.extend(keep),
            Sweep::Idle | Sweep::Failed => {}
        }
    }

    /// The answer to [`Effect::RemoveNetworks`].
    pub(super) fn removed<E>(&mut self, result: Result<(), E>) {
        match (std::mem::take(&mut self.sweep), result) {
            (Sweep::InProgress(after), Ok(())) => self.of = Some(after),
            (Sweep::InProgress(_), Err(_)) => self.sweep = Sweep::Failed,
            (other @ (Sweep::Idle | Sweep::Failed), _) => self.sweep = other,
        }
    }

    /// Allows a failed removal to be retried.
    pub(super) fn retry(&mut self) {
        if matches!(self.sweep, Sweep::Failed) {
            self.sweep = Sweep::Idle;
        }
    }

    /// Whether no networks are left.
    pub(super) fn are_gone(&self) -> bool {
        matches!(self.sweep, Sweep::Idle) && self.of.as_ref().is_some_and(KeptNetworks::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use jaco_types::{DeploymentName, NetworkId};

    use super::*;

    /// Deployments by their names, networks of the cluster by their numbers.
    fn names(names: &[&str]) -> KeptNetworks {
        let (cluster, deployments): (Vec<&str>, Vec<&str>) =
            names.iter().partition(|name| name.parse::<u32>().is_ok());
        KeptNetworks {
            deployments: deployments.iter().map(|one| DeploymentName::new(one).unwrap()).collect(),
            cluster: cluster.iter().map(|one| NetworkId(one.parse().unwrap())).collect(),
        }
    }

    fn kept(networks: &mut Networks, keep: &[&str]) -> Vec<Effect> {
        let mut effects = Vec::new();
        networks.keep(names(keep), &mut effects);
        effects
    }

    fn sweep(keep: &[&str]) -> Vec<Effect> {
        vec![Effect::RemoveNetworks { keep: names(keep) }]
    }

    #[test]
    fn sweeps_after_start_and_when_a_deployment_is_gone() {
        let mut networks = Networks::default();
        assert_eq!(
            kept(&mut networks, &["a"]),
            sweep(&["a"]),
            "an earlier agent may have left some"
        );
        assert_eq!(kept(&mut networks, &["a", "b"]), [], "a sweep is in progress");
        networks.removed(Ok::<_, ()>(()));
        assert_eq!(kept(&mut networks, &["a", "b"]), []);
        assert_eq!(kept(&mut networks, &["a"]), sweep(&["a"]), "b was added during the sweep");
        networks.removed(Ok::<_, ()>(()));
        assert_eq!(kept(&mut networks, &["a"]), []);
        assert!(!networks.are_gone());
        assert_eq!(kept(&mut networks, &[]), sweep(&[]));
        assert!(!networks.are_gone(), "the answer is pending");
        networks.removed(Ok::<_, ()>(()));
        assert!(networks.are_gone());
    }

    /// A network of the cluster goes with its last instance here, whatever else its deployment has.
    #[test]
    fn sweeps_when_a_network_of_the_cluster_is_not_used_any_more() {
        let mut networks = Networks::default();
        kept(&mut networks, &["a", "7"]);
        networks.removed(Ok::<_, ()>(()));
        assert_eq!(kept(&mut networks, &["a", "7", "9"]), []);
        assert_eq!(kept(&mut networks, &["a", "9"]), sweep(&["a", "9"]));
        networks.removed(Ok::<_, ()>(()));
        assert_eq!(kept(&mut networks, &["9"]), sweep(&["9"]));
        networks.removed(Ok::<_, ()>(()));
        assert!(!networks.are_gone());
        assert_eq!(kept(&mut networks, &[]), sweep(&[]));
        networks.removed(Ok::<_, ()>(()));
        assert!(networks.are_gone());
    }

    #[test]
    fn failed_removal_is_retried_at_the_next_tick() {
        let mut networks = Networks::default();
        assert_eq!(kept(&mut networks, &[]), sweep(&[]));
        networks.removed(Err(()));
        assert_eq!(kept(&mut networks, &[]), [], "not before the next tick");
        assert!(!networks.are_gone());
        networks.retry();
        assert_eq!(kept(&mut networks, &[]), sweep(&[]));
        networks.removed(Ok::<_, ()>(()));
        assert!(networks.are_gone());
    }
}
