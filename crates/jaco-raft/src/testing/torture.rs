//! What writes the log and the snapshots of a node in a known order, and what has to be left of it after a power cut.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::log::Image;
use super::random::Random;
use crate::codec;
use crate::disk::Directory;
use crate::engine::sled::SledEngine;
use crate::engine::{LogEngine as _, Op, Reclaim};
use crate::snapshot::{SnapshotSource, SnapshotStore};
use crate::types::{StoredMembership, Vote, log_id};

/// One thing that is done with a log.
#[derive(Debug, Clone)]
enum Turn {
    Commit(Vec<Op>),
    /// As a node at rest deletes what is purged.
    Reclaim,
    /// The log is closed and opened again.
    Reopen,
}

/// Appends, truncations, purges and votes, as raft asks for them.
#[derive(Debug)]
pub struct LogScript {
    turns: Vec<Turn>,
}

impl LogScript {
    /// A script of so many turns, by seed.
    pub fn new(seed: u64, turns: usize) -> Self {
        let mut random = Random::new(seed);
        let mut writer = Writer { first: 1, next: 1, term: 1, serial: 0 };
        Self { turns: (0..turns).map(|_| writer.turn(&mut random)).collect() }
    }

    /// Does everything, and tells before and after each turn: `begin 3`, `ack 3`.
    ///
    /// # Errors
    /// As the engine says; nothing is done after that.
    pub fn run(&self, dir: &Path, tell: impl Fn(&str)) -> io::Result<()> {
        let mut engine = SledEngine::open(dir)?;
        for (number, turn) in self.turns.iter().enumerate() {
            tell(&format!("begin {number}"));
            match turn {
                Turn::Commit(ops) => engine.commit(ops)?,
                Turn::Reclaim => while engine.reclaim()? == Reclaim::More {},
                Turn::Reopen => {
                    drop(engine);
                    engine = SledEngine::open(dir)?;
                }
            }
            tell(&format!("ack {number}"));
        }
        Ok(())
    }

    /// Opens the log in `dir`: it has to hold what the first `acknowledged` turns did, and may hold what the
    /// `begun` ones did. What is written then has to be there at the next start.
    ///
    /// # Errors
    /// What is lost, or what was never written. The inner error is why the log does not open.
    pub fn check(
        &self,
        dir: &Path,
        begun: usize,
        acknowledged: usize,
    ) -> Result<Result<(), io::Error>, String> {
        let mut engine = match SledEngine::open(dir) {
            Ok(engine) => engine,
            Err(error) => return Ok(Err(error)),
        };
        let mut found = match image_of(&engine) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let mut allowed = Image::default();
        for turn in &self.turns[..acknowledged] {
            turn.apply(&mut allowed);
        }
        let mut allowed = vec![allowed];
        for turn in &self.turns[acknowledged..begun] {
            allowed = turn.outcomes(allowed.last().expect("one or more"));
        }
        if !allowed.iter().any(|allowed| is_same(allowed, &found)) {
            let wanted: Vec<String> = allowed.iter().take(3).map(summary).collect();
            return Err(format!("{} is there, wanted {}", summary(&found), wanted.join(" or ")));
        }
        let next = found.records.last_key_value().map(|(index, _)| index + 1);
        let next = next.unwrap_or_else(|| purged_upto(&found).map_or(1, |upto| upto + 1));
        let more = [
            Op::Vote(codec::encode_vote(&Vote::new(1 << 40, 1))),
            Op::Append(vec![(next, Bytes::from_static(b"after"))]),
        ];
        for op in more {
            if let Err(error) = engine.commit(std::slice::from_ref(&op)) {
                return Err(format!("it opens and takes no write: {error}"));
            }
            found.apply(&op);
        }
        drop(engine);
        let again = SledEngine::open(dir).and_then(|engine| image_of(&engine));
        match again {
            Ok(again) if is_same(&again, &found) => Ok(Ok(())),
            Ok(again) => {
                Err(format!("{} after another start, not {}", summary(&again), summary(&found)))
            }
            Err(error) => Err(format!("it opens once and not again: {error}")),
        }
    }
}

impl Turn {
    fn apply(&self, image: &mut Image) {
        if let Self::Commit(ops) = self {
            ops.iter().for_each(|op| image.apply(op));
        }
    }

