//! The plan that is held, on disk: the last whole one and, line by line, what has changed since.
//!
//! A process may end in the middle of a line: what is read is the plan up to the last whole one. The daemon tells the
//! next process a whole plan as soon as it is connected; until then an older plan is held, and never half of one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use jaco_dataplane::SitePlan;
use jaco_types::StateIndex;
use tracing::warn;

use super::change_message::ChangeMessage;
use super::plan_message::PlanMessage;

/// Bytes of changes that are kept beside a small plan. A large one is written whole again once its changes are as
/// long as itself, so that writing costs no more than twice what is told.
const CHANGES_MAX: u64 = 1 << 20;

/// The file that a plan is kept in.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Where changes are appended; absent until this process has written a whole plan.
    file: Option<File>,
    /// The length of the whole plan, and that of the changes after it, in bytes.
    length: (u64, u64),
}

impl Journal {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, length: (0, 0) }
    }

    /// The plan that an earlier process held, and the state that it is of.
    pub(super) fn read(&self) -> Option<(StateIndex, SitePlan)> {
        let bytes = fs::read(&self.path).ok()?;
        let (held, rest) = read(&bytes)?;
        if !rest.is_empty() {
            warn!(raft_index = held.0.0, "last change of the plan is not whole");
        }
        Some(held)
    }

    /// Keeps a whole plan in the place of all that was kept.
    pub(super) fn write(&mut self, plan: &PlanMessage) {
        if let Err(error) = self.try_write(plan) {
            warn!(%error, "plan not kept for the next process");
        }
    }

    /// Keeps a change of the plan that was kept last; `before` is that plan, for a journal that lacks it.
    pub(super) fn append(&mut self, change: &ChangeMessage, before: impl FnOnce() -> PlanMessage) {
        let appended = match &self.file {
            Some(_) => Ok(()),
            None => self.try_write(&before()),
        };
        if let Err(error) = appended.and_then(|()| self.try_append(change)) {
            warn!(%error, "change of the plan not kept for the next process");
            // What is there may end in half a line, after which nothing counts.
            self.file = None;
        }
    }

    /// Whether the changes have become so long that the plan is better written whole.
    pub(super) fn is_long(&self) -> bool {
        let (plan, changes) = self.length;
        changes > plan.max(CHANGES_MAX)
    }

    fn try_write(&mut self, plan: &PlanMessage) -> io::Result<()> {
        self.file = None;
        let line = line(plan)?;
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&line)?;
        fs::rename(&new, &self.path)?;
        self.file = Some(file);
        self.length = (bytes(&line), 0);
        Ok(())
    }

    fn try_append(&mut self, change: &ChangeMessage) -> io::Result<()> {
        let file = self.file.as_mut().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let line = line(change)?;
        file.write_all(&line)?;
        self.length.1 += bytes(&line);
        Ok(())
    }
}

/// What lines stand for, and the bytes after the last one that counts; `None` where there is no whole plan.
fn read(bytes: &[u8]) -> Option<((StateIndex, SitePlan), &[u8])> {
    let (first, mut rest) = split(bytes).unwrap_or((bytes, &[]));
    let message: PlanMessage = serde_json::from_slice(first).ok()?;
    let (mut index, mut plan) = (message.index, message.plan()?);
    while let Some((line, after)) = split(rest) {
        let Ok(message) = serde_json::from_slice::<ChangeMessage>(line) else { break };
        let Some(change) = message.change().filter(|_| message.base == index) else { break };
        plan.change(&change);
        (index, rest) = (message.index, after);
    }
    Some(((StateIndex(index), plan), rest))
}

