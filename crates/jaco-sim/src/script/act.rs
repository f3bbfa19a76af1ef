//! What a line does.

use std::cell::Cell;
use std::sync::Arc;

use jaco_agent::fake::{Behaviour, Reach};
use jaco_state::command::{Disabling, SpecChange};
use jaco_state::view::{Convergence, convergence};
use jaco_state::{Command, Outcome};
use jaco_types::spec::DeploymentSpec;
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    AllocationScope, Availability, DeploymentName, Exit, Hostname, Millis, ReplicaId, StateIndex,
};

use super::words::{Words, digest, millis, name, number, service_key};
use super::{CommandError, Session};
use crate::network::MachineIx;
use crate::service::ServiceText;
use crate::world::{Harm, Reached, Registry, RequestState, World, usual_behaviour};

/// The longest that `settle` waits.
const SETTLE_MAX: Millis = Millis::from_secs(1200);
/// How long nothing must be written before a cluster counts as settled: longer than it takes to
/// notice that a node is gone.
const SETTLED: Millis = Millis::from_secs(20);
/// The same where something is still under way that may never end, for example a pull.
const STUCK: Millis = Millis::from_secs(120);

/// How long a replica may take to leave a drained node, as for people who say nothing else.
const DRAIN_PATIENCE: Millis = Millis::from_secs(300);

/// Whether a request's answer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Awaited,
    NotAwaited,
}

impl Session {
    pub(super) fn execute(&mut self, words: &Words) -> Result<(), CommandError> {
        match words.as_strs().as_slice() {
            ["seed", seed] => self.seed = number(seed)?,
            ["nodes", hosts @ ..] => self.nodes(hosts)?,
            ["join", host, capacity @ ..] => self.join(host, capacity)?,
            ["apply", rest @ ..] => self.apply(rest, Answer::Awaited)?,
            ["begin", "apply", rest @ ..] => self.apply(rest, Answer::NotAwaited)?,
            ["change", rest @ ..] => self.change(rest)?,
            ["again", deployment] => self.change(&[deployment])?,
            ["repeat"] => self.repeat()?,
            ["delete", deployment] => {
                let name: DeploymentName = name(deployment)?;
                self.ask(Command::DeploymentDelete { name }, None, Answer::Awaited)?;
            }
            ["cordon", host] => self.set_availability(host, Availability::Cordoned)?,
            ["uncordon", host] => self.set_availability(host, Availability::Active)?,
            ["drain", host] => self.set_availability(host, Availability::Draining)?,
            ["disable", scope @ ..] => self.rest(Disabling::Disable, scope)?,
            ["enable", scope @ ..] => self.rest(Disabling::Enable, scope)?,
            ["settle"] => self.settle(None)?,
            ["settle", "within", limit] => self.settle(Some(millis(limit)?))?,
            ["advance", length] => {
                let length = millis(length)?;
                self.cluster()?.advance(length);
            }
            ["show", what @ ..] => self.show(what)?,
            ["mark"] => self.take_mark()?,
            ["expect", what @ ..] => self.expect(what)?,
            words => self.fault(words)?,
        }
        Ok(())
    }

    fn nodes(&mut self, hosts: &[&str]) -> Result<(), CommandError> {
        let Some((first, others)) = hosts.split_first() else {
            return Err(CommandError::unclear("a cluster has at least one node"));
        };
        let mut world = World::new(self.seed, name(first)?);
        if let Some(sabotage) = self.sabotage {
            world.sabotage(sabotage);
        }
        self.world = Some(world);
        for host in others {
            self.join(host, &[])?;
        }
        // A cluster that stands: every node has been heard of.
        self.cluster()?.advance(Millis::from_secs(5));
        Ok(())
    }

    fn join(&mut self, host: &str, capacity: &[&str]) -> Result<(), CommandError> {
        let host: Hostname = name(host)?;
        let mut resources = Resources::default();
        for word in capacity {
            match word.split_once('=') {
                Some(("cpu", cpu)) => resources.cpu = MilliCores(number(cpu)?),
                Some(("memory", memory)) => resources.memory = Bytes(number(memory)?),
                _ => return Err(CommandError::unclear(format!("{word:?} is no capacity"))),
            }
        }
        if let Err(refused) = self.cluster()?.join(&host, resources) {
            self.tell(&refused);
        }
        Ok(())
    }

