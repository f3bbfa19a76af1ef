//! What the planner keeps about each service, written only where it differs (R-LOOP-4).

use jaco_state::Change;
use jaco_types::slot::Exhausted;
use jaco_types::{FirstWatch, Revision, Scheduling, Unplaced};

use crate::draft::{Draft, Pass, Proven, ServiceDraft, SlotDraft};
use crate::report::NotPlaced;
use crate::rollout;

/// Writes the records of all services, wanted or not.
pub(crate) fn write_records(draft: &mut Draft<'_>) {
    for at in 0..draft.services().len() {
        let (service, pass) = draft.open(at);
        service.record.unplaced = unplaced(&service.unplaced);
        if service.record.planned_revision == Revision::default() {
            service.record.first_watch = FirstWatch::Open;
        }
        service.record.planned_revision = service.deployment.revision;
        watch_first(service, pass);
        let in_flight = rollout::in_flight(service, pass);
        if let Some(rollout) = &mut service.record.rollout {
            rollout.in_flight = in_flight;
        }
        pass.report.unplaced.extend(service.unplaced.iter().cloned());
        if service.known != Some(&service.record) {
            let (service, record) = (service.key.clone(), Box::new(service.record.clone()));
            pass.changes.push(Change::SchedulingSet { service, record });
        }
    }
    forget_unwanted(draft);
}

/// The record of a service that is not wanted any more keeps its counter, and nothing else.
fn forget_unwanted(draft: &mut Draft<'_>) {
    for (key, record) in &draft.records {
        let is_forgotten = record.planned_revision == Revision::default()
            && record.first_watch == FirstWatch::Over;
        if record.rollout.is_none() && record.unplaced.is_empty() && is_forgotten {
            continue;
        }
        if draft.find(key).is_none() {
            // Its replicas are made for the first time again, if it comes back.
            let Scheduling { next_index, modified, .. } = **record;
            let record = Box::new(Scheduling { next_index, modified, ..Scheduling::default() });
            let service = (*key).clone();
            draft.pass.changes.push(Change::SchedulingSet { service, record });
        }
    }
}

/// Ends the watch over the first replicas once all of them have been up for their watch time. Those whose
/// restarts are exhausted are not waited for.
fn watch_first<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) {
    if service.record.first_watch == FirstWatch::Over {
        return;
    }
    let (proof, now) = (service.proof(), pass.input.now);
    let waits =
        |slot: &&SlotDraft<'a>| slot.is_active() && slot.restarts.exhausted == Exhausted::No;
    let mut is_over = service.unplaced.is_empty();
    for slot in service.slots.iter().filter(waits) {
        match proof.of(slot, now) {
            Proven::Yes => {}
            Proven::No => is_over = false,
            Proven::NotBefore(at) => {
                is_over = false;
                pass.wake(at);
            }
        }
    }
    if is_over {
        service.record.first_watch = FirstWatch::Over;
    }
}

fn unplaced(not_placed: &[NotPlaced]) -> Vec<Unplaced> {
    let mut unplaced: Vec<_> = not_placed
        .iter()
        .map(|entry| Unplaced {
            count: entry.count,
            reason: entry.reason.to_owned(),
            details: entry.details.clone(),
        })
        .collect();
    unplaced.sort_unstable();
    unplaced
}
