//! How the agent takes note of what it learns. Only notes are made here; what follows from them is
//! decided in one place, when the agent settles.

use std::collections::BTreeMap;

use jaco_state::view::DesiredInstance;
use jaco_types::spec::Pull;
use jaco_types::{Exit, InstanceId, InstanceObserved, StateIndex, Timestamp};

use super::{AgentCore, Effect, Event, History, Known, Question, Trouble, Work};
use crate::engine::{
    ContainerSeen, ContainerStatus, EngineError, EngineEvent, PullError, PullRequest, StartError,
};
use crate::plan::own;

impl AgentCore {
    pub(super) fn note(&mut self, event: Event, now: Timestamp, effects: &mut Vec<Effect>) {
        match event {
            Event::Desired { index, desired, observed } => {
                self.note_desired(index, desired, observed, effects);
            }
            Event::Prepare(wanted) => self.prepared.want(&wanted, effects),
            Event::Found { pull, result } => self.prepared.found(&pull, result, now),
            Event::RegistriesChanged(changed) => {
                self.prepared.begin_anew(&changed, effects);
                for tracked in self.instances.values_mut() {
                    tracked.pull_anew(&changed);
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
            Event::EventsLost => self.ask_for_list(effects),
            Event::Tick => {
                self.networks.retry();
                self.ask_for_list(effects);
            }
            Event::Pulled { pull, result } => {
                self.prepared.pulled(&pull, &result, now, effects);
                self.note_pulled(&pull, result, now);
            }
            Event::Started { instance, result } => {
                self.note_started(&instance, result, now, effects);
            }
            Event::Stopped { instance, result } => self.note_stopped(&instance, result, now),
            Event::Removed { instance, result } => self.note_removed(&instance, result, now),
            Event::NetworksRemoved(result) => self.networks.removed(result),
            Event::Contact { silence } => self.silence = silence,
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
            self.ask_for_list(effects);
        }
        self.told_gone.retain(|id| observed.contains_key(id));
        for (id, seen) in observed {
            if !self.told_gone.contains(&id) {
                self.instances.entry(id).or_default().recall(seen);
            }
        }
        for (id, tracked) in &mut self.instances {
            if !desired.contains_key(id) {
                tracked.want(None);
            }
        }
        for (id, wanted) in desired {
            self.instances.entry(id).or_default().want(Some(wanted));
        }
    }

    fn ask_for_list(&mut self, effects: &mut Vec<Effect>) {
        match self.listing.question {
            Question::None => {
                self.listing.question = Question::Asked;
                self.touched.clear();
                effects.push(Effect::List);
            }
            Question::Asked | Question::AskAgain => self.listing.question = Question::AskAgain,
        }
    }

    fn note_listed(
        &mut self,
        result: Result<Vec<ContainerSeen>, EngineError>,
        effects: &mut Vec<Effect>,
    ) {
        let again = self.listing.question == Question::AskAgain;
        self.listing.question = Question::None;
        if let Ok(listed) = result {
            self.listing.known = Known::Yes;
            self.take_list(own(&self.owner, listed));
        }
        if again {
            self.ask_for_list(effects);
        }
    }

    /// Takes over what a list says, except about instances that something else was heard of since
    /// it was asked for, or that something is being done to: their answer is on its way.
    fn take_list(&mut self, listed: BTreeMap<InstanceId, ContainerSeen>) {
        for (id, tracked) in &mut self.instances {
            let in_doubt = self.touched.contains(id) || tracked.work.is_on_the_container();
            if !in_doubt && !listed.contains_key(id) {
                tracked.container = None;
            }
        }
        for (id, seen) in listed {
            let tracked = self.instances.get(&id);
            let busy = tracked.is_some_and(|tracked| tracked.work.is_on_the_container());
            if !busy && !self.touched.contains(&id) {
                self.instances.entry(id).or_default().see(seen);
            }
        }
    }

    fn note_changed(&mut self, seen: ContainerSeen) {
        if seen.owner != self.owner {
            return;
        }
        self.touched.insert(seen.instance.clone());
        self.instances.entry(seen.instance.clone()).or_default().see(seen);
    }

    fn note_pulled(&mut self, pull: &PullRequest, result: Result<(), PullError>, now: Timestamp) {
        self.pulls.remove(pull);
        for tracked in self.instances.values_mut() {
            if tracked.pull().as_ref() != Some(pull) {
                continue;
            }
            match &result {
                Ok(()) => tracked.image_arrived(),
                Err(_) if tracked.work != Work::AwaitingPull => {}
                Err(PullError::Unreachable { .. }) => tracked.fail(now),
                Err(PullError::Refused { reason }) => {
                    tracked.trouble = Some(Trouble::Pull { reason: pull_reason(pull, reason) });
                    tracked.fail(now);
                }
            }
        }
    }

    fn note_started(
        &mut self,
        instance: &InstanceId,
        result: Result<ContainerSeen, StartError>,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        self.touched.insert(instance.clone());
        let Some(tracked) = self.instances.get_mut(instance) else { return };
        let called_off = tracked.work == Work::CallingOff;
        tracked.work = Work::Idle;
        match result {
            Ok(seen) => {
                tracked.succeed();
                tracked.see_started(seen);
            }
            Err(StartError::ImageAbsent { .. }) => self.fetch_absent(instance, now, effects),
            // Whether there is a container now is anybody's guess, so look.
            Err(StartError::Unreachable { .. }) => {
                tracked.fail(now);
                self.ask_for_list(effects);
            }
            Err(StartError::Cancelled) => self.ask_for_list(effects),
            Err(
                error @ (StartError::AddressPoolExhausted { .. }
                | StartError::GpuRuntimeMissing { .. }
                | StartError::Unsupported { .. }
                | StartError::Refused { .. }),
            ) => {
                if !called_off {
                    tracked.refuse(error.to_string());
                }
                self.ask_for_list(effects);
            }
        }
    }

    fn fetch_absent(&mut self, id: &InstanceId, now: Timestamp, effects: &mut Vec<Effect>) {
        let Some(tracked) = self.instances.get_mut(id) else { return };
        let Some(image) = tracked.image() else { return };
        let hopeless = match image.policy {
            Pull::Never => Some("it is not on this node and must not be pulled"),
            Pull::Missing | Pull::Always if tracked.image_is_fresh() => {
                Some("it was pulled, and the engine does not have it")
            }
            Pull::Missing | Pull::Always => None,
        };
        match hopeless {
            None => self.await_pull(id, image.pull, effects),
            Some(reason) => {
                tracked.trouble = Some(Trouble::Pull { reason: pull_reason(&image.pull, reason) });
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
                    seen.status = ended_somehow(&seen.status, now);
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

/// `<image>: <reason>`, as users read it; an engine that names the image itself is not echoed.
fn pull_reason(pull: &PullRequest, reason: &str) -> String {
    format!("{}: {reason}", pull.image)
}

/// The container was stopped on our behalf; how exactly it ended is told by an event, if the
/// instance still matters by then.
fn ended_somehow(status: &ContainerStatus, now: Timestamp) -> ContainerStatus {
    match status {
        ContainerStatus::Ended { .. } => status.clone(),
        ContainerStatus::Created | ContainerStatus::Up { .. } => {
            let started_at = match status {
                ContainerStatus::Up { started_at, .. } => Some(*started_at),
                ContainerStatus::Created | ContainerStatus::Ended { .. } => None,
            };
            let exit = Exit { code: 0, out_of_memory: false };
            let (error, output) = (Box::default(), Box::default());
            ContainerStatus::Ended { exit, error, output, started_at, finished_at: now }
        }
    }
}
