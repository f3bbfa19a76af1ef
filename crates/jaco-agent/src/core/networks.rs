//! Networks of this owner. They outlive containers, so unused ones are removed: once after the
//! start, and whenever the last instance of a deployment is gone.

use std::collections::BTreeSet;

use jaco_types::DeploymentName;

use super::Effect;

/// State of the networks on this node.
#[derive(Debug, Default)]
pub(super) struct Networks {
    /// Deployments that may have networks; `None` before the first sweep: an earlier agent may have
    /// left any.
    of: Option<BTreeSet<DeploymentName>>,
    sweep: Sweep,
}

/// State of the removal of unused networks.
#[derive(Debug, Default)]
enum Sweep {
    #[default]
    Idle,
    /// Deployments that may have networks afterwards.
    InProgress(BTreeSet<DeploymentName>),
    /// Retried at the next tick: the network may not be in use by then.
    Failed,
}

impl Networks {
    /// Keeps the networks of these deployments and removes others.
    pub(super) fn keep(&mut self, keep: BTreeSet<DeploymentName>, effects: &mut Vec<Effect>) {
        let is_left = self.of.as_ref().is_none_or(|known| !known.is_subset(&keep));
        if let Some(known) = &mut self.of {
            known.extend(keep.iter().cloned());
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
        matches!(self.sweep, Sweep::Idle) && self.of.as_ref().is_some_and(BTreeSet::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<DeploymentName> {
        names.iter().map(|name| DeploymentName::new(name).unwrap()).collect()
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
