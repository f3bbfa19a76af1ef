//! Which images are looked at: all subsets where few changes are not durable, else draws by seed.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use crate::disk::Durability;
use crate::folder::Folder;
use crate::image::Draw;
use crate::random::Random;
use crate::recording::Recording;

/// Up to so many changes every subset is tried.
const FEW: usize = 5;

/// Different images of a recording, without end unless there are no more.
#[derive(Debug)]
pub struct Images<'r> {
    recording: &'r Recording,
    random: Random,
    /// Images that were given already, with where they are from.
    seen: BTreeSet<u64>,
    /// Moments in a random order, with how many images each has given.
    moments: Vec<(usize, u64)>,
    next: usize,
    /// Draws in a row that gave nothing new.
    vain: usize,
}

impl<'r> Images<'r> {
    #[must_use]
    pub fn new(recording: &'r Recording, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut order: Vec<(u64, usize)> =
            (0..=recording.steps.len()).map(|moment| (random.number(), moment)).collect();
        order.sort_unstable();
        let moments = order.into_iter().map(|(_, moment)| (moment, 0)).collect();
        Self { recording, random, seen: BTreeSet::new(), moments, next: 0, vain: 0 }
    }

    fn draw(&mut self, moment: usize, round: u64) -> Draw {
        let pending = self.recording.pending(moment);
        if pending <= FEW && round < 1 << pending {
            return Draw::Subset(round);
        }
        let durability =
            if self.random.below(2) == 0 { Durability::Ordered } else { Durability::Weak };
        Draw::Random(self.random.number(), durability)
    }
}

impl Iterator for Images<'_> {
    /// Before which step, by which draw, and what the disk holds.
    type Item = (usize, Draw, Folder);

    fn next(&mut self) -> Option<Self::Item> {
        while self.vain < 4 * self.moments.len() {
            let (moment, round) = self.moments[self.next];
            self.moments[self.next].1 += 1;
            self.next = (self.next + 1) % self.moments.len();
            let draw = self.draw(moment, round);
            let image = self.recording.image(moment, draw);
            let mut hasher = DefaultHasher::new();
            // The same bytes after another promise are another image.
            (&image, self.recording.marks(moment).count()).hash(&mut hasher);
            if self.seen.insert(hasher.finish()) {
                self.vain = 0;
                return Some((moment, draw, image));
            }
            self.vain += 1;
        }
        None
    }
}
