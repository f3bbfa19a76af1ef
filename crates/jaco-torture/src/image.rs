//! What a disk may hold after a power cut.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::disk::{Durability, Inode, ROOT, Step, StepKind};
use crate::folder::{Folder, Node};
use crate::random::Random;

/// Units in which disks write, each of them whole or not at all.
const SECTORS: [usize; 2] = [512, 4096];

/// Which of the changes that are not durable are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Draw {
    /// All of them: nothing but the program ends.
    Everything,
    /// Those whose bit is set, counted from the first; each as a whole and by itself.
    Subset(u64),
    /// By a seed; also parts of a write.
    Random(u64, Durability),
}

/// Names by folder.
pub(crate) type Names = BTreeMap<(Inode, String), Inode>;

/// What a disk holds.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) names: Names,
    pub(crate) nodes: BTreeMap<Inode, Node>,
}

impl Disk {
    pub(crate) fn of(folder: &Folder) -> Self {
        let mut disk = Self { names: Names::new(), nodes: BTreeMap::from([(ROOT, Node::Folder)]) };
        // A folder sorts before what is in it.
        for (path, node) in &folder.nodes {
            let inode = disk.nodes.len();
            let parent = disk.find(path.parent().unwrap_or(Path::new(""))).unwrap_or(ROOT);
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            disk.names.insert((parent, name), inode);
            disk.nodes.insert(inode, node.clone());
        }
        disk
    }

    pub(crate) fn find(&self, path: &Path) -> Option<Inode> {
        path.iter().try_fold(ROOT, |folder, name| {
            self.names.get(&(folder, name.to_string_lossy().into_owned())).copied()
        })
    }

    /// What can be reached by a name.
    fn folder(&self) -> Folder {
        let mut found = Folder::default();
        let mut rest = vec![(PathBuf::new(), ROOT)];
        while let Some((path, folder)) = rest.pop() {
            for ((_, name), inode) in
                self.names.range((folder, String::new())..(folder + 1, String::new()))
            {
                let path = path.join(name);
                let node = self.nodes[inode].clone();
                if node == Node::Folder {
                    rest.push((path.clone(), *inode));
                }
                found.nodes.insert(path, node);
            }
        }
        found
    }

    fn apply(&mut self, kind: &StepKind, kept: &Kept) {
        match (kind, kept) {
            (_, Kept::Nothing) => {}
            (StepKind::Create { folder, name, inode, node }, _) => {
                self.names.insert((*folder, name.clone()), *inode);
                self.nodes.entry(*inode).or_insert_with(|| node.clone());
            }
            (StepKind::Remove { folder, name }, _) => {
                self.names.remove(&(*folder, name.clone()));
            }
            (StepKind::Rename { from, to, inode }, _) => {
                self.names.remove(from);
                self.names.insert(to.clone(), *inode);
            }
            (StepKind::Truncate { inode, length }, _) => self.file(*inode).resize(*length, 0),
            (StepKind::Write { inode, offset, data }, Kept::Whole) => {
                let file = self.file(*inode);
                file.resize(file.len().max(offset + data.len()), 0);
                file[*offset..offset + data.len()].copy_from_slice(data);
            }
            (StepKind::Write { inode, offset, data }, Kept::Parts { sector, seed, length }) => {
                let file = self.file(*inode);
                let mut random = Random::new(*seed);
                if *length {
                    file.resize(file.len().max(offset + data.len()), 0);
                }
                let mut from = *offset;
                while from < offset + data.len() {
                    let to = ((from / sector + 1) * sector).min(offset + data.len());
                    if random.below(2) == 1 {
                        file.resize(file.len().max(to), 0);
                        file[from..to].copy_from_slice(&data[from - offset..to - offset]);
                    }
                    from = to;
                }
            }
            (StepKind::Sync { .. } | StepKind::SyncFailed { .. } | StepKind::Mark(_), _) => {}
        }
    }

    /// The bytes of a file, also of one whose creation is lost.
    fn file(&mut self, inode: Inode) -> &mut Vec<u8> {
        match self.nodes.entry(inode).or_insert(Node::File(Vec::new())) {
            Node::File(bytes) => bytes,
            Node::Folder => unreachable!("bytes are written to files"),
        }
    }
}

/// What is kept of one change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    Whole,
    /// Of a write each sector by itself, and whether the file has grown all the same.
    Parts {
        sector: usize,
        seed: u64,
        length: bool,
    },
}

/// What a disk that held `before` may hold after a power cut behind `steps`.
pub(crate) fn image(before: &Folder, steps: &[Step], draw: Draw) -> Folder {
    let durability = match draw {
        Draw::Everything | Draw::Subset(_) => Durability::Weak,
        Draw::Random(_, durability) => durability,
    };
    let pending = pending(steps, durability);
    let kept = drawn(steps, &pending, draw);
    let mut disk = Disk::of(before);
    for (step, done) in steps.iter().enumerate() {
        disk.apply(&done.kind, kept.get(&step).unwrap_or(&Kept::Whole));
    }
    disk.folder()
}

