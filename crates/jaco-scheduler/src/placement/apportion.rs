//! Sharing a number of replicas among domains, in whole numbers.
//!
//! Shares are by weight and largest remainder. A domain takes at least what it has, because nobody
//! moves, and at most what fits; what it takes more or less than its share is shared by the others,
//! to a fixed point (R-SPREAD-2, R-SPREAD-4).

use std::cmp::Reverse;

/// One of the domains that share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Party {
    /// How much it gets, compared with the others. A domain of weight zero gets something only when
    /// no other can.
    pub(crate) weight: u64,
    /// What it has already.
    pub(crate) least: u32,
    /// What fits at most.
    pub(crate) most: u32,
    /// Among equal remainders, the lowest rank comes first, then the order of the list.
    pub(crate) rank: (u64, u64),
}

/// The share of each party. They add up to `count` wherever the bounds allow.
pub(crate) fn apportion(count: u32, parties: &[Party]) -> Vec<u32> {
    let mut shares: Vec<Option<u32>> = vec![None; parties.len()];
    loop {
        let open: Vec<usize> = (0..parties.len()).filter(|at| shares[*at].is_none()).collect();
        let settled: u32 = shares.iter().flatten().fold(0, |sum, share| sum.saturating_add(*share));
        let rest = count.saturating_sub(settled);
        let ideal = by_largest_remainder(rest, &open, parties);
        let below = |(at, share): &(usize, u32)| parties[*at].least.saturating_sub(*share);
        let above = |(at, share): &(usize, u32)| share.saturating_sub(parties[*at].most);
        let sum = |excess: &dyn Fn(&(usize, u32)) -> u32| -> u64 {
            ideal.iter().map(|entry| u64::from(excess(entry))).sum()
        };
        let (lacking, exceeding) = (sum(&below), sum(&above));
        if lacking == 0 && exceeding == 0 {
            for (at, share) in ideal {
                shares[at] = Some(share);
            }
            return shares.into_iter().map(Option::unwrap_or_default).collect();
        }
        // The greater violation is settled first: settling the smaller one could be undone by it.
        for entry in &ideal {
            let party = &parties[entry.0];
            if lacking >= exceeding && below(entry) > 0 {
                shares[entry.0] = Some(party.least);
            } else if lacking < exceeding && above(entry) > 0 {
                shares[entry.0] = Some(party.most);
            }
        }
    }
}

fn by_largest_remainder(count: u32, open: &[usize], parties: &[Party]) -> Vec<(usize, u32)> {
    let total: u128 = open.iter().map(|at| u128::from(parties[*at].weight)).sum();
    // Where nobody has a weight, what nobody else takes is shared equally.
    let weight = |at: usize| if total == 0 { 1 } else { u128::from(parties[at].weight) };
    let total = if total == 0 { open.len().max(1) as u128 } else { total };
    let mut shares: Vec<(usize, u32)> = Vec::with_capacity(open.len());
    let mut order = Vec::with_capacity(open.len());
    for at in open {
        let (share, remainder) = divide(u128::from(count) * weight(*at), total);
        if weight(*at) > 0 {
            order.push((Reverse(remainder), parties[*at].rank, shares.len()));
        }
        shares.push((*at, u32::try_from(share).unwrap_or(u32::MAX)));
    }
    let given: u64 = shares.iter().map(|(_, share)| u64::from(*share)).sum();
    let left = usize::try_from(u64::from(count).saturating_sub(given)).unwrap_or(usize::MAX);
    order.sort_unstable();
    for (.., i) in order.into_iter().take(left) {
        shares[i].1 += 1;
    }
    shares
}

/// Quotient and remainder. Nearly all weights are small, and a division of 128 bits costs ten of 64.
fn divide(of: u128, by: u128) -> (u128, u128) {
    match (u64::try_from(of), u64::try_from(by)) {
        (Ok(of), Ok(by)) => (u128::from(of / by), u128::from(of % by)),
        _ => (of / by, of % by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(weight: u64) -> Party {
        Party { weight, least: 0, most: u32::MAX, rank: (0, 0) }
    }

    /// R-SPREAD-2: equal shares, percents, and what remains.
    #[test]
    fn shares_are_by_weight() {
        assert_eq!(apportion(10, &[free(1), free(1)]), [5, 5]);
        assert_eq!(apportion(10, &[free(60), free(40)]), [6, 4]);
        assert_eq!(apportion(10, &[free(100), free(50), free(50)]), [5, 3, 2]);
        assert_eq!(apportion(0, &[free(1)]), [0]);
        assert_eq!(apportion(3, &[]), [0; 0]);
    }

    /// R-SPREAD-4: a full domain gives its surplus away; one that has more than its share keeps it.
    #[test]
    fn bounds_are_kept() {
        let full = Party { most: 1, ..free(1) };
        assert_eq!(apportion(10, &[full, free(1), free(1)]), [1, 5, 4]);
        let rich = Party { least: 8, ..free(1) };
        assert_eq!(apportion(10, &[rich, free(1), free(1)]), [8, 1, 1]);
        assert_eq!(apportion(10, &[full, full]), [1, 1]);
        assert_eq!(apportion(4, &[Party { most: 1, ..free(3) }, free(0), free(0)]), [1, 2, 1]);
    }
}
