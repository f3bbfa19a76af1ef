//! Whose disks are full. With a stream of random numbers of its own, so that what else happens in a run is the same where
//! none is.

use super::Style;
use crate::rng::Rng;

/// What becomes of a disk: as often as not it has space again.
const STATES: [&str; 4] = ["nearly-full", "full", "free", "free"];

/// The disks of a run.
pub(super) struct Disks {
    rng: Rng,
    /// Whether any of them gets full: in a third of the runs that are harsh.
    get_full: bool,
}

impl Disks {
    pub(super) fn new(mut rng: Rng, style: Style) -> Self {
        let get_full = style.is_harsh() && rng.below(3) == 0;
        Self { rng, get_full }
    }

    /// What happens to the disk of one of these nodes in a step.
    pub(super) fn line(&mut self, hosts: &[String]) -> Option<String> {
        if !self.get_full || hosts.is_empty() || self.rng.below(6) > 0 {
            return None;
        }
        let (host, state) = (self.rng.pick(hosts).clone(), *self.rng.pick(&STATES));
        Some(format!("disk {host} {state}"))
    }

    /// All of them have space.
    pub(super) fn make_peace(&self) -> Option<String> {
        self.get_full.then(|| "disk all free".to_owned())
    }
}