    /// All that may be there when this turn was begun.
    fn outcomes(&self, before: &Image) -> Vec<Image> {
        let mut outcomes = vec![before.clone()];
        let Self::Commit(ops) = self else { return outcomes };
        for done in 0..ops.len() {
            let mut image = before.clone();
            ops[..done].iter().for_each(|op| image.apply(op));
            let mut partial = vec![image.clone()];
            if let Op::Append(records) = &ops[done] {
                partial.extend((1..=records.len()).map(|count| {
                    let mut image = image.clone();
                    image.apply(&Op::Append(records[..count].to_vec()));
                    image
                }));
            }
            // Votes and marks may be there before the records that precede them in a group.
            let later: Vec<&Op> = ops[done..]
                .iter()
                .filter(|op| matches!(op, Op::Vote(_) | Op::Purge { .. }))
                .collect();
            for image in partial {
                for count in 0..=later.len() {
                    let mut image = image.clone();
                    later[..count].iter().for_each(|op| image.apply(op));
                    outcomes.push(image);
                }
            }
        }
        let mut whole = before.clone();
        self.apply(&mut whole);
        outcomes.push(whole);
        outcomes
    }
}

/// What the script has written so far.
struct Writer {
    first: u64,
    next: u64,
    term: u64,
    serial: u64,
}

impl Writer {
    fn turn(&mut self, random: &mut Random) -> Turn {
        match random.below(24) {
            0 => Turn::Reopen,
            1 => Turn::Reclaim,
            2 | 3 => Turn::Commit(vec![self.vote(random)]),
            4 | 5 => Turn::Commit(vec![self.vote(random), self.append(random)]),
            6 => Turn::Commit(vec![self.append(random), self.vote(random)]),
            7..=9 if self.next > self.first => {
                let mut ops = vec![self.truncate(random)];
                if random.below(2) == 0 {
                    ops.push(self.append(random));
                }
                Turn::Commit(ops)
            }
            10 | 11 if self.next > self.first + 1 => {
                let upto = self.first + random.below(self.next - self.first - 1);
                self.first = upto + 1;
                let mark = codec::encode_mark(Some(&log_id(1, 1, upto)), 7);
                Turn::Commit(vec![Op::Purge { upto, mark }])
            }
            12 => {
                let mark = codec::encode_mark(Some(&log_id(1, 1, self.first)), 7);
                Turn::Commit(vec![self.append(random), Op::Committed(mark)])
            }
            13 => Turn::Commit(vec![self.append(random), self.append(random)]),
            _ => Turn::Commit(vec![self.append(random)]),
        }
    }

    fn vote(&mut self, random: &mut Random) -> Op {
        self.term += 1 + random.below(2);
        Op::Vote(codec::encode_vote(&Vote::new(self.term, 1 + random.below(3))))
    }

    fn truncate(&mut self, random: &mut Random) -> Op {
        self.next -= 1 + random.below((self.next - self.first).min(20));
        Op::TruncateFrom(self.next)
    }

    fn append(&mut self, random: &mut Random) -> Op {
        let count = 1 + random.below(6);
        let records = (0..count).map(|_| {
            let size = match random.below(40) {
                0 => 100_000 + random.below(100_000),
                1..=8 => 3_000 + random.below(6_000),
                _ => 8 + random.below(300),
            };
            self.serial += 1;
            // No two records are the same.
            let units = usize::try_from(size / 8).unwrap_or(1);
            let record = (self.next, Bytes::from(self.serial.to_be_bytes().repeat(units)));
            self.next += 1;
            record
        });
        Op::Append(records.collect())
    }
}

fn image_of(engine: &SledEngine) -> io::Result<Image> {
    let recovered = engine.recovered();
    let records = match recovered.indices.clone() {
        Some(indices) => {
            let records = engine.reader().read(indices.clone(), usize::MAX)?;
            if !records.iter().map(|(index, _)| *index).eq(indices) {
                return Err(codec::invalid("the log has a hole".to_owned()));
            }
            records
        }
        None => Vec::new(),
    };
    Ok(Image {
        vote: recovered.vote,
        committed: recovered.committed,
        purged: recovered.purged,
        records: records.into_iter().collect(),
    })
}

/// But for the committed mark, which may be old.
fn is_same(one: &Image, other: &Image) -> bool {
    one.vote == other.vote && one.purged == other.purged && one.records == other.records
}

fn purged_upto(image: &Image) -> Option<u64> {
    let mark = image.purged.clone().map(codec::decode_mark)?.ok()?;
    mark.0.map(|id| id.index)
}

