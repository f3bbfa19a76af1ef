//! What all processes of the edge say together: usually one, and two while one replaces the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use jaco_types::Acknowledgement;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::consumer::{Released, combined};

/// The connections that there are.
#[derive(Debug)]
pub(super) struct Sessions {
    live: Mutex<Live>,
    released: watch::Sender<Released>,
    /// How many changes there were.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Live {
    next: u64,
    /// What each says last.
    said: BTreeMap<u64, Said>,
}

/// What a process says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// What it is done with; nothing before it has a plan.
    pub(super) acknowledgement: Acknowledgement,
    /// Whether this node speaks for it.
    pub(super) speaker: Speaker,
    /// Its number, if the system tells it.
    pub(super) pid: Option<u32>,
    /// Whether another process takes its place.
    pub(super) stage: Stage,
    /// What of its plan it does not carry out.
    pub(super) problem: Option<String>,
}

/// Who speaks for an edge that members share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Speaker {
    /// Another member.
    #[default]
    Other,
    /// This one.
    Own,
}

/// How far a process is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// It takes requests.
    #[default]
    Serving,
    /// It starts its successor, and takes requests until that does.
    Handing,
    /// Its successor has taken requests. It finishes what it has.
    Draining,
}

impl Default for Sessions {
    fn default() -> Self {
        let (released, changes) = (watch::Sender::new(None), watch::Sender::new(0));
        Self { live: Mutex::default(), released, changes }
    }
}

impl Sessions {
    /// What this node acknowledges for its edge.
    pub(super) fn released(&self) -> watch::Receiver<Released> {
        self.released.subscribe()
    }

    /// A connection has begun, to a process that has no plan yet: terminating instances wait for it from now on.
    pub(super) fn begin(&self, speaker: Speaker, pid: Option<u32>) -> u64 {
        let mut live = self.live.lock().expect("nothing panics while it holds the lock");
        live.next += 1;
        let id = live.next;
        live.said.insert(id, Said { speaker, pid, ..Said::default() });
        drop(live);
        self.tell();
        id
    }

    /// A process says something else.
    pub(super) fn say(&self, id: u64, said: Said) {
        let mut live = self.live.lock().expect("nothing panics while it holds the lock");
        let is_news = live.said.get(&id) != Some(&said);
        live.said.insert(id, said);
        drop(live);
        if is_news {
            self.tell();
        }
    }

    /// A connection has ended. What the last one said holds until the process is known to be gone.
    pub(super) fn end(&self, id: u64) {
        let mut live = self.live.lock().expect("nothing panics while it holds the lock");
        live.said.remove(&id);
        let is_last = live.said.is_empty();
        drop(live);
        match is_last {
            true => self.changes.send_modify(|changes| *changes += 1),
            false => self.tell(),
        }
    }

    /// No process is left.
    pub(super) fn none_left(&self) {
        self.released.send_if_modified(|known| known.take().is_some());
    }

