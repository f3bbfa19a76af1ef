//! Returns memory that a burst has left: with the allocator, which gives back by itself only what is freed at the end of its
//! heaps, so that one block in use there keeps all that is free below it; and pages of the program that it ran.

use std::fs;
use std::time::Duration;

use rustix::param::page_size;

/// How often it is looked at. Nobody else on the machine misses it for that long.
const INTERVAL: Duration = Duration::from_secs(5);

/// How much more has to be kept than before. Twice what the heap of an idle daemon varies by.
const WORTH_BYTES: u64 = 4 << 20;

/// How much more is enough once the daemon is calm: nobody waits for it then.
const WORTH_WHEN_CALM_BYTES: u64 = 512 << 10;

/// What is kept by a calm daemon has changed by less since the look before.
const CALM_BYTES: u64 = 128 << 10;

/// After so many looks at least the program is unmapped again: a minute. It costs some hundred pieces of it that are mapped again,
/// each a microsecond.
const UNMAPPED_EVERY: u32 = 12;

/// Looks at what is kept, for ever.
pub(crate) async fn give_back() {
    let (mut kept, mut program) = (Kept::default(), Program::default());
    let mut looks = tokio::time::interval(INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        // Those who allocate meanwhile wait for it, so it is not done by a thread that others wait for.
        let looking = tokio::task::spawn_blocking(move || {
            kept.look(kept_bytes, jaco_heap::give_back);
            program.look(in_files_bytes(), jaco_heap::unmap_program);
            (kept, program)
        });
        // The runtime has gone if this fails.
        let Ok(looked) = looking.await else { return };
        (kept, program) = looked;
    }
}

/// Memory that is in no file and that the program has no use for: what the allocator keeps, and stacks. Blocks that were
/// not touched yet count as used, so only how it changes says something.
fn kept_bytes() -> i64 {
    let (resident, in_files) = resident_bytes();
    signed(resident.saturating_sub(in_files)) - signed(jaco_heap::allocated_bytes())
}

/// Memory that is in files: nearly all of it is the program.
fn in_files_bytes() -> u64 {
    resident_bytes().1
}

