//! Audit events in files: one line of JSON each, oldest first, with the hashes of the chain. Whoever
//! has the files can check them against each other and against what the cluster still has.
//!
//! A line has one form only: what is not written exactly as it would be written here is not read.

use std::collections::BTreeMap;
use std::fmt;

use jaco_state::audit::{AuditEvent, AuditKey, AuditKind};
use jaco_state::audit::{Digest, HashedEvent};
use jaco_types::{StateIndex, Timestamp};
use serde::{Deserialize, Serialize};

/// An event of the chain as a line has it; the fields are in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    index: u64,
    number: u32,
    kind: String,
    at_ms: u64,
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    payload: BTreeMap<String, String>,
    /// The hash of the event before.
    previous: String,
    /// The event's own.
    hash: String,
}

/// The place of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The entry that caused it.
    pub index: u64,
    /// Its number among the entry's events, from 0.
    pub number: u32,
}

/// What links an event to its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The place of the event.
    pub place: Place,
    /// The hash of the event before.
    pub previous: Digest,
    /// The event's own.
    pub hash: Digest,
}

/// Why a line is not an event as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// It is no line of an archive.
    #[error("it is no event: {0}")]
    Malformed(String),
    /// It is written otherwise than it was.
    #[error("it is not written as an event is")]
    Form,
    /// A newer program wrote it, or its kind was changed.
    #[error("there is no kind of event called {0:?}")]
    Kind(String),
    /// Its words and its hash do not agree.
    #[error("its hash does not match its content")]
    Hash,
}

/// The line of an event, with its end; `None` as long as no chain is begun.
#[must_use]
pub fn archive_line(key: AuditKey, event: &AuditEvent) -> Option<String> {
    let previous = event.previous?;
    let line = Line {
        index: key.index.0,
        number: key.number,
        kind: event.kind.as_str().to_owned(),
        at_ms: event.at.0,
        by: event.by.to_string(),
        origin: event.origin.map(|origin| origin.to_string()),
        request_id: event.request.as_ref().map(ToString::to_string),
        payload: event.payload.clone(),
        previous: previous.to_string(),
        hash: Digest::of(key, event).to_string(),
    };
    Some(line.text() + "\n")
}

/// Reads a line, without its end, and checks it against itself.
///
/// # Errors
/// If it is not an event exactly as [`archive_line`] writes it.
pub fn read_archive_line(text: &[u8]) -> Result<Link, LineProblem> {
    let malformed = |error: serde_json::Error| LineProblem::Malformed(error.to_string());
    let line: Line = serde_json::from_slice(text).map_err(malformed)?;
    if line.text().as_bytes() != text {
        return Err(LineProblem::Form);
    }
    let kind = AuditKind::ALL.iter().copied().find(|kind| kind.as_str() == line.kind);
    let kind = kind.ok_or_else(|| LineProblem::Kind(line.kind.clone()))?;
    let previous = to_digest(&line.previous).ok_or(LineProblem::Form)?;
    let key = AuditKey { index: StateIndex(line.index), number: line.number };
    let event = HashedEvent {
        key,
        kind,
        at: Timestamp(line.at_ms),
        by: &line.by,
        origin: line.origin.as_deref(),
        request: line.request_id.as_deref(),
        payload: &line.payload,
        previous: Some(previous),
    };
    let hash = event.digest();
    if hash.to_string() != line.hash {
        return Err(LineProblem::Hash);
    }
    let place = Place { index: line.index, number: line.number };
    Ok(Link { place, previous, hash })
}

impl Line {
    fn text(&self) -> String {
        serde_json::to_string(self).expect("names, numbers and texts are JSON")
    }
}

/// A hash as it is written: 64 small hex digits.
fn to_digest(text: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(Digest(bytes)).filter(|digest| digest.to_string() == text)
}

/// What the cluster still has, to which an archive must join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The oldest event that is kept; absent where none is.
    pub first: Option<Place>,
    /// The hash, in hex, of the event before that.
    pub follows: String,
}

