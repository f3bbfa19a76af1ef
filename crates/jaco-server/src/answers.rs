//! Encoded answers that readers share, and a bound of the memory of those that are read slowly.
//!
//! A large answer is sent in parts, so a slow reader costs a part of its own, and the answer that it is in the middle of.
//! While the state changes, readers of different speed hold different answers: these are counted here, and the one whose
//! readers stand still is withdrawn when its memory is needed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// Answers that readers are in the middle of: no further one is made while they have more bytes than this.
const READ_BYTES: usize = 32 << 20;

/// How long readers may take for an answer while another one waits for its memory.
const READ_PATIENCE: Duration = Duration::from_secs(10);

/// How long they may take nothing of it meanwhile.
const STALL_PATIENCE: Duration = Duration::from_secs(2);

/// How often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The answers that exist.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The oldest first.
    all: Mutex<VecDeque<Weak<Answer>>>,
}

/// An encoded status, in one part or more. It exists once, for all who read it.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    parts: Mutex<Vec<Bytes>>,
    readers: AtomicUsize,
    progress: Mutex<Option<Progress>>,
}

/// When readers took parts.
#[derive(Debug, Clone, Copy)]
struct Progress {
    first: Instant,
    last: Instant,
}

/// One reader of an answer, at one of its parts.
#[derive(Debug)]
pub(crate) struct Reading {
    answer: Option<Arc<Answer>>,
    next: usize,
}

/// The memory of an answer was needed for another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Withdrawn;

impl Answers {
    /// Makes an answer of its parts, of which there is at least one.
    pub(crate) fn keep(&self, parts: Vec<Bytes>) -> Arc<Answer> {
        let answer = Arc::new(Answer { parts: Mutex::new(parts), ..Answer::default() });
        self.lock().push_back(Arc::downgrade(&answer));
        answer
    }

    /// Waits until there is memory for a further answer.
    pub(crate) async fn room(&self) {
        while !self.has_room(Instant::now()) {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Whether there is memory, if need be by withdrawing answers.
    fn has_room(&self, now: Instant) -> bool {
        let mut all = self.lock();
        all.retain(|answer| answer.strong_count() > 0);
        let read: Vec<_> = all.iter().filter_map(Weak::upgrade).filter(|it| it.is_read()).collect();
        let mut bytes: usize = read.iter().map(|answer| answer.bytes()).sum();
        for answer in read.iter().filter(|answer| answer.is_slow(now)) {
            if bytes < READ_BYTES {
                break;
            }
            bytes -= answer.bytes();
            answer.withdraw();
        }
        bytes < READ_BYTES
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Weak<Answer>>> {
        self.all.lock().expect("nothing panics while holding the answers")
    }
}

impl Answer {
    fn is_read(&self) -> bool {
        self.readers.load(Ordering::SeqCst) > 0
    }

    fn is_slow(&self, now: Instant) -> bool {
        let progress = self.progress.lock().expect("nothing panics while holding it");
        progress.is_some_and(|it| now - it.last > STALL_PATIENCE || now - it.first > READ_PATIENCE)
    }

    fn bytes(&self) -> usize {
        self.lock().iter().map(Bytes::len).sum()
    }

    fn withdraw(&self) {
        self.lock().clear();
    }

    /// A part, and whether it is the last one.
    fn part(&self, number: usize, now: Instant) -> Result<(Bytes, bool), Withdrawn> {
        let parts = self.lock();
        let part = parts.get(number).cloned().ok_or(Withdrawn)?;
        let mut progress = self.progress.lock().expect("nothing panics while holding it");
        let first = progress.map_or(now, |progress| progress.first);
        *progress = Some(Progress { first, last: now });
        Ok((part, number + 1 == parts.len()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Bytes>> {
        self.parts.lock().expect("nothing panics while holding the parts")
    }
}

impl Reading {
    pub(crate) fn of(answer: Arc<Answer>) -> Self {
        answer.readers.fetch_add(1, Ordering::SeqCst);
        Self { answer: Some(answer), next: 0 }
    }

    /// The next part. An answer that was withdrawn ends with an error.
    fn next_at(&mut self, now: Instant) -> Option<Result<Bytes, Withdrawn>> {
        let found = self.answer.as_ref()?.part(self.next, now);
        self.next += 1;
        if !matches!(found, Ok((_, false))) {
            self.end();
        }
        Some(found.map(|(part, _)| part))
    }

    fn end(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer.readers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Iterator for Reading {
    type Item = Result<Bytes, Withdrawn>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_at(Instant::now())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: Bytes = Bytes::from_static(&[0; 1 << 20]);

    fn large(answers: &Answers) -> Arc<Answer> {
        answers.keep(vec![PART; 40])
    }

    fn begin(answer: &Arc<Answer>, now: Instant) -> Reading {
        let mut reading = Reading::of(Arc::clone(answer));
        assert_eq!(reading.next_at(now), Some(Ok(PART)));
        reading
    }

    /// R-FAULT-3: answers that are read to their end, or that nobody reads, leave room for further ones.
    #[test]
    fn what_is_not_being_read_is_not_counted() {
        let (answers, now) = (Answers::default(), Instant::now());
        let kept: Vec<_> = (0..10).map(|_| large(&answers)).collect();
        assert!(answers.has_room(now), "nobody reads them");
        assert_eq!(Reading::of(Arc::clone(&kept[0])).count(), 40);
        let reader = begin(&kept[0], now);
        assert!(!answers.has_room(now));
        drop(reader);
        assert!(answers.has_room(now), "the reader has gone");
    }

    /// R-FAULT-3: readers that stand still lose their answer once another one needs the memory, and not before; those that
    /// go on keep theirs.
    #[test]
    fn an_answer_that_is_not_read_on_is_withdrawn_when_its_memory_is_needed() {
        let (answers, mut now) = (Answers::default(), Instant::now());
        let (one, two) = (large(&answers), large(&answers));
        let (mut stalled, mut moving) = (begin(&one, now), begin(&two, now));
        for _ in 0..5 {
            assert!(!answers.has_room(now));
            assert!(moving.next_at(now).is_some_and(|part| part.is_ok()));
            now += STALL_PATIENCE / 4;
        }
        assert!(!answers.has_room(now), "the other one is being read");
        assert_eq!(stalled.next_at(now), Some(Err(Withdrawn)));
        assert_eq!(stalled.next_at(now), None);
        while let Some(part) = moving.next_at(now) {
            assert!(part.is_ok());
        }
        assert!(answers.has_room(now));
    }

    /// R-FAULT-3: a reader that takes a little all the time does not hold others up for ever.
    #[test]
    fn a_reader_that_drips_is_cut_off_in_time() {
        let (answers, began) = (Answers::default(), Instant::now());
        let answer = large(&answers);
        let (mut dripping, mut now) = (begin(&answer, began), began);
        while dripping.next_at(now).expect("it is longer than the time").is_ok() {
            answers.has_room(now);
            now += STALL_PATIENCE / 2;
        }
        assert!(now - began > READ_PATIENCE);
        assert!(now - began < READ_PATIENCE * 2);
        assert!(answers.has_room(now));
    }
}