fn summary(image: &Image) -> String {
    let vote = image.vote.clone().map(codec::decode_vote).and_then(Result::ok);
    let ends = image.records.first_key_value().zip(image.records.last_key_value());
    let ends = ends.map(|((first, _), (last, _))| (*first, *last));
    format!("vote {vote:?}, purged {:?}, records {ends:?}", purged_upto(image))
}

/// Snapshots that a node builds and receives.
#[derive(Debug)]
pub struct SnapshotScript;

/// A state of so many bytes.
struct State {
    number: u64,
    bytes: usize,
}

impl SnapshotSource for State {
    fn write(self: Box<Self>, writer: &mut dyn io::Write) -> io::Result<()> {
        writer.write_all(&self.number.to_be_bytes().repeat(self.bytes / 8))
    }
}

impl SnapshotScript {
    /// Builds some, receives others in chunks, and tells of each: `begin 3`, `ack 3`.
    ///
    /// # Errors
    /// As the disk says.
    pub fn run(dir: &Path, count: u64, tell: impl Fn(&str)) -> io::Result<()> {
        let store = store(&dir.join("snapshots"))?;
        let leader = store_of_leader(dir)?;
        store.recover()?;
        for number in 1..=count {
            tell(&format!("begin {number}"));
            if number % 3 == 0 {
                let built = build(&leader, number)?;
                let name = SnapshotStore::incoming(&built.sum);
                store.forget_incoming(&name)?;
                let mut offset = store.received(&name)?;
                while offset < built.len {
                    let chunk = leader.read_chunk(&built.name, offset, 20_000)?;
                    store.receive(&name, &chunk)?;
                    offset += chunk.len() as u64;
                }
                store.accept(&name)?;
            } else {
                build(&store, number)?;
            }
            tell(&format!("ack {number}"));
        }
        Ok(())
    }

    /// The newest readable snapshot has to cover what was acknowledged, and all of it has to be as it was written.
    ///
    /// # Errors
    /// What is lost.
    pub fn check(dir: &Path, begun: u64, acknowledged: u64) -> Result<(), String> {
        let store = store(&dir.join("snapshots")).map_err(|error| error.to_string())?;
        let newest = store.recover().map_err(|error| format!("not readable: {error}"))?;
        let number = newest.as_ref().and_then(|file| file.last()).map_or(0, |last| last.index);
        if number < acknowledged || number > begun {
            return Err(format!(
                "snapshot {number} is the newest, {acknowledged} was acknowledged"
            ));
        }
        if let Some(file) = newest {
            let mut bytes = Vec::new();
            let read = store.restore_from(&file, |state| state.read_to_end(&mut bytes));
            read.map_err(|error| error.to_string())?;
            let mut wanted = Vec::new();
            Box::new(state(number)).write(&mut wanted).map_err(|error| error.to_string())?;
            if bytes != wanted {
                return Err(format!("snapshot {number} holds another state"));
            }
        }
        // A name is only given to what is complete.
        let names = std::fs::read_dir(dir.join("snapshots")).map_err(|error| error.to_string())?;
        let names: BTreeSet<String> = names
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        match names.iter().find(|name| name.ends_with(".damaged")) {
            Some(name) => Err(format!("{name} was complete when it got its name")),
            None => Ok(()),
        }
    }
}

fn store(dir: &Path) -> io::Result<SnapshotStore> {
    Ok(SnapshotStore::new(Arc::new(Directory::open(dir)?), "torture"))
}

/// Beside what is recorded.
fn store_of_leader(dir: &Path) -> io::Result<SnapshotStore> {
    store(&dir.with_extension("leader"))
}

fn state(number: u64) -> State {
    let mut random = Random::new(number);
    State { number, bytes: usize::try_from(1_000 + random.below(150_000)).unwrap_or(1_000) }
}

fn build(store: &SnapshotStore, number: u64) -> io::Result<crate::snapshot::SnapshotFile> {
    let last = Some(log_id(1, 1, number));
    store.build(last, &StoredMembership::default(), 7, Box::new(state(number)))
}

/// The number after the last mark that begins with `word`.
pub fn last_number(marks: &[&str], word: &str) -> Option<u64> {
    let numbers = marks.iter().filter_map(|mark| mark.strip_prefix(word)?.strip_prefix(' '));
    numbers.filter_map(|number| number.parse().ok()).next_back()
}
