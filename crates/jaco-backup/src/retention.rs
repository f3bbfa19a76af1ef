//! Which backups of a folder are kept. Pure: it knows no present, so a folder that gets no new backup loses none.

use std::collections::BTreeSet;

use time::OffsetDateTime;

/// Seconds of a day.
const DAY_SECS: i64 = 24 * 3600;

/// How many backups are kept. A backup is kept if one of the rules keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// The newest ones.
    pub newest: usize,
    /// The newest one of each of the last days that have a backup, in UTC.
    pub days: usize,
    /// The same for weeks, which begin on Monday.
    pub weeks: usize,
    /// The same for months.
    pub months: usize,
}

/// When a backup was taken. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Taken {
    pub(super) at_ms: i64,
    pub(super) raft_index: u64,
}

impl Taken {
    fn day(self) -> i64 {
        self.at_ms.div_euclid(1000 * DAY_SECS)
    }

    /// The epoch began on a Thursday.
    fn week(self) -> i64 {
        (self.day() + 3).div_euclid(7)
    }

    fn month(self) -> i64 {
        let at = OffsetDateTime::from_unix_timestamp(self.at_ms.div_euclid(1000));
        // A time without a date is in no month of others.
        at.map_or(i64::MIN, |at| i64::from(at.year()) * 12 + i64::from(u8::from(at.month())))
    }
}

impl Retention {
    /// Whether it says anything. If not, everything is kept.
    pub fn has_rules(&self) -> bool {
        *self != Self::default()
    }

    /// Those that are kept. The newest one is among them.
    pub(super) fn kept(&self, all: &BTreeSet<Taken>) -> BTreeSet<Taken> {
        if !self.has_rules() {
            return all.clone();
        }
        let mut kept: BTreeSet<Taken> = all.iter().rev().take(self.newest).copied().collect();
        kept.extend(newest_of_each(all, self.days, Taken::day));
        kept.extend(newest_of_each(all, self.weeks, Taken::week));
        kept.extend(newest_of_each(all, self.months, Taken::month));
        kept
    }
}

/// The newest one of each of the last `number` periods that have one.
fn newest_of_each(all: &BTreeSet<Taken>, number: usize, period: fn(Taken) -> i64) -> Vec<Taken> {
    let mut newest: Vec<Taken> = Vec::new();
    for taken in all.iter().rev().copied() {
        if newest.len() == number {
            break;
        }
        if newest.last().is_none_or(|last| period(*last) != period(taken)) {
            newest.push(taken);
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(day: i64, hour: i64) -> Taken {
        let at_ms = (day * 24 + hour) * 3_600_000;
        Taken { at_ms, raft_index: u64::try_from(at_ms).unwrap() }
    }

    fn days(kept: &BTreeSet<Taken>) -> Vec<i64> {
        kept.iter().map(|taken| taken.day()).collect()
    }

    const RULES: Retention = Retention { newest: 2, days: 3, weeks: 2, months: 2 };

    /// R-CLI-6: each rule keeps the newest of its periods, and the others go.
    #[test]
    fn each_rule_keeps_the_newest_of_its_periods() {
        // Two backups a day, from Thursday 1 January 1970 on; day 59 is 1 March.
        let all: BTreeSet<Taken> =
            (0..60).flat_map(|day| [taken(day, 3), taken(day, 15)]).collect();
        let only = |rules: Retention| days(&rules.kept(&all));
        let none = Retention::default();
        assert_eq!(only(Retention { newest: 3, ..none }), [58, 59, 59]);
        assert_eq!(only(Retention { days: 3, ..none }), [57, 58, 59]);
        // Sundays, the last day of each week.
        assert_eq!(only(Retention { weeks: 3, ..none }), [45, 52, 59]);
        assert_eq!(only(Retention { months: 3, ..none }), [30, 58, 59]);
        assert_eq!(only(RULES), [52, 57, 58, 59, 59]);
        assert_eq!(none.kept(&all), all);
        assert!(RULES.kept(&BTreeSet::new()).is_empty());
        let newest = Retention { days: 1, ..none }.kept(&all);
        assert_eq!(newest, [taken(59, 15)].into());
    }

    /// R-CLI-6: after each run, for two years, the folder has the newest backup, as many days, weeks and months as the
    /// rules say, and no more files than they allow; what was removed in a run is not missed in a later one.
    #[test]
    fn a_folder_that_is_pruned_each_day_has_what_the_rules_say() {
        let (mut folder, mut all) = (BTreeSet::new(), BTreeSet::new());
        for day in 0..730 {
            folder.insert(taken(day, 3));
            all.insert(taken(day, 3));
            folder = RULES.kept(&folder);
            assert_eq!(folder, RULES.kept(&all), "day {day}");
            assert_eq!(RULES.kept(&folder), folder, "nothing is left to remove");
            assert!(folder.contains(&taken(day, 3)) && folder.len() <= 2 + 3 + 2 + 2, "day {day}");
        }
    }
}
