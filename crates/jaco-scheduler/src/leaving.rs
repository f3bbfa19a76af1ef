//! Instances that are out of the endpoints, and who is waited for before they stop.

use std::collections::BTreeMap;

use jaco_state::Change;
use jaco_types::{Consumer, ConsumerName, Leaving, StateIndex, Timestamp};

use crate::draft::{Draft, Live, Pass};
use crate::input::PlanInput;

/// Who follows the endpoints and has spoken lately, with what each has acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Consumers<'a>(BTreeMap<&'a ConsumerName, StateIndex>);

impl Consumers<'_> {
    /// Whether all of them know the endpoints of this entry.
    fn know(&self, index: StateIndex) -> bool {
        self.0.values().all(|acknowledged| *acknowledged >= index)
    }
}

/// Forgets the consumers that were silent for longer than their leases. Silence from before this
/// leader listened means nothing.
pub(crate) fn expire_consumers(draft: &mut Draft<'_>) {
    let PlanInput { state, signals, now, .. } = draft.pass.input;
    for consumer in state.consumers.values() {
        let signal = signals.consumers.get(&consumer.name);
        let signal = signal.filter(|signal| signal.session == consumer.session);
        let heard_at = signal.map_or(Timestamp(0), |signal| signal.heard_at);
        let due = last_word(consumer, heard_at, signals.listening_since).after(consumer.lease);
        if now >= due {
            draft.pass.changes.push(Change::ConsumerExpire { name: consumer.name.clone() });
            continue;
        }
        draft.pass.wake(due);
        let acknowledged = signal.map_or(StateIndex(0), |signal| signal.acknowledged);
        draft.pass.consumers.0.insert(&consumer.name, acknowledged);
    }
}

fn last_word(consumer: &Consumer, heard_at: Timestamp, listening_since: Timestamp) -> Timestamp {
    heard_at.max(listening_since).max(consumer.attached_at)
}

/// Lets go of the instances that every consumer has acknowledged to be out, and of those that are
/// waited for no longer. The others hold their room on their nodes.
pub(crate) fn end(draft: &mut Draft<'_>) {
    let input = draft.pass.input;
    for leaving in input.state.leaving.values() {
        let due = leaving.since.after(input.config.routing_patience);
        if input.now >= due || is_over(leaving, &draft.pass) {
            draft.pass.changes.push(Change::LeavingEnd { id: leaving.id.clone() });
            continue;
        }
        draft.pass.wake(due);
        draft.note_leaving(leaving);
    }
}

fn is_over(leaving: &Leaving, pass: &Pass<'_>) -> bool {
    let row = pass.nodes.find(leaving.node).map(|at| pass.nodes.row(at));
    let is_reachable = row.is_some_and(|row| row.status.is_working());
    let has_ended =
        pass.input.state.observed.get(&leaving.id).is_none_or(|seen| seen.state.is_over());
    !is_reachable || has_ended || pass.consumers.know(leaving.left_at)
}

/// Whether an instance that is given up now leaves the endpoints first, and so keeps its room: the
/// same question that `apply` asks.
pub(crate) fn leaves_first(live: &Live<'_>, pass: &Pass<'_>) -> bool {
    let row = live.at.map(|at| pass.nodes.row(at));
    let is_reachable = row.is_some_and(|row| row.status.is_working());
    !pass.consumers.0.is_empty() && is_reachable && live.is_running()
}
