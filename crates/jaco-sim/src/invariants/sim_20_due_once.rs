//! SIM-20: a due time of a job begins one run at most, whoever leads, and its runs follow each other: on a machine where a
//! container of one is up none of the next is started. Where a leader has been there for a while none is late.

use std::collections::{BTreeMap, BTreeSet};

use jaco_scheduler::schedule::Calendar;
use jaco_state::{ClusterState, Command};
use jaco_types::spec::Schedule;
use jaco_types::{Millis, ServiceKey, Timestamp};

use super::facts::{begun_runs, is_up, wanted_spec};
use super::{Committed, Facts, Invariant, InvariantViolation, Started, Verdict};

/// How late a run may begin: it waits until the one that it replaces has stopped.
const LATE: Millis = Millis::from_secs(45);

#[derive(Debug, Default)]
pub(super) struct DueOnce {
    /// The due times of jobs that began a run.
    begun: BTreeMap<ServiceKey, BTreeSet<Timestamp>>,
    /// By how many milliseconds the cluster's time was ahead when the last entry was appended.
    ahead: i64,
}

impl Invariant for DueOnce {
    fn committed(&mut self, facts: &Facts, step: &Committed<'_>) -> Verdict {
        let Committed { entry, appended, before, .. } = step;
        self.ahead = entry.at.0.cast_signed() - appended.0.cast_signed();
        if let Command::JobRewind(rewind) = &entry.command
            && let Some(begun) = self.begun.get_mut(&rewind.service)
        {
            // Its clock was set back by more than a day, which is recorded: they count anew.
            begun.retain(|due| *due <= rewind.to);
        }
        self.begun.retain(|service, _| facts.state.jobs.contains(service));
        for (service, record) in begun_runs(before, &facts.state) {
            let Some(due) = record.open.as_ref().and_then(|run| run.due) else { continue };
            if !self.begun.entry(service.clone()).or_default().insert(due) {
                return Err(InvariantViolation::DueTwice { service: service.clone(), due });
            }
        }
        Ok(())
    }

    fn started(&mut self, facts: &Facts, started: &Started<'_>) -> Verdict {
        let Started { instance, by, state, .. } = started;
        let Some(slot) = state.slots.get(&instance.replica) else { return Ok(()) };
        if schedule(state, &slot.service).is_none() {
            return Ok(());
        }
        let mut there = facts.on(by.machine).filter(|seen| is_up(seen));
        let other = there
            .find(|seen| seen.instance.replica == instance.replica && seen.instance != **instance);
        match other {
            None => Ok(()),
            Some(other) => Err(InvariantViolation::RunsOverlap {
                instance: (*instance).clone(),
                other: other.instance.clone(),
            }),
        }
    }

    fn punctual(&mut self, facts: &Facts) -> Verdict {
        let now = Timestamp(facts.now.0.saturating_add_signed(self.ahead));
        for (service, record) in facts.state.jobs.iter() {
            let schedule = schedule(&facts.state, service);
            let calendar = schedule.and_then(Calendar::of);
            let due = calendar.and_then(|calendar| calendar.next_after(record.seen));
            if let Some(due) = due.filter(|due| due.after(LATE) < now) {
                let service = service.clone();
                return Err(InvariantViolation::RunLate { service, by: now.since(due) });
            }
        }
        Ok(())
    }
}

/// The schedule of a job that is wanted.
fn schedule<'a>(state: &'a ClusterState, service: &ServiceKey) -> Option<&'a Schedule> {
    wanted_spec(state, service)?.schedule.as_ref()
}
