//! How events change the agent's knowledge. No decisions are taken here: `reconcile` decides in one
//! place.

use std::collections::BTreeMap;

use jaco_state::view::DesiredInstance;
use jaco_types::spec::PullPolicy;
use jaco_types::{Exit, InstanceId, InstanceObserved, StateIndex, Timestamp};

use super::{AgentCore, Blocked, Effect, Event, History, Join, Known, Request, Work};
use crate::engine::{
    ContainerStatus, EngineError, EngineEvent, ObservedContainer, PullError, PullRequest,
    StartError,
};
use crate::plan::own;

impl AgentCore {
    pub(super) fn note(&mut self, event: Event, now: Timestamp, effects: &mut Vec<Effect>) {
        match event {
            Event::Desired { index, desired, observed } => {
                self.note_desired(index, desired, observed, effects);
            }
            Event::Prepull(desired) => self.prepulls.set_needed(&desired, effects),
            Event::Found { pull, result } => self.prepulls.found(&pull, result, now),
            Event::RegistriesChanged(changed) => {
                self.prepulls.retry_from(&changed, effects);
                for tracked in self.instances.values_mut() {
                    tracked.retry_pull_from(&changed);
                }
            }
            Event::Listed(result) => self.note_listed(result, effects),
            Event::Engine(EngineEvent::Changed(seen)) => self.note_changed(seen),
            Event::Engine(EngineEvent::Gone { instance, container }) => {
                self.touched.insert(instance.clone());
                if let Some(tracked) = self.instances.get_mut(&instance) {
                    tracked.container.take_if(|seen| seen.container == container);
                }
            }
            Event::EventsLost => self.request_list(effects),
            Event::Tick => {
                self.networks.retry();
                self.request_list(effects);
            }
            Event::Pulled { pull, result } => {
                self.prepulls.pulled(&pull, &result, now, effects);
                self.note_pulled(&pull, result, now);
            }
            Event::Started { instance, result } => {
                self.note_started(&instance, result, now, effects);
            }
            Event::Stopped { instance, result } => self.note_stopped(&instance, result, now),
            Event::Removed { instance, result } => self.note_removed(&instance, result, now),
            Event::Joined { instance, result } => {
                let Some(tracked) = self.instances.get_mut(&instance) else { return };
                match result {
                    Ok(()) => tracked.join = Join::Done,
                    Err(StartError::Unsupported { .. }) => tracked.join = Join::Refused,
                    Err(_) => tracked.fail_to_join(now),
                }
            }
            Event::NetworksRemoved(result) => self.networks.removed(result),
            Event::LeaderContact { elapsed, state } => {
                self.leaderless_for = elapsed;
                self.state_age = state;
            }
            Event::Wake => {}
        }
    }

    fn note_desired(
        &mut self,
        index: StateIndex,
        desired: BTreeMap<InstanceId, DesiredInstance>,
        observed: BTreeMap<InstanceId, InstanceObserved>,
        effects: &mut Vec<Effect>,
    ) {
        if self.index.is_some_and(|last| index < last) {
            return;
        }
        if self.index.replace(index).is_none() {
            self.request_list(effects);
        }
        self.reported_gone.retain(|id| observed.contains_key(id));
        for (id, seen) in observed {
            if !self.reported_gone.contains(&id) {
                self.instances.entry(id).or_default().restore_report(seen);
            }
        }
        for (id, tracked) in &mut self.instances {
            if !desired.contains_key(id) {
                tracked.set_desired(None);
            }
        }
        for (id, desired) in desired {
            self.instances.entry(id).or_default().set_desired(Some(desired));
        }
    }

    fn request_list(&mut self, effects: &mut Vec<Effect>) {
        match self.listing.request {
            Request::None => {
                self.listing.request = Request::Pending;
                self.touched.clear();
                effects.push(Effect::List);
            }
            Request::Pending | Request::PendingAgain => {
                self.listing.request = Request::PendingAgain;
            }
        }
    }

    fn note_listed(
        &mut self,
        result: Result<Vec<ObservedContainer>, EngineError>,
        effects: &mut Vec<Effect>,
    ) {
        let again = self.listing.request == Request::PendingAgain;
        self.listing.request = Request::None;
        if let Ok(listed) = result {
            self.listing.known = Known::Yes;
            self.merge_list(own(&self.owner, listed));
        }
        if again {
            self.request_list(effects);
        }
    }

    /// Merges a list of containers, except for instances that changed since the list was requested
    /// or that have an operation in progress: their answer is pending.
    fn merge_list(&mut self, listed: BTreeMap<InstanceId, ObservedContainer>) {
        for (id, tracked) in &mut self.instances {
            let in_doubt = self.touched.contains(id) || tracked.work.changes_container();
            if !in_doubt && !listed.contains_key(id) {
                tracked.container = None;
            }
        }
        for (id, seen) in listed {
            let tracked = self.instances.get(&id);
            let busy = tracked.is_some_and(|tracked| tracked.work.changes_container());
            if !busy && !self.touched.contains(&id) {
                self.instances.entry(id).or_default().observe(seen);
            }
        }
    }

