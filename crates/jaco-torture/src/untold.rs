//! What a trace does not tell: of two calls that went on at the same time, which was carried out first; and of a call
//! within which the program ended, whether it was. What the folder holds in the end may tell.

use std::ops::Range;

use crate::disk::{Step, StepKind};

/// Of so many questions, the last ones of a trace, every combination of answers is tried.
const MOST: usize = 8;

/// Something that a trace does not tell of steps, by their places.
#[derive(Debug, Clone, Copy)]
enum Untold {
    /// Whether this one was carried out.
    Done(usize),
    /// Which of the two was first.
    First(usize, usize),
}

/// The other ways in which a trace can be read, those that differ least first.
pub(crate) fn readings(steps: &[Step]) -> impl Iterator<Item = Vec<Step>> {
    let untold: Vec<Untold> = untold(steps).into_iter().rev().take(MOST).collect();
    (1..1_usize << untold.len()).map(move |chosen| {
        let chosen = untold.iter().enumerate().filter(|(bit, _)| chosen & (1 << bit) != 0);
        let (mut read, mut undone) = (steps.to_vec(), Vec::new());
        for (_, question) in chosen {
            match *question {
                Untold::Done(at) => undone.push(at),
                Untold::First(one, other) => read.swap(one, other),
            }
        }
        let kept = read.into_iter().enumerate().filter(|(at, _)| !undone.contains(at));
        kept.map(|(_, step)| step).collect()
    })
}

fn untold(steps: &[Step]) -> Vec<Untold> {
    let mut found = Vec::new();
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| !step.kind.is_sync()) {
        if step.end == usize::MAX {
            found.push(Untold::Done(at));
        }
        let later = steps.iter().enumerate().skip(at + 1);
        for (other, _) in later
            .take_while(|(_, later)| later.kind.is_sync() || later.begin < step.end)
            .filter(|(_, later)| order_counts(&step.kind, &later.kind))
        {
            found.push(Untold::First(at, other));
        }
    }
    found
}

/// Whether the file is another one if the two are carried out in the other order. Names are told in the order in which
/// programs use them.
fn order_counts(one: &StepKind, other: &StepKind) -> bool {
    match (changed(one), changed(other)) {
        (Some((inode, bytes)), Some((same, others))) => {
            inode == same && bytes.start < others.end && others.start < bytes.end
        }
        _ => false,
    }
}

/// The bytes of a file that a step changes; of one that is cut or grows, all behind that.
fn changed(kind: &StepKind) -> Option<(usize, Range<usize>)> {
    match kind {
        StepKind::Write { inode, offset, data } => Some((*inode, *offset..offset + data.len())),
        StepKind::Truncate { inode, length } => Some((*inode, *length..usize::MAX)),
        StepKind::Create { .. }
        | StepKind::Remove { .. }
        | StepKind::Rename { .. }
        | StepKind::Sync { .. }
        | StepKind::SyncFailed { .. }
        | StepKind::Mark(_) => None,
    }
}