/// All memory, and that of it which is in files.
fn resident_bytes() -> (u64, u64) {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let page = u64::try_from(page_size()).unwrap_or_default();
    let pages = statm.split(' ').map(|pages| pages.parse::<u64>().unwrap_or_default());
    let mut bytes = pages.skip(1).map(|pages| pages.saturating_mul(page));
    (bytes.next().unwrap_or_default(), bytes.next().unwrap_or_default())
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// When the program is unmapped.
#[derive(Debug)]
struct Program {
    last: Option<u64>,
    /// Bytes that were mapped again once the daemon was calm.
    used: Option<u64>,
    /// Looks since it was unmapped.
    looks: u32,
}

impl Default for Program {
    /// The start is over with the first calm.
    fn default() -> Self {
        Self { last: None, used: None, looks: UNMAPPED_EVERY }
    }
}

impl Program {
    /// Unmaps it if nothing more of it was run since the look before: what a calm daemon runs is mapped again at once, and what
    /// only a start or a burst ran is not.
    fn look(&mut self, in_files: u64, unmap: impl FnOnce()) {
        let is_calm = self.last.is_some_and(|last| in_files.abs_diff(last) < CALM_BYTES);
        self.last = Some(in_files);
        self.looks = self.looks.saturating_add(1);
        if !is_calm {
            return;
        }
        let is_after_burst = self.used.is_some_and(|used| in_files >= used + WORTH_BYTES);
        if is_after_burst || self.looks > UNMAPPED_EVERY {
            unmap();
            (self.used, self.looks) = (None, 0);
        } else if self.used.is_none() {
            self.used = Some(in_files);
        }
    }
}

/// What was kept since memory was given back.
#[derive(Debug, Default)]
struct Kept {
    least: Option<i64>,
    last: Option<i64>,
}

impl Kept {
    /// Gives back if it is worth it.
    fn look(&mut self, kept: impl Fn() -> i64, give_back: impl FnOnce()) {
        let now = kept();
        let least = self.least.map_or(now, |least| least.min(now));
        let more = u64::try_from(now.saturating_sub(least)).unwrap_or_default();
        let is_calm = self.last.is_some_and(|last| now.abs_diff(last) < CALM_BYTES);
        let worth = if is_calm { WORTH_WHEN_CALM_BYTES } else { WORTH_BYTES };
        (self.least, self.last) = (Some(least), Some(now));
        if more >= worth {
            give_back();
            self.least = Some(kept());
            self.last = self.least;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// R-FAULT-3: what a burst leaves is given back once; what stays after that is not tried again, and neither is what
    /// varies.
    #[test]
    fn a_burst_is_given_back_once() {
        const MIB: i64 = 1 << 20;
        let (mut kept, gave) = (Kept::default(), Cell::new(0));
        let mut look = |now: i64, then: i64| {
            let shown = Cell::new(now);
            let give_back = || {
                shown.set(then);
                gave.set(gave.get() + 1);
            };
            kept.look(|| shown.get(), give_back);
            gave.take()
        };
        for idle in [-20, -18, -17, -20] {
            assert_eq!(look(idle * MIB, 0), 0);
        }
        assert_eq!(look(10 * MIB, -15 * MIB), 1);
        for still in [-15, -14, -12, -15] {
            assert_eq!(look(still * MIB, 0), 0);
        }
        assert_eq!(look(-11 * MIB, -20 * MIB), 1);
        assert_eq!(look(-16 * MIB, -20 * MIB), 1, "it is compared with what was reached");
    }

    /// R-FAULT-3: less than a burst is given back once nothing changes any more, and once only.
    #[test]
    fn a_little_is_given_back_in_calm() {
        const KIB: i64 = 1 << 10;
        let (mut kept, gave) = (Kept::default(), Cell::new(0));
        let mut look = |now: i64, then: i64| {
            let shown = Cell::new(now * KIB);
            let give_back = || {
                shown.set(then * KIB);
                gave.set(gave.get() + 1);
            };
            kept.look(|| shown.get(), give_back);
            gave.take()
        };
        for busy in [0, 900, 1300, 2000, 1500] {
            assert_eq!(look(busy, 0), 0, "{busy}");
        }
        assert_eq!(look(1450, 400), 1, "it has become calm");
        for calm in [400, 450, 500, 520] {
            assert_eq!(look(calm, 0), 0, "{calm}");
        }
        assert_eq!(look(911, 0), 0, "it is busy again");
        assert_eq!(look(912, 400), 1);
    }

    /// R-FAULT-3: a program is unmapped once its start is over, after each burst, and once a minute while it is calm.
    #[test]
    fn a_program_is_unmapped_in_calm() {
        const MIB: u64 = 1 << 20;
        let (mut program, unmapped) = (Program::default(), Cell::new(0));
        let mut look = |mapped: u64| {
            program.look(mapped * MIB, || unmapped.set(unmapped.get() + 1));
            unmapped.take()
        };
        let start: Vec<u32> = [10, 20, 25, 25].map(&mut look).into();
        assert_eq!(start, [0, 0, 0, 1]);
        for _ in 0..12 {
            assert_eq!(look(12), 0);
        }
        assert_eq!(look(12), 1);
        for busy in 13..33 {
            assert_eq!(look(busy), 0);
        }
        assert_eq!(look(32), 1, "the minute is over, and it is calm");
        let burst: Vec<u32> = [12, 12, 15, 15, 16, 16].map(&mut look).into();
        assert_eq!(burst, [0, 0, 0, 0, 0, 1], "little is worth nothing before the minute is over");
    }

    /// What is measured of this process is what a burst leaves.
    #[test]
    fn a_burst_is_seen() {
        let before = kept_bytes();
        let mut blocks: Vec<Vec<u8>> =
            (0..20_000).map(|_| std::hint::black_box(vec![1; 1000])).collect();
        let top = blocks.pop();
        drop(blocks);
        assert!(kept_bytes() > before + (8 << 20));
        jaco_heap::give_back();
        assert!(kept_bytes() < before + (8 << 20));
        drop(top);
    }
}
