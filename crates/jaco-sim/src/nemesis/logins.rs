//! The password of the registry, and which one the cluster has. With a stream of random numbers of its own, so that what
//! else happens in a run is the same where none is needed.

use super::Style;
use crate::rng::Rng;

/// The registry of all images.
const REGISTRY: &str = "docker.io";

/// How many passwords there are: few, so that a wrong one becomes the right one now and then.
const PASSWORDS: u64 = 3;

/// The logins of a run.
pub(super) struct Logins {
    rng: Rng,
    /// Whether there are any: in a third of the runs that are harsh.
    has_logins: bool,
    /// What the registry wants, if it wants anything.
    wanted: Option<u64>,
}

impl Logins {
    pub(super) fn new(mut rng: Rng, style: Style) -> Self {
        let has_logins = style.is_harsh() && rng.below(3) == 0;
        Self { rng, has_logins, wanted: None }
    }

    /// What is done about logins in a step.
    pub(super) fn line(&mut self) -> Option<String> {
        if !self.has_logins || self.rng.below(8) > 0 {
            return None;
        }
        let password = self.rng.below(PASSWORDS);
        match self.rng.below(4) {
            0 => {
                self.wanted = Some(password);
                Some(format!("registry {REGISTRY} wants {password}"))
            }
            1 => Some(format!("logout {REGISTRY}")),
            2 => Some(format!("login {REGISTRY} {password}")),
            _ => self.right(),
        }
    }

    /// The login that the registry wants, if it wants one.
    pub(super) fn right(&self) -> Option<String> {
        self.wanted.map(|password| format!("login {REGISTRY} {password}"))
    }
}
