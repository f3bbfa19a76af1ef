//! The plan that the edge holds, and what is done with orders.

use std::sync::{Arc, Mutex};

use jaco_dataplane::edge::EdgePlan;
use jaco_types::StateIndex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::warn;

use super::access_log;
use super::change_message::ChangeMessage;
use super::explained::ExplainedMessage;
use super::message::{LogMessage, Order, Said};
use super::report::{Answer, CountersMessage, EdgeCounters};
use crate::change::EdgeChange;
use crate::edge::Edge;
use crate::presence::Present;
use crate::tls::Certificates;

/// The edge with its plan.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) edge: Arc<Edge>,
    held: Mutex<Option<Held>>,
    /// Where lines about requests go, as it was told.
    log: Mutex<Option<LogMessage>>,
    /// Tells its counts from those of other processes.
    run: u64,
}

#[derive(Debug, Clone)]
struct Held {
    index: StateIndex,
    plan: Arc<EdgePlan>,
    certificates: Arc<Certificates>,
}

/// What an order leads to.
#[derive(Debug)]
pub(super) enum Done {
    /// A daemon is there until this is dropped.
    Attended(Present),
    /// A plan was taken, or was not.
    Held,
    /// Requests are to be traced, or not.
    Traced(Option<u64>),
    /// This was asked for.
    Said(Box<Said>),
}

impl Keeper {
    pub(super) fn new(edge: Arc<Edge>) -> Self {
        Self { edge, held: Mutex::new(None), log: Mutex::new(None), run: fastrand::u64(..) }
    }

    /// Carries out an order, and says there what came of it. It may take as long as a plan of ten thousand routes is read,
    /// so it is for a thread that may be blocked.
    pub(super) fn carry_out(&self, frame: &[u8], answers: &watch::Sender<Answer>) -> Done {
        match serde_json::from_slice(frame) {
            Ok(Order::Attend) => Done::Attended(self.edge.presence().enter()),
            Ok(Order::Count) => {
                let counters = CountersMessage::new(self.counters());
                Done::Said(Box::new(Said::Counted(Box::new(counters))))
            }
            Ok(Order::Explain { host, path }) => {
                let explained = Handle::current().block_on(self.edge.explain(&host, &path));
                let message = ExplainedMessage::new(&explained);
                Done::Said(Box::new(Said::Explained(Box::new(message))))
            }
            Ok(Order::Hold(message)) => self.hold(&message, answers),
            Ok(Order::Log(wanted)) => self.log(wanted),
            Ok(Order::Trace(wanted)) => Done::Traced(wanted),
            // What the error quotes may be a key.
            Err(error) => refuse(unreadable(format!("{:?} in it", error.classify())), answers),
        }
    }

    fn counters(&self) -> EdgeCounters {
        EdgeCounters {
            is_stale: self.edge.is_stale(),
            connections: self.edge.connections(),
            run: self.run,
            routes: self.edge.counters(),
        }
    }

    /// A file that lines go to already is kept, with the lines that wait.
    fn log(&self, wanted: Option<LogMessage>) -> Done {
        let mut known = self.log.lock().expect("nothing panics while it holds the lock");
        if *known != wanted {
            let file =
                wanted.clone().map(|LogMessage { one_in, path }| access_log::to(path, one_in));
            self.edge.log_to(file);
            *known = wanted;
        }
        Done::Held
    }

    fn hold(&self, message: &ChangeMessage, answers: &watch::Sender<Answer>) -> Done {
        let Some(change) = message.change() else {
            return refuse(unreadable("a value in it that no plan has".to_owned()), answers);
        };
        let mut held = self.held.lock().expect("nothing panics while it holds the lock");
        let next = match (message.base, &*held) {
            (None, held) => Some(replaced(held.as_ref(), &change)),
            (Some(base), Some(held)) if held.index.0 == base => Some(changed(held, &change)),
            (Some(_), _) => None,
        };
        let Some((plan, certificates)) = next else {
            warn!(raft_index = message.index, base = ?message.base, "change of another plan refused");
            return refuse(Answer { refused: message.base, unreadable: None }, answers);
        };
        // Said before the plan is in use: who hears of that needs nothing more.
        settle(Answer::default(), answers);
        let index = StateIndex(message.index);
        if held.as_ref().is_some_and(|held| index < held.index) {
            warn!(raft_index = message.index, "plan ignored: a newer one is in use");
            return Done::Held;
        }
        let (plan, certificates) = (Arc::new(plan), Arc::new(certificates));
        self.edge.apply(index, Arc::clone(&plan), Arc::clone(&certificates));
        *held = Some(Held { index, plan, certificates });
        Done::Held
    }
}

/// What a change makes of what is held.
fn changed(held: &Held, change: &EdgeChange) -> (EdgePlan, Certificates) {
    let (mut plan, mut certificates) = ((*held.plan).clone(), (*held.certificates).clone());
    change.apply(&mut plan, &mut certificates);
    (plan, certificates)
}

/// A whole plan, which shares with the one that is held what is the same in both.
fn replaced(held: Option<&Held>, whole: &EdgeChange) -> (EdgePlan, Certificates) {
    let (mut plan, mut certificates) = Default::default();
    whole.apply(&mut plan, &mut certificates);
    match held {
        Some(held) => {
            let old = (&*held.plan, &*held.certificates);
            changed(held, &EdgeChange::between(old, (&plan, &certificates)))
        }
        None => (plan, certificates),
    }
}

fn refuse(answer: Answer, answers: &watch::Sender<Answer>) -> Done {
    settle(answer, answers);
    Done::Held
}

fn settle(answer: Answer, answers: &watch::Sender<Answer>) {
    answers.send_if_modified(|known| {
        let differs = *known != answer;
        *known = answer;
        differs
    });
}

fn unreadable(what: String) -> Answer {
    let why = format!(
        "not readable ({what}): the daemon and the edge are of different versions; restart the edge"
    );
    warn!(reason = why, "plan refused");
    Answer { refused: None, unreadable: Some(why) }
}
