//! SIM-10: a request takes effect once, however often it is sent.

use std::collections::BTreeMap;

use jaco_state::audit::AuditKind;
use jaco_types::{RequestId, StateIndex};

use super::{Committed, Facts, Invariant, InvariantViolation, Verdict};

#[derive(Debug, Default)]
pub(super) struct RequestOnce {
    effects: BTreeMap<RequestId, StateIndex>,
}

impl Invariant for RequestOnce {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        let Some(request) = &step.entry.request else { return Ok(()) };
        let index = step.entry.index;
        let newest = facts.state.audit.events.iter().next_back();
        let has_effect = newest.is_some_and(|(key, event)| {
            key.index == index && event.kind != AuditKind::RequestRefused
        });
        if !has_effect {
            return Ok(());
        }
        match self.effects.insert(request.clone(), index) {
            None => Ok(()),
            Some(first) => {
                let request = request.clone();
                Err(InvariantViolation::EffectTwice { request, first, second: index })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jaco_state::command::DeploymentApply;
    use jaco_state::{Entry, apply};
    use jaco_types::spec::DeploymentSpec;
    use jaco_types::{Identity, Timestamp};

    use super::*;

    /// SIM-10: two states that do not know of each other's requests execute the same one.
    #[test]
    fn a_second_effect_is_found() {
        let mut law = RequestOnce::default();
        let mut verdicts = Vec::new();
        for index in [5, 9] {
            let mut facts = Facts::new();
            let before = facts.state.clone();
            let name = "shop".parse().expect("a valid name");
            let entry = Entry {
                index: StateIndex(index),
                at: Timestamp(index),
                by: Identity::Local { uid: 0 },
                origin: None,
                request: Some(RequestId::new("r1").expect("a valid name")),
                command: DeploymentApply::new(name, DeploymentSpec::default()).into(),
            };
            let outcome = apply(&mut facts.state, &entry);
            let (appended, before, outcome) = (entry.at, &before, &outcome);
            let step = Committed { entry: &entry, appended, before, outcome };
            verdicts.push(law.committed(&facts, &step));
        }
        let found = verdicts.pop().expect("two entries").expect_err("the second effect");
        assert_eq!(found.id(), "SIM-10");
        assert_eq!(verdicts, [Ok(())]);
    }
}