/// An archive whose events are as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveVerified {
    /// How many events were looked at.
    pub events: u64,
    /// The oldest and the newest; absent where there is none.
    pub span: Option<(Place, Place)>,
    /// Whether the oldest is the first there ever was.
    pub complete: bool,
}

/// Why an archive does not hold. All that is newer than what is named is as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveBroken {
    /// A line is not as it was written.
    Altered {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The event before which it lies; absent where it is the last.
        before: Option<Place>,
        /// What is wrong.
        problem: LineProblem,
    },
    /// Events are missing: they were taken out, or the node did not have them when they went.
    Gap {
        /// The last event before the gap.
        after: Place,
        /// The first event after it.
        before: Place,
    },
    /// The newest events of the archive and the oldest of the cluster do not meet.
    NotJoined {
        /// The newest event of the archive before the oldest of the cluster; absent where there is none.
        last: Option<Place>,
        /// The oldest event of the cluster.
        first: Option<Place>,
    },
}

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// Checks an archive from its newest event back, as the chain is checked that is kept: each event that
/// is vouched for vouches for the one before. `files` come newest first.
///
/// # Errors
/// The newest line that is not as it was written.
pub fn verify_archive(
    files: impl IntoIterator<Item = ArchiveFile>,
    kept: &Kept,
) -> Result<ArchiveVerified, ArchiveBroken> {
    let (mut newest, mut newer) = (None, None::<Link>);
    let (mut events, mut joined) = (0, false);
    for file in files {
        // A node that died while it wrote leaves a last line without an end; it writes it anew.
        let whole = file.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<&[u8]> =
            file.bytes[..whole].split_inclusive(|byte| *byte == b'\n').collect();
        for (at, line) in lines.iter().enumerate().rev() {
            let text = &line[..line.len() - 1];
            let before = newer.map(|link| link.place);
            let link = read_archive_line(text).map_err(|problem| ArchiveBroken::Altered {
                file: file.name.clone(),
                line: at + 1,
                before,
                problem,
            })?;
            if let Some(newer) = newer.filter(|newer| newer.previous != link.hash) {
                return Err(ArchiveBroken::Gap { after: link.place, before: newer.place });
            }
            // Events may have gone to the archive since the cluster was asked.
            if !joined && kept.first.is_none_or(|first| link.place < first) {
                joined = link.hash.to_string() == kept.follows;
                if !joined {
                    let (last, first) = (Some(link.place), kept.first);
                    return Err(ArchiveBroken::NotJoined { last, first });
                }
            }
            newest = newest.or(Some(link));
            newer = Some(link);
            events += 1;
        }
    }
    let start = Digest::start();
    // All that is there may be newer than what was asked for; then it goes on where that ended.
    let reaches = newer.map_or(start, |oldest| oldest.previous).to_string() == kept.follows;
    if !joined && !reaches {
        return Err(ArchiveBroken::NotJoined { last: None, first: kept.first });
    }
    let span = newer.zip(newest).map(|(oldest, newest)| (oldest.place, newest.place));
    let complete = newer.is_none_or(|oldest| oldest.previous == start);
    Ok(ArchiveVerified { events, span, complete })
}

impl fmt::Display for ArchiveBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Altered { file, line, before, problem } => {
                write!(f, "line {line} of {file} is not as it was written: {problem}; ")?;
                match before {
                    Some(before) => write!(f, "it is the event before {before}"),
                    None => f.write_str("it is the newest of the archive"),
                }
            }
            Self::Gap { after, before } => write!(
                f,
                "events between {after} and {before} are missing: they were removed, or the \
                 node was away when they went; another node may have them"
            ),
            Self::NotJoined { last, first } => {
                let last = last.map_or_else(|| "nothing".to_owned(), |last| last.to_string());
                let first = first.map_or_else(|| "nothing".to_owned(), |first| first.to_string());
                write!(
                    f,
                    "the archive ends with {last}, and that is not what comes before {first}, the \
                     oldest event that is kept"
                )
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.number)
    }
}