/// What is kept of the changes that are not durable.
fn drawn(steps: &[Step], pending: &[usize], draw: Draw) -> BTreeMap<usize, Kept> {
    let whole = |keep: bool| if keep { Kept::Whole } else { Kept::Nothing };
    let (seed, durability) = match draw {
        Draw::Everything => return BTreeMap::new(),
        Draw::Subset(bits) => {
            let kept = pending.iter().zip(0_u32..);
            return kept
                .map(|(step, bit)| (*step, whole(bits.checked_shr(bit).unwrap_or(0) & 1 == 1)))
                .collect();
        }
        Draw::Random(seed, durability) => (seed, durability),
    };
    let mut random = Random::new(seed);
    // Of names and lengths, and of bytes, so many of 8 are kept.
    let names_kept = [0, 4, 7, 8][usize::from(random.byte() % 4)];
    let bytes_kept = [0, 4, 7, 8][usize::from(random.byte() % 4)];
    let is_torn = random.below(2) == 1;
    let names: BTreeSet<usize> =
        pending.iter().copied().filter(|step| is_of_names(&steps[*step].kind)).collect();
    // In their order: all before a moment.
    let moment = random.below(names.len() as u64 + 1);
    let mut before = 0;
    let mut kept = BTreeMap::new();
    for step in pending {
        let choice = if names.contains(step) {
            before += 1;
            match durability {
                Durability::Ordered => whole(before <= moment),
                Durability::Weak => whole(random.below(8) < names_kept),
            }
        } else if is_torn && random.below(2) == 1 {
            let sector = SECTORS[usize::from(random.byte() % 2)];
            Kept::Parts { sector, seed: random.number(), length: random.below(2) == 1 }
        } else {
            whole(random.below(8) < bytes_kept)
        };
        kept.insert(*step, choice);
    }
    kept
}

/// Changes of names, and lengths that a program sets.
fn is_of_names(kind: &StepKind) -> bool {
    match kind {
        StepKind::Create { .. }
        | StepKind::Remove { .. }
        | StepKind::Rename { .. }
        | StepKind::Truncate { .. } => true,
        StepKind::Write { .. }
        | StepKind::Sync { .. }
        | StepKind::SyncFailed { .. }
        | StepKind::Mark(_) => false,
    }
}

/// The changes that a power cut may undo, by their position.
pub(crate) fn pending(steps: &[Step], durability: Durability) -> Vec<usize> {
    let mut pending: Vec<usize> = Vec::new();
    let mut doomed: Vec<usize> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let covered = |other: &usize, inode: &Inode| {
            steps[*other].end < step.begin && is_made_durable(&steps[*other].kind, *inode)
        };
        match &step.kind {
            StepKind::Sync { inode } => {
                let known = |other: &&usize| {
                    steps[**other].end < step.begin && is_metadata_of(&steps[**other].kind, *inode)
                };
                let newest = match durability {
                    Durability::Ordered => pending.iter().rev().find(known).copied(),
                    Durability::Weak => None,
                };
                pending.retain(|other| {
                    let earlier = newest
                        .is_some_and(|newest| *other <= newest && is_of_names(&steps[*other].kind));
                    !earlier && !covered(other, inode)
                });
            }
            StepKind::SyncFailed { inode } => {
                doomed.extend(pending.iter().filter(|other| covered(other, inode)));
                pending.retain(|other| !covered(other, inode));
            }
            StepKind::Mark(_) => {}
            StepKind::Create { .. }
            | StepKind::Remove { .. }
            | StepKind::Rename { .. }
            | StepKind::Write { .. }
            | StepKind::Truncate { .. } => pending.push(at),
        }
    }
    pending.extend(doomed);
    pending.sort_unstable();
    pending
}

/// Whether a sync of `inode` makes this change durable, whatever the file system.
fn is_made_durable(kind: &StepKind, synced: Inode) -> bool {
    match kind {
        StepKind::Create { folder, .. } | StepKind::Remove { folder, .. } => *folder == synced,
        // Of both folders at once, or of none.
        StepKind::Rename { from, to, .. } => from.0 == synced || to.0 == synced,
        StepKind::Write { inode, .. } | StepKind::Truncate { inode, .. } => *inode == synced,
        StepKind::Sync { .. } | StepKind::SyncFailed { .. } | StepKind::Mark(_) => false,
    }
}

