//! What can happen in one run, and how often: a run without most of the faults reaches states that one with all of them
//! never does (A. Groce et al., "Swarm Testing", 2012).

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::{CHOICES, Choice};
use crate::rng::Rng;

/// By how much a weight is multiplied where a run draws what it has; two of five have none of it.
const FACTORS: [u64; 5] = [0, 0, 1, 2, 5];

/// What a run has.
#[derive(Debug)]
pub(super) struct Swarm {
    /// What can happen, with weights; something always can.
    choices: Vec<(Choice, u64)>,
    /// Which keys services may have; drawn when one is asked for first. `None`: all of them.
    keys: Option<RefCell<(Rng, BTreeMap<String, bool>)>>,
}

impl Swarm {
    /// All there is, with `others`.
    pub(super) fn everything(others: &[(Choice, u64)]) -> Self {
        Self { choices: [&CHOICES, others].concat(), keys: None }
    }

    /// As it is drawn.
    pub(super) fn drawn(mut rng: Rng, others: &[(Choice, u64)]) -> Self {
        let mut choices = Self::everything(others).choices;
        for (choice, weight) in &mut choices {
            let factor = *rng.pick(&FACTORS);
            // Without deployments there is nothing to look at, and without an end of faults soon nothing that happens.
            let needed = [Choice::Apply, Choice::Start, Choice::Heal].contains(choice);
            *weight *= if needed { factor.max(1) } else { factor };
        }
        Self { choices, keys: Some(RefCell::new((rng, BTreeMap::new()))) }
    }

    /// Whether services of this run may have a key.
    pub(super) fn has(&self, key: &str) -> bool {
        let Some(keys) = &self.keys else { return true };
        let (rng, known) = &mut *keys.borrow_mut();
        *known.entry(key.to_owned()).or_insert_with(|| rng.below(2) == 0)
    }

    /// What happens next.
    pub(super) fn choose(&self, rng: &mut Rng) -> Option<Choice> {
        let mut drawn = rng.below(self.choices.iter().map(|(_, weight)| weight).sum());
        let found = self.choices.iter().find(|(_, weight)| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        });
        found.map(|(choice, _)| *choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::HARSH_CHOICES;
    use crate::rng::Stream;

    /// Each seed leaves something out, another seed something else, and no seed what all need.
    #[test]
    fn each_seed_draws_what_it_has() {
        let of = |seed| Swarm::drawn(Rng::new(seed, Stream::Swarm), &HARSH_CHOICES);
        let mut without = BTreeMap::new();
        for seed in 0..100 {
            let drawn = of(seed);
            let (has, lacks): (Vec<_>, Vec<_>) =
                drawn.choices.iter().partition(|(_, weight)| *weight > 0);
            assert!(!lacks.is_empty() && has.len() > 5, "{seed}: {has:?}");
            for (choice, _) in lacks {
                *without.entry(format!("{choice:?}")).or_insert(0) += 1;
            }
            assert_eq!(of(seed).choices, drawn.choices);
            assert_eq!(of(seed).has("job"), drawn.has("job"));
        }
        let all = CHOICES.len() + HARSH_CHOICES.len();
        assert_eq!(without.len(), all - 3, "{without:?}");
        let jobs = (0..100).filter(|seed| of(*seed).has("job")).count();
        assert!((30..70).contains(&jobs), "{jobs}");
        assert!(Swarm::everything(&[]).has("job"));
    }
}
