//! The networks of this owner. They outlive containers, so somebody has to look after them: once after
//! the start, and whenever the last of a deployment has left.

use std::collections::BTreeSet;

use jaco_types::DeploymentName;

use super::Effect;

/// What is known of the networks here.
#[derive(Debug, Default)]
pub(super) struct Networks {
    /// The deployments that may have some; absent before the first sweep: an earlier agent may have
    /// left any.
    of: Option<BTreeSet<DeploymentName>>,
    sweep: Sweep,
}

/// Whether they are being removed.
#[derive(Debug, Default)]
enum Sweep {
    #[default]
    Idle,
    /// The deployments that may have some once it is done.
    UnderWay(BTreeSet<DeploymentName>),
    /// Tried again when time has passed: what holds a network may let go of it.
    Failed,
}

impl Networks {
    /// Notes that networks of these deployments are needed, and removes others.
    pub(super) fn keep(&mut self, keep: BTreeSet<DeploymentName>, effects: &mut Vec<Effect>) {
        let is_left = self.of.as_ref().is_none_or(|known| !known.is_subset(&keep));
        if let Some(known) = &mut self.of {
            known.extend(keep.iter().cloned());
        }
        match &mut self.sweep {
            Sweep::Idle if is_left => {
                effects.push(Effect::RemoveNetworks { keep: keep.clone() });
                self.sweep = Sweep::UnderWay(keep);
            }
            Sweep::UnderWay(after) => after.extend(keep),
            Sweep::Idle | Sweep::Failed => {}
        }
    }

    /// The answer to [`Effect::RemoveNetworks`].
    pub(super) fn removed<E>(&mut self, result: Result<(), E>) {
        match (std::mem::take(&mut self.sweep), result) {
            (Sweep::UnderWay(after), Ok(())) => self.of = Some(after),
            (Sweep::UnderWay(_), Err(_)) => self.sweep = Sweep::Failed,
            (other @ (Sweep::Idle | Sweep::Failed), _) => self.sweep = other,
        }
    }

    /// Time has passed.
    pub(super) fn retry(&mut self) {
        if matches!(self.sweep, Sweep::Failed) {
            self.sweep = Sweep::Idle;
        }
    }

    /// Whether none are left.
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
    fn swept_once_after_the_start_and_when_the_last_has_left() {
        let mut networks = Networks::default();
        assert_eq!(
            kept(&mut networks, &["a"]),
            sweep(&["a"]),
            "an earlier agent may have left some"
        );
        assert_eq!(kept(&mut networks, &["a", "b"]), [], "one is under way");
        networks.removed(Ok::<_, ()>(()));
        assert_eq!(kept(&mut networks, &["a", "b"]), []);
        assert_eq!(kept(&mut networks, &["a"]), sweep(&["a"]), "b came while it was under way");
        networks.removed(Ok::<_, ()>(()));
        assert_eq!(kept(&mut networks, &["a"]), []);
        assert!(!networks.are_gone());
        assert_eq!(kept(&mut networks, &[]), sweep(&[]));
        assert!(!networks.are_gone(), "not answered yet");
        networks.removed(Ok::<_, ()>(()));
        assert!(networks.are_gone());
    }

    #[test]
    fn what_cannot_be_removed_is_tried_again_when_time_has_passed() {
        let mut networks = Networks::default();
        assert_eq!(kept(&mut networks, &[]), sweep(&[]));
        networks.removed(Err(()));
        assert_eq!(kept(&mut networks, &[]), [], "at once it would fail at once");
        assert!(!networks.are_gone());
        networks.retry();
        assert_eq!(kept(&mut networks, &[]), sweep(&[]));
        networks.removed(Ok::<_, ()>(()));
        assert!(networks.are_gone());
    }
}