/// Whether it is a change of names or lengths that the journal of a file system keeps with `inode`.
fn is_metadata_of(kind: &StepKind, synced: Inode) -> bool {
    if let StepKind::Create { inode, .. } | StepKind::Rename { inode, .. } = kind
        && *inode == synced
    {
        return true;
    }
    is_of_names(kind) && is_made_durable(kind, synced)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Recording;

    const FILE: Inode = 1;

    fn create(name: &str, inode: Inode) -> StepKind {
        let (name, node) = (name.to_owned(), Node::File(Vec::new()));
        StepKind::Create { folder: ROOT, name, inode, node }
    }

    fn write(inode: Inode, offset: usize, data: &[u8]) -> StepKind {
        StepKind::Write { inode, offset, data: data.to_vec() }
    }

    fn rename(from: &str, to: &str, inode: Inode) -> StepKind {
        let (from, to) = ((ROOT, from.to_owned()), (ROOT, to.to_owned()));
        StepKind::Rename { from, to, inode }
    }

    fn sync(inode: Inode) -> StepKind {
        StepKind::Sync { inode }
    }

    fn recording(kinds: impl IntoIterator<Item = StepKind>) -> Recording {
        let step = |(at, kind)| Step { kind, begin: at, end: at };
        let steps = kinds.into_iter().enumerate().map(step).collect();
        Recording { before: Folder::default(), steps }
    }

    /// Every image that 2,000 draws give of the end, as names with their text.
    fn ends(recording: &Recording, durability: Durability) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for seed in 0..2_000 {
            let image = recording.image(recording.steps.len(), Draw::Random(seed, durability));
            let name = |(path, node): (&PathBuf, &Node)| match node {
                Node::Folder => format!("{}/", path.display()),
                Node::File(bytes) => {
                    format!("{}={}", path.display(), String::from_utf8_lossy(bytes))
                }
            };
            found.insert(image.nodes.iter().map(name).collect::<Vec<_>>().join(" "));
        }
        found
    }

    fn texts(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn what_is_synced_stays() {
        let steps = [create("a", FILE), write(FILE, 0, b"x"), sync(FILE), sync(ROOT)];
        for durability in [Durability::Ordered, Durability::Weak] {
            assert_eq!(ends(&recording(steps.clone()), durability), texts(&["a=x"]));
        }
    }

    #[test]
    fn what_is_not_synced_may_stay_or_go() {
        let steps = [create("a", FILE), sync(ROOT), write(FILE, 0, b"x")];
        let ends = ends(&recording(steps), Durability::Weak);
        assert_eq!(ends, texts(&["a=", "a=\0", "a=x"]));
    }

    /// A sync of a file says nothing of its name, but where the file system keeps all names in order.
    #[test]
    fn a_name_is_durable_with_its_folder() {
        let steps = [create("a", FILE), write(FILE, 0, b"x"), sync(FILE)];
        let recording = recording(steps);
        assert_eq!(ends(&recording, Durability::Weak), texts(&["", "a=x"]));
        assert_eq!(ends(&recording, Durability::Ordered), texts(&["a=x"]));
    }

    /// A name that is given before the sync may lead to nothing; one that is given after it never does.
    #[test]
    fn a_rename_happens_whole_or_not_at_all() {
        let before = [create("a", FILE), write(FILE, 0, b"x"), sync(FILE), sync(ROOT)];
        let steps = before.into_iter().chain([rename("a", "b", FILE)]);
        assert_eq!(ends(&recording(steps), Durability::Weak), texts(&["a=x", "b=x"]));
        let early = [create("a", FILE), write(FILE, 0, b"x"), rename("a", "b", FILE), sync(ROOT)];
        assert!(ends(&recording(early), Durability::Ordered).contains("b="));
    }

    /// What a failed sync has not written is not durable after one that succeeds.
    #[test]
    fn a_failed_sync_is_not_made_good() {
        let failed = StepKind::SyncFailed { inode: FILE };
        let steps = [create("a", FILE), sync(ROOT), write(FILE, 0, b"x"), failed, sync(FILE)];
        assert!(ends(&recording(steps), Durability::Weak).contains("a="));
    }

    /// A write that another thread has not ended before the sync began is not covered by it.
    #[test]
    fn a_sync_covers_what_ended_before_it() {
        let mut recording =
            recording([create("a", FILE), sync(ROOT), write(FILE, 0, b"x"), sync(FILE)]);
        recording.steps[2].end = 10;
        assert!(ends(&recording, Durability::Weak).contains("a="));
    }

    /// Sectors are written whole, each by itself.
    #[test]
    fn a_write_is_torn_at_sectors() {
        let data = [1; 1_024];
        let recording = recording([create("a", FILE), sync(ROOT), write(FILE, 0, &data)]);
        let halves = (0..500).map(|seed| {
            let image = recording.image(3, Draw::Random(seed, Durability::Weak));
            let Some(Node::File(bytes)) = image.nodes.get(Path::new("a")) else {
                panic!("no file")
            };
            assert!(bytes.len() % 512 == 0, "{}", bytes.len());
            bytes.chunks(512).map(|half| half.iter().all(|byte| *byte == 1)).collect::<Vec<_>>()
        });
        let halves: BTreeSet<_> = halves.collect();
        assert!(halves.contains(&vec![true]) && halves.contains(&vec![false, true]), "{halves:?}");
    }
}
