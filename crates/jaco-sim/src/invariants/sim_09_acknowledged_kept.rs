//! SIM-9: what was acknowledged is there.

use std::collections::{BTreeMap, BTreeSet};

use jaco_state::command::{DeploymentApply, DeploymentDelete};
use jaco_state::{Command, Outcome};
use jaco_types::{DeploymentName, Revision};

use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct AcknowledgedKept {
    /// The last revision of each deployment that a client was told of.
    acknowledged: BTreeMap<DeploymentName, Revision>,
    /// Deployments that were deleted at some time, also by requests whose answer was lost: their
    /// revisions began anew.
    deleted: BTreeSet<DeploymentName>,
}

impl Invariant for AcknowledgedKept {
    fn committed(&mut self, _facts: &Facts, step: &Committed<'_>) -> Verdict {
        if let (Command::DeploymentDelete(DeploymentDelete { name }), Outcome::Done) =
            (&step.entry.command, step.outcome)
        {
            self.deleted.insert(name.clone());
        }
        Ok(())
    }

    fn acknowledged(&mut self, command: &Command, outcome: &Outcome) {
        if let (
            Command::DeploymentApply(DeploymentApply { name, .. }),
            Outcome::Deployed { revision, .. },
        ) = (command, outcome)
        {
            self.acknowledged.insert(name.clone(), *revision);
        }
    }

    fn converged(&mut self, facts: &Facts) -> Verdict {
        for (name, acknowledged) in &self.acknowledged {
            let known = facts.state.deployments.get(name).map(|deployment| deployment.revision);
            let is_there = known.is_some_and(|known| known >= *acknowledged);
            if !is_there && !self.deleted.contains(name) {
                let (deployment, acknowledged) = (name.clone(), *acknowledged);
                return Err(InvariantViolation::AcknowledgedLost {
                    deployment,
                    acknowledged,
                    known,
                });
            }
        }
        Ok(())
    }
}