    fn note_changed(&mut self, seen: ObservedContainer) {
        if seen.owner != self.owner {
            return;
        }
        self.touched.insert(seen.instance.clone());
        self.instances.entry(seen.instance.clone()).or_default().observe(seen);
    }

    fn note_pulled(&mut self, pull: &PullRequest, result: Result<(), PullError>, now: Timestamp) {
        self.pulls.remove(pull);
        for tracked in self.instances.values_mut() {
            if tracked.pull().as_ref() != Some(pull) {
                continue;
            }
            match &result {
                Ok(()) => tracked.image_fetched(),
                Err(_) if tracked.work != Work::AwaitingPull => {}
                Err(PullError::Unreachable { .. }) => tracked.fail(now),
                Err(PullError::Refused { reason } | PullError::Unanswered { reason }) => {
                    tracked.blocked = Some(Blocked::Pull { reason: pull_reason(pull, reason) });
                    tracked.fail(now);
                }
            }
        }
    }

    fn note_started(
        &mut self,
        instance: &InstanceId,
        result: Result<ObservedContainer, StartError>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        self.touched.insert(instance.clone());
        let Some(tracked) = self.instances.get_mut(instance) else { return };
        let cancelled = tracked.work == Work::Cancelling;
        tracked.work = Work::Idle;
        match result {
            Ok(seen) => {
                tracked.succeed();
                tracked.observe_started(seen);
            }
            Err(StartError::ImageAbsent { .. }) => self.fetch_absent(instance, now, effects),
            // The container may or may not exist now, so list.
            Err(StartError::Unreachable { .. }) => {
                tracked.fail(now);
                self.request_list(effects);
            }
            Err(StartError::Cancelled) => self.request_list(effects),
            // A user has to remove what is in the way; the container may exist, and never ran.
            Err(error @ StartError::SubnetInUse { .. }) => {
                if !cancelled {
                    tracked.blocked = Some(Blocked::Network { reason: error.to_string() });
                }
                tracked.fail(now);
                self.request_list(effects);
            }
            Err(StartError::NetworkNotReady { reason }) => {
                if !cancelled {
                    tracked.blocked = Some(Blocked::Router { reason });
                }
                tracked.fail(now);
            }
            Err(
                error @ (StartError::AddressPoolExhausted { .. }
                | StartError::GpuRuntimeMissing { .. }
                | StartError::Unsupported { .. }
                | StartError::Refused { .. }),
            ) => {
                if !cancelled {
                    tracked.refuse(error.to_string());
                }
                self.request_list(effects);
            }
        }
    }

    fn fetch_absent(&mut self, id: &InstanceId, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.instances.get_mut(id) else { return };
        let Some(image) = tracked.image() else { return };
        let permanent = match image.policy {
            PullPolicy::Never => Some("it is not on this node and must not be pulled"),
            PullPolicy::Missing | PullPolicy::Always if tracked.image_is_fresh() => {
                Some("it was pulled, and the engine does not have it")
            }
            PullPolicy::Missing | PullPolicy::Always => None,
        };
        match permanent {
            None => self.await_pull(id, image.pull, effects),
            Some(reason) => {
                tracked.blocked = Some(Blocked::Pull { reason: pull_reason(&image.pull, reason) });
                tracked.fail(now);
            }
        }
    }

    fn note_stopped(
        &mut self,
        instance: &InstanceId,
        result: Result<(), EngineError>,
        now: Timestamp,
    ) {
        self.touched.insert(instance.clone());
        let Some(tracked) = self.instances.get_mut(instance) else { return };
        match result {
            Ok(()) => {
                tracked.succeed();
                if let Some(seen) = &mut tracked.container {
                    seen.status = presumed_exited(&seen.status, now);
                }
            }
            Err(_) => tracked.fail(now),
        }
    }

    fn note_removed(
        &mut self,
        instance: &InstanceId,
        result: Result<(), EngineError>,
        now: Timestamp,
    ) {
        self.touched.insert(instance.clone());
        let Some(tracked) = self.instances.get_mut(instance) else { return };
        match result {
            Ok(()) => {
                tracked.succeed();
                tracked.container = None;
                tracked.history = History::Ran;
            }
            Err(_) => tracked.fail(now),
        }
    }
}

/// `<image>: <reason>`, as shown to users.
fn pull_reason(pull: &PullRequest, reason: &str) -> String {
    format!("{}: {reason}", pull.image)
}

/// Status of a container that we stopped; an event reports the real exit code, if the instance
/// still matters by then.
fn presumed_exited(status: &ContainerStatus, now: Timestamp) -> ContainerStatus {
    match status {
        ContainerStatus::Exited { .. } => status.clone(),
        ContainerStatus::Created | ContainerStatus::Up { .. } => {
            let started_at = match status {
                ContainerStatus::Up { started_at, .. } => Some(*started_at),
                ContainerStatus::Created | ContainerStatus::Exited { .. } => None,
            };
            let exit = Exit { code: 0, out_of_memory: false };
            let (error, output) = (Box::default(), Box::default());
            ContainerStatus::Exited { exit, error, output, started_at, finished_at: now }
        }
    }
}
