//! How many members of a cluster vote (ADR 0031). Consensus, `jaco dev`, the simulation and the tests
//! of real daemons all go by this table.

/// How many voters a cluster of `members` nodes has: 1 of up to 2, 3 of up to 4, 5 of up to 6, then 7.
///
/// Always an odd number: an even one adds a voter that can fail without adding a failure that is
/// survived. More than seven make each write slower and protect against nothing likely.
#[must_use]
pub const fn voter_target(members: usize) -> usize {
    match members {
        0 => 0,
        1..=2 => 1,
        3..=4 => 3,
        5..=6 => 5,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-NODE-4
    #[test]
    fn voters_by_number_of_members() {
        let targets: Vec<usize> = (0..=9).map(voter_target).collect();
        assert_eq!(targets, [0, 1, 1, 3, 3, 5, 5, 7, 7, 7]);
        assert_eq!(voter_target(99), 7);
    }

    /// R-NODE-4
    #[test]
    fn voters_are_odd_and_at_most_the_members() {
        for members in 1..100 {
            let voters = voter_target(members);
            assert!(voters % 2 == 1 && voters <= members, "{voters} of {members}");
        }
    }
}