    fn apply(&mut self, words: &[&str], answer: Answer) -> Result<(), CommandError> {
        let (words, via) = self.split_via(words)?;
        let Some((deployment, services)) = words.split_first() else {
            return Err(CommandError::unclear("which deployment?"));
        };
        let deployment: DeploymentName = name(deployment)?;
        let services = parse_services(services)?;
        self.deploy(deployment, services, via, answer)
    }

    /// What was applied last, with the keys named here on top.
    fn change(&mut self, words: &[&str]) -> Result<(), CommandError> {
        let (words, via) = self.split_via(words)?;
        let Some((deployment, changes)) = words.split_first() else {
            return Err(CommandError::unclear("which deployment?"));
        };
        let deployment: DeploymentName = name(deployment)?;
        let known = self.applied.get(&deployment).cloned();
        let mut services = known
            .ok_or_else(|| CommandError::unclear(format!("{deployment} was not applied yet")))?;
        for change in parse_services(changes)? {
            match services.iter_mut().find(|service| service.name == change.name) {
                Some(service) => *service = service.overlaid(&change),
                None => services.push(change),
            }
        }
        self.deploy(deployment, services, via, Answer::Awaited)
    }

    fn deploy(
        &mut self,
        name: DeploymentName,
        services: Vec<ServiceText>,
        via: Option<MachineIx>,
        answer: Answer,
    ) -> Result<(), CommandError> {
        let mut spec = DeploymentSpec::default();
        for service in &services {
            let built = service.spec().map_err(|error| CommandError::unclear(error.to_string()))?;
            spec.services.insert(service.name.clone(), Arc::new(built));
            self.cluster()?.know_image(&service.image());
        }
        self.applied.insert(name.clone(), services);
        self.ask(Command::DeploymentApply { name, spec, based_on: None }, via, answer)
    }