    /// Waits while a process serves that this node is connected to, for at most so long; whether one does.
    pub(super) async fn wait_until_needed(&self, limit: Duration) -> bool {
        let mut changes = self.changes.subscribe();
        let needed = async {
            while self.is_served() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        timeout(limit, needed).await.is_err()
    }

    /// What the process that serves does not carry out.
    pub(super) fn problem(&self) -> Option<String> {
        let live = self.live.lock().expect("nothing panics while it holds the lock");
        let mut serving = live.said.values().filter(|said| said.stage == Stage::Serving);
        serving.find_map(|said| said.problem.clone())
    }

    /// Whether this node is connected to any process, be it one that is being replaced.
    pub(super) fn has_any(&self) -> bool {
        !self.live.lock().expect("nothing panics while it holds the lock").said.is_empty()
    }

    /// Whether another process is to be started where none can be connected to: not while one starts its successor
    /// itself, but where the successor has ended and its predecessor only finishes what it has.
    pub(super) fn lacks_one(&self) -> bool {
        let live = self.live.lock().expect("nothing panics while it holds the lock");
        live.said.values().all(|said| said.stage == Stage::Draining)
    }

    /// Whether this node is connected to this process.
    pub(super) fn has(&self, pid: u32) -> bool {
        let live = self.live.lock().expect("nothing panics while it holds the lock");
        live.said.values().any(|said| said.pid == Some(pid))
    }

    /// The processes that finish what they have.
    pub(super) fn draining(&self) -> BTreeSet<u32> {
        let live = self.live.lock().expect("nothing panics while it holds the lock");
        let draining = live.said.values().filter(|said| said.stage == Stage::Draining);
        draining.filter_map(|said| said.pid).collect()
    }

    fn is_served(&self) -> bool {
        let live = self.live.lock().expect("nothing panics while it holds the lock");
        live.said.values().any(|said| said.stage == Stage::Serving)
    }

    fn tell(&self) {
        let live = self.live.lock().expect("nothing panics while it holds the lock");
        let own = live.said.values().filter(|said| said.speaker == Speaker::Own);
        let said = combined(own.map(|said| said.acknowledgement.clone()));
        drop(live);
        self.released.send_if_modified(|known| {
            let is_news = *known != said;
            *known = said;
            is_news
        });
        self.changes.send_modify(|changes| *changes += 1);
    }
}

#[cfg(test)]
mod tests {
    use jaco_types::{InstanceId, ReplicaId, StateIndex};

    use super::*;

    fn said(index: u64, busy: &[u64], stage: Stage) -> Said {
        let replica = ReplicaId::parse("shop-web-0").unwrap();
        let id = |at: &u64| InstanceId { replica: replica.clone(), raft_index: StateIndex(*at) };
        let busy = busy.iter().map(id).collect();
        let acknowledgement = Acknowledgement { index: StateIndex(index), busy };
        Said { acknowledgement, speaker: Speaker::Own, pid: Some(1), stage, problem: None }
    }

    /// R-EDGE-1: while one process replaces another, what either is busy with is waited for.
    #[test]
    fn two_processes_acknowledge_together() {
        let sessions = Sessions::default();
        let released = sessions.released();
        assert_eq!(*released.borrow(), None);
        let old = sessions.begin(Speaker::Own, Some(1));
        assert_eq!(*released.borrow(), Some(Acknowledgement::default()), "it has no plan yet");
        sessions.say(old, said(7, &[3], Stage::Draining));
        assert!(!sessions.is_served());
        let new = sessions.begin(Speaker::Own, Some(1));
        sessions.say(new, said(9, &[4], Stage::Serving));
        let both = said(7, &[3, 4], Stage::Serving).acknowledgement;
        assert_eq!(*released.borrow(), Some(both));
        sessions.end(old);
        let one = said(9, &[4], Stage::Serving).acknowledgement;
        assert_eq!(*released.borrow(), Some(one.clone()));
        sessions.end(new);
        assert_eq!(*released.borrow(), Some(one), "it may only have lost its connection");
        sessions.none_left();
        assert_eq!(*released.borrow(), None);
    }

    /// R-EDGE-1: no third process is started while one replaces another, but one is if the successor ends while its
    /// predecessor finishes what it has, which may take an hour.
    #[test]
    fn a_process_is_started_once_nobody_will_serve() {
        let sessions = Sessions::default();
        assert!(sessions.lacks_one());
        let old = sessions.begin(Speaker::Own, Some(1));
        sessions.say(old, said(7, &[], Stage::Handing));
        assert!(!sessions.is_served(), "the successor is looked for");
        assert!(!sessions.lacks_one(), "it is being started");
        let new = sessions.begin(Speaker::Own, Some(1));
        sessions.say(new, said(9, &[], Stage::Serving));
        sessions.say(old, said(7, &[], Stage::Draining));
        assert!(!sessions.lacks_one());
        assert_eq!(sessions.draining(), BTreeSet::from([1]));
        sessions.end(new);
        assert!(sessions.has_any() && sessions.lacks_one());
    }
}
