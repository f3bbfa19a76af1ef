//! Terminating instances: out of the endpoints, and running until all endpoint consumers acknowledged
//! that.

use jaco_state::Change;
use jaco_types::{Consumer, Millis, TerminatingInstance, Timestamp};

use super::moving;
use crate::draft::{Draft, Pass};
use crate::input::PlanInput;

/// Expires the consumers whose leases are over. Silence from before this leader listened means
/// nothing.
pub(crate) fn expire_consumers(draft: &mut Draft<'_>) {
    let PlanInput { state, signals, now, .. } = draft.pass.input;
    for consumer in state.consumers.values() {
        let signal = signals.consumers.get(&consumer.name);
        let signal = signal.filter(|signal| signal.session == consumer.session);
        let heard_at = signal.map_or(Timestamp(0), |signal| signal.heard_at);
        let due = last_heartbeat(consumer, heard_at, signals.listening_since).after(consumer.lease);
        if now >= due {
            draft.pass.changes.push(Change::ConsumerExpire { name: consumer.name.clone() });
            continue;
        }
        draft.pass.wake(due);
        let said = signal.map(|signal| &signal.acknowledgement);
        draft.pass.consumers.insert(&consumer.name, said);
    }
}

fn last_heartbeat(
    consumer: &Consumer,
    heard_at: Timestamp,
    listening_since: Timestamp,
) -> Timestamp {
    heard_at.max(listening_since).max(consumer.attached_at)
}

/// Stops the instances that every consumer has acknowledged to be out of the endpoints and has nothing to finish
/// with, and those whose deadline is over. The others keep what they reserve of their nodes.
pub(crate) fn release(draft: &mut Draft<'_>) {
    let input = draft.pass.input;
    for terminating in input.state.terminating.values() {
        let kept_until = moving::kept_until(&draft.pass, terminating);
        let due =
            kept_until.unwrap_or_else(|| terminating.since.after(patience(&input, terminating)));
        let is_over = has_ended(terminating, &draft.pass)
            || kept_until.is_none() && draft.pass.consumers.release(terminating);
        if input.now >= due || is_over {
            draft.pass.changes.push(Change::TerminatingRemove { id: terminating.id.clone() });
            continue;
        }
        draft.pass.wake(due);
        draft.note_terminating(terminating);
    }
}

/// How long an instance waits for those that do not acknowledge: the drain time of its service, where that asks
/// for one and its revision is kept. A moment passes in any case: the plan that takes an instance out of the endpoints
/// does not stop it, too.
fn patience(input: &PlanInput<'_>, terminating: &TerminatingInstance) -> Millis {
    let spec = input.state.service_spec(&terminating.service, terminating.revision);
    let drain = spec.and_then(|spec| spec.drain);
    drain.map_or(input.config.routing_patience, |drain| drain.length().max(Millis(1)))
}

/// Whether nothing of it runs any more, as far as anybody can tell.
fn has_ended(terminating: &TerminatingInstance, pass: &Pass<'_>) -> bool {
    let row = pass.nodes.find(terminating.node).map(|at| pass.nodes.row(at));
    let is_reachable = row.is_some_and(|row| row.status.is_working());
    let is_gone =
        pass.input.state.observed.get(&terminating.id).is_none_or(|seen| seen.state.is_over());
    !is_reachable || is_gone
}
