//! Which instance gets a request: the less busy of two, those of the own site first. A pure function.

/// So many requests in flight an instance of the own site may have and still be preferred to any elsewhere.
const PREFERRED_BELOW: usize = 8;

/// Chooses from `here` and `elsewhere`. `load` is how much a candidate has to do, `None` if it is out of the
/// question; `random` gives a number below its argument. `None`: all are out of the question.
///
/// Two are drawn and the less busy is taken: that spreads load nearly as well as looking at all, and many edges that
/// know nothing of each other do not all run to the same one.
pub(crate) fn choose<'a, T>(
    here: &'a [T],
    elsewhere: &'a [T],
    load: impl Fn(&T) -> Option<usize>,
    mut random: impl FnMut(usize) -> usize,
) -> Option<&'a T> {
    let near = less_busy_of_two(here, &load, &mut random);
    if let Some((candidate, busy)) = near
        && busy < PREFERRED_BELOW
    {
        return Some(candidate);
    }
    let far = less_busy_of_two(elsewhere, &load, &mut random);
    let (candidate, _) = match (near, far) {
        (Some(near), Some(far)) => Some(if far.1 < near.1 { far } else { near }),
        (near, far) => near.or(far),
    }?;
    Some(candidate)
}

fn less_busy_of_two<'a, T>(
    candidates: &'a [T],
    load: &impl Fn(&T) -> Option<usize>,
    random: &mut impl FnMut(usize) -> usize,
) -> Option<(&'a T, usize)> {
    let count = candidates.len();
    let with_load = |candidate: &'a T| load(candidate).map(|load| (candidate, load));
    let (first, second) = match count {
        0 => return None,
        1 => return with_load(&candidates[0]),
        _ => {
            let first = random(count);
            (first, (first + 1 + random(count - 1)) % count)
        }
    };
    match (with_load(&candidates[first]), with_load(&candidates[second])) {
        (Some(first), Some(second)) => Some(if second.1 < first.1 { second } else { first }),
        (None, None) => {
            // Rare: the first from a random place on that is not out of the question.
            let from_here = (0..count).map(|step| &candidates[(first + step) % count]);
            from_here.filter_map(with_load).next()
        }
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Candidate = (usize, Option<usize>);

    fn candidates() -> impl Strategy<Value = Vec<Option<usize>>> {
        prop::collection::vec(prop::option::weighted(0.7, 0_usize..20), 0..6)
    }

    fn numbered(loads: &[Option<usize>], from: usize) -> Vec<Candidate> {
        loads.iter().enumerate().map(|(at, load)| (from + at, *load)).collect()
    }

    proptest! {
        /// Law: one is chosen exactly if one can be, and none that is out of the question; none elsewhere
        /// while all of the own site are idle.
        #[test]
        fn the_choice_is_a_good_one(here in candidates(), elsewhere in candidates(), seed: u64) {
            let (here, elsewhere) = (numbered(&here, 0), numbered(&elsewhere, 100));
            let mut source = fastrand::Rng::with_seed(seed);
            let chosen = choose(&here, &elsewhere, |one| one.1, |below| source.usize(..below));
            let possible = here.iter().chain(&elsewhere).any(|one| one.1.is_some());
            prop_assert_eq!(chosen.is_some(), possible);
            let Some((number, load)) = chosen else { return Ok(()) };
            prop_assert!(load.is_some());
            let is_idle = |one: &Candidate| one.1.is_some_and(|load| load < PREFERRED_BELOW);
            prop_assert!(*number < 100 || here.is_empty() || !here.iter().all(is_idle));
        }

        /// Law: of two that can be chosen, the busier one is not.
        #[test]
        fn of_two_the_less_busy(loads: (usize, usize), seed: u64) {
            let mut source = fastrand::Rng::with_seed(seed);
            let pair = [loads.0, loads.1];
            let chosen = *choose(&[], &pair, |load| Some(*load), |below| source.usize(..below)).unwrap();
            prop_assert_eq!(chosen, loads.0.min(loads.1));
        }

        /// Law: load spreads. With the requests never ending, no candidate has twice the share of another, and a bit.
        #[test]
        fn load_spreads(count in 2_usize..8, seed: u64) {
            let mut source = fastrand::Rng::with_seed(seed);
            let mut loads = vec![0_usize; count];
            let names: Vec<usize> = (0..count).collect();
            for _ in 0..count * 50 {
                let chosen = *choose(&[], &names, |one| Some(loads[*one]), |below| source.usize(..below)).unwrap();
                loads[chosen] += 1;
            }
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            prop_assert!(most - least <= 10, "{loads:?}");
        }
    }

    #[test]
    fn the_own_site_is_preferred_while_it_is_not_busy() {
        let choose = |near, far| {
            *choose(&[("near", near)], &[("far", far)], |one| Some(one.1), |_| 0).unwrap()
        };
        assert_eq!(choose(7, 0).0, "near");
        assert_eq!(choose(8, 7).0, "far");
        assert_eq!(choose(8, 8).0, "near");
    }
}