/// The first line, and what follows; `None` where none is whole.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// JSON has no line breaks of its own.
fn line(message: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

fn bytes(line: &[u8]) -> u64 {
    u64::try_from(line.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use jaco_dataplane::PlanChange;

    use super::super::plan_message::tests::everything;
    use super::*;

    /// A journal in a folder of its own, which ends with it.
    struct Kept(PathBuf);

    impl Kept {
        fn new(name: &str) -> Self {
            let folder = format!("jaco-journal-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(folder);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn journal(&self) -> Journal {
            Journal::new(self.0.join("plan"))
        }

        fn bytes(&self) -> Vec<u8> {
            fs::read(self.0.join("plan")).unwrap()
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    /// Plans one after the other: everything, nothing, everything, …, with the state of each.
    fn plans() -> Vec<(u64, SitePlan)> {
        let both = [everything(), SitePlan::default()];
        (1..).map(|number| number * 10).zip(both.into_iter().cycle()).take(6).collect()
    }

    fn change(from: &(u64, SitePlan), to: &(u64, SitePlan)) -> ChangeMessage {
        let change = PlanChange::between(&from.1, &to.1);
        ChangeMessage::new(StateIndex(from.0), StateIndex(to.0), &change)
    }

    fn whole((index, plan): &(u64, SitePlan)) -> PlanMessage {
        PlanMessage::new(StateIndex(*index), plan)
    }

    /// Writes the first whole and the others as changes; returns where each of them ends in the file.
    fn written(kept: &Kept, plans: &[(u64, SitePlan)]) -> Vec<usize> {
        let mut journal = kept.journal();
        journal.write(&whole(&plans[0]));
        let mut ends = vec![kept.bytes().len()];
        for pair in plans.windows(2) {
            journal.append(&change(&pair[0], &pair[1]), || panic!("the plan was written"));
            ends.push(kept.bytes().len());
        }
        ends
    }

    /// NET-13: wherever a process is killed while it writes, the next one goes on with a plan that was told.
    #[test]
    fn a_file_that_ends_anywhere_is_a_plan_that_was_told() {
        let (kept, plans) = (Kept::new("cut"), plans());
        let ends = written(&kept, &plans);
        let bytes = kept.bytes();
        for length in 0..=bytes.len() {
            let read = read(&bytes[..length]).map(|((index, plan), _)| (index.0, plan));
            let told = ends.iter().rposition(|end| *end <= length);
            // The line break after the first one may be missing: it came by its new name only once it was whole.
            let told = told.or((length + 1 == ends[0]).then_some(0));
            assert_eq!(read.as_ref(), told.map(|at| &plans[at]), "after {length} bytes");
        }
    }

    /// NET-13: what does not follow from what was told before does not count, nor anything after it.
    #[test]
    fn a_gap_ends_the_journal() {
        let (kept, plans) = (Kept::new("gap"), plans());
        let mut journal = kept.journal();
        journal.write(&whole(&plans[0]));
        journal.append(&change(&plans[0], &plans[1]), || panic!());
        journal.append(&change(&plans[2], &plans[3]), || panic!());
        journal.append(&change(&plans[1], &plans[2]), || panic!());
        let held = kept.journal().read().unwrap();
        assert_eq!((held.0.0, &held.1), (plans[1].0, &plans[1].1));
    }

    /// A process that goes on with a file writes the plan whole before it appends.
    #[test]
    fn another_process_begins_the_file_anew() {
        let (kept, plans) = (Kept::new("anew"), plans());
        written(&kept, &plans[..3]);
        let mut cut = kept.bytes();
        cut.truncate(cut.len() - 7);
        fs::write(kept.0.join("plan"), cut).unwrap();
        let mut journal = kept.journal();
        let held = journal.read().unwrap();
        assert_eq!(held.0.0, plans[1].0);
        journal.append(&change(&plans[1], &plans[2]), || whole(&plans[1]));
        let held = kept.journal().read().unwrap();
        assert_eq!((held.0.0, &held.1), (plans[2].0, &plans[2].1));
    }

    #[test]
    fn a_long_journal_says_so_until_it_is_written_whole() {
        let (kept, plans) = (Kept::new("long"), plans());
        let mut journal = kept.journal();
        journal.write(&whole(&plans[0]));
        let forth = change(&plans[0], &plans[1]);
        let line = bytes(&line(&forth).unwrap());
        for _ in 0..=CHANGES_MAX / line {
            assert!(!journal.is_long());
            journal.append(&forth, || panic!());
        }
        assert!(journal.is_long());
        journal.write(&whole(&plans[1]));
        assert!(!journal.is_long());
        assert_eq!(kept.journal().read().unwrap().0.0, plans[1].0);
    }
}