    fn split_via<'a, 'b>(
        &mut self,
        words: &'a [&'b str],
    ) -> Result<(&'a [&'b str], Option<MachineIx>), CommandError> {
        match words {
            [rest @ .., "via", host] => Ok((rest, Some(self.machine(host)?))),
            words => Ok((words, None)),
        }
    }

    fn ask(
        &mut self,
        command: Command,
        via: Option<MachineIx>,
        answer: Answer,
    ) -> Result<(), CommandError> {
        let world = self.cluster()?;
        let request = world.request(command, via);
        if answer == Answer::Awaited {
            let state = world.await_request(request);
            self.tell(&state);
        }
        Ok(())
    }

    /// Sends the last request again, as a client does whose connection broke.
    fn repeat(&mut self) -> Result<(), CommandError> {
        let world = self.cluster()?;
        let Some(last) = world.requests.last() else {
            return Err(CommandError::unclear("nothing was requested yet"));
        };
        let (id, command) = (last.id.clone(), last.command.clone());
        let request = world.request_as(id, command, None);
        let state = world.await_request(request);
        self.tell(&state);
        Ok(())
    }

    fn set_availability(
        &mut self,
        host: &str,
        availability: Availability,
    ) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        let node = self.cluster()?.machine(ix).node;
        let command = match availability {
            Availability::Draining => Command::NodeDrain { node, patience: DRAIN_PATIENCE },
            Availability::Active | Availability::Cordoned => {
                Command::NodeSetAvailability { node, availability }
            }
        };
        self.ask(command, None, Answer::Awaited)
    }

    /// `disable shop/web`, `disable shop/web on n1`, `disable node n1`, `disable shop/web replica shop-web-0`.
    fn rest(&mut self, change: Disabling, scope: &[&str]) -> Result<(), CommandError> {
        let scope = match scope {
            [service] => AllocationScope::Service(service_key(service)?),
            [service, "on", host] => {
                let (service, ix) = (service_key(service)?, self.machine(host)?);
                AllocationScope::Pair { service, node: self.cluster()?.machine(ix).node }
            }
            ["node", host] => {
                let ix = self.machine(host)?;
                AllocationScope::Node(self.cluster()?.machine(ix).node)
            }
            [service, "replica", id] => {
                let id = ReplicaId::parse(id);
                let id = id.map_err(|error| CommandError::unclear(error.to_string()))?;
                AllocationScope::Replica { service: service_key(service)?, id }
            }
            _ => return Err(CommandError::unclear("which allocations?")),
        };
        let scopes = [scope].into();
        self.ask(Command::DisabledSet { change, scopes }, None, Answer::Awaited)
    }

    fn tell(&mut self, state: &RequestState) {
        let line = match state {
            RequestState::Waiting => "no answer".to_owned(),
            RequestState::Refused(code) => format!("refused: {code}"),
            RequestState::Done(Outcome::Done) => "done".to_owned(),
            RequestState::Done(Outcome::NodeAdmitted { .. }) => "admitted".to_owned(),
            RequestState::Done(Outcome::Rejected(rejection)) => format!("rejected: {rejection}"),
            RequestState::Done(Outcome::Deployed { revision, change }) => {
                let change = match change {
                    SpecChange::Created => "created",
                    SpecChange::Updated => "updated",
                    SpecChange::Unchanged => "unchanged",
                };
                format!("revision {revision}, {change}")
            }
        };
        self.say(&format!("  {line}"));
    }

    /// Waits until nothing has been written for a while and nothing is under way.
    fn settle(&mut self, within: Option<Millis>) -> Result<(), CommandError> {
        let world = self.cluster()?;
        let begin = world.now;
        let last_progress = Cell::new(begin);
        let known = Cell::new((StateIndex(0), false));
        let reached = world.run_until(SETTLE_MAX, |world| {
            let last = world.consensus.last();
            if known.get().0 != last {
                known.set((last, is_progressing(world)));
            }
            let (_, unfinished) = known.get();
            if unfinished {
                last_progress.set(world.now);
            }
            let enough = if unfinished { STUCK } else { SETTLED };
            !world.is_awaited() && world.quiet_for().min(world.now.since(begin)) >= enough
        });
        let took = last_progress.get().since(begin);
        let unfinished = is_progressing(world);
        match (reached, within) {
            (Reached::No, _) => {
                return Err(CommandError::Unexpected(format!("not settled within {SETTLE_MAX}")));
            }
            (Reached::Yes, Some(limit)) if took > limit => {
                let what = format!("settled within {took}, not within {limit}");
                return Err(CommandError::Unexpected(what));
            }
            (Reached::Yes, _) => {}
        }
        if unfinished {
            self.say("  nothing moves, though something is still under way");
        }
        Ok(())
    }

    fn fault(&mut self, words: &[&str]) -> Result<(), CommandError> {
        match words {
            ["kill", hosts @ ..] => {
                for ix in self.machines(hosts)? {
                    self.cluster()?.kill(ix);
                }
            }
            ["start", hosts @ ..] => {
                for ix in self.machines(hosts)? {
                    self.cluster()?.start(ix);
                }
            }
            ["power-off", hosts @ ..] => {
                for ix in self.machines(hosts)? {
                    self.cluster()?.power_off(ix);
                }
            }
            ["partition", groups @ ..] => {
                let groups = groups.split(|word| *word == "|");
                let groups: Vec<Vec<MachineIx>> =
                    groups.map(|hosts| self.machines(hosts)).collect::<Result<_, _>>()?;
                self.cluster()?.partition(&groups);
            }
            ["cut", from, "->", to] => {
                let (from, to) = (self.machine(from)?, self.machine(to)?);
                self.cluster()?.cut(from, to);
            }
            ["heal"] => self.cluster()?.heal(),
            ["engine", host, "down"] => self.set_engine(host, Reach::Down)?,
            ["engine", host, "up"] => self.set_engine(host, Reach::Up)?,
            ["drift", host, permille] => self.drift(host, permille)?,
            ["clock", host, step] => self.step_clock(host, step)?,
            ["pull", image, how @ ..] => self.set_registry(image, how)?,
            ["image", image, how @ ..] => self.set_behaviour(image, how)?,
            ["kill-container", replica] => self.harm(replica, Harm::Kill { code: 1 })?,
            ["kill-container", replica, code] => {
                self.harm(replica, Harm::Kill { code: number(code)? })?;
            }
            ["remove-container", replica] => self.harm(replica, Harm::Remove)?,
            ["sicken", replica] => self.harm(replica, Harm::Sicken)?,
            ["cure", replica] => self.harm(replica, Harm::Cure)?,
            words => {
                let what = format!("{:?} is no command", words.join(" "));
                return Err(CommandError::Unclear(what));
            }
        }
        Ok(())
    }

    fn set_engine(&mut self, host: &str, reach: Reach) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        self.cluster()?.set_engine(ix, reach);
        Ok(())
    }

    fn drift(&mut self, host: &str, permille: &str) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        let permille = permille.parse();
        let permille = permille.map_err(|_| CommandError::unclear("thousandths, as -90"))?;
        self.cluster()?.drift(ix, permille);
        Ok(())
    }

    fn step_clock(&mut self, host: &str, step: &str) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        let unclear = || CommandError::unclear(format!("{step:?} is not like +5s or -5s"));
        let (sign, length) = step.split_at_checked(1).ok_or_else(unclear)?;
        let length = i64::try_from(millis(length)?.0).map_err(|_| unclear())?;
        let step = match sign {
            "+" => length,
            "-" => -length,
            _ => return Err(unclear()),
        };
        self.cluster()?.step_clock(ix, step);
        Ok(())
    }

    fn set_registry(&mut self, image: &str, how: &[&str]) -> Result<(), CommandError> {
        let (how, only) = match how {
            [how @ .., "on", host] => (how, Some(self.machine(host)?)),
            how => (how, None),
        };
        let registry = match how {
            ["is", mark] if only.is_none() => {
                let digest = digest(image, mark)?;
                self.cluster()?.move_tag(image, &digest);
                return Ok(());
            }
            ["works"] => Registry::Works,
            ["hangs"] => Registry::Hangs,
            ["takes", length] => Registry::Takes(millis(length)?),
            ["fails", reason] => Registry::Fails((*reason).to_owned()),
            _ => {
                return Err(CommandError::unclear(
                    "works, hangs, takes <time>, fails <reason> or is <hex digit>",
                ));
            }
        };
        self.cluster()?.set_registry(image, registry, only);
        Ok(())
    }

    fn set_behaviour(&mut self, image: &str, how: &[&str]) -> Result<(), CommandError> {
        let usual = usual_behaviour();
        let exit =
            |code: &str| Ok::<_, CommandError>(Exit { code: number(code)?, out_of_memory: false });
        let behaviour = match how {
            ["works"] => usual,
            ["exits", code, "after", length] => {
                Behaviour { exit: Some((millis(length)?, exit(code)?)), ..usual }
            }
            ["healthy", "after", length] => Behaviour { healthy_after: millis(length)?, ..usual },
            ["unhealthy", "after", length] => {
                Behaviour { unhealthy_after: Some(millis(length)?), ..usual }
            }
            ["stops", "in", length] => Behaviour { stop_takes: millis(length)?, ..usual },
            ["refused", reason] => Behaviour { refuse: Some((*reason).to_owned()), ..usual },
            _ => return Err(CommandError::unclear("images do no such thing")),
        };
        self.cluster()?.set_behaviour(image, behaviour);
        Ok(())
    }

    fn harm(&mut self, replica: &str, harm: Harm) -> Result<(), CommandError> {
        let replica =
            ReplicaId::parse(replica).map_err(|error| CommandError::unclear(error.to_string()))?;
        if self.cluster()?.harm(&replica, harm) == 0 {
            self.say("  there is none");
        }
        Ok(())
    }

    fn show(&mut self, what: &[&str]) -> Result<(), CommandError> {
        let world = self.cluster()?;
        let lines = match what {
            ["replicas", deployment] => world.show_replicas(deployment),
            ["rollout", service] => world.show_rollout(&service_key(service)?),
            ["nodes"] => world.show_nodes(),
            ["deployments"] => world.show_deployments(),
            ["containers"] => world.show_containers(),
            ["audit", last] => world.show_audit(number(last)?),
            _ => return Err(CommandError::unclear("that cannot be shown")),
        };
        self.say_all(lines);
        Ok(())
    }
}

fn is_progressing(world: &World) -> bool {
    let state = world.checker.reference();
    state
        .deployments
        .values()
        .any(|deployment| convergence(state, deployment) == Convergence::Progressing)
}

/// `web image=web:1 + db image=db:1`.
fn parse_services(words: &[&str]) -> Result<Vec<ServiceText>, CommandError> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let services = words.split(|word| *word == "+").map(ServiceText::parse);
    services.collect::<Result<_, _>>().map_err(|error| CommandError::unclear(error.to_string()))
}
