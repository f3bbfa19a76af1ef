//! What a line does.

use std::cell::Cell;
use std::sync::Arc;

use jaco_scheduler::rebalance::Goal;
use jaco_state::command::{
    DeploymentApply, DeploymentDelete, DeploymentRollback, DisabledSet, Disabling, JobStart,
    NetworkBegin, NetworkCreate, NetworkRemove, NodeDrain, NodeRemove, NodeReport,
    NodeSetAvailability, RegistryRemove, Running, SpecChange,
};
use jaco_state::network::{MTU_DEFAULT, POOL_DEFAULT};
use jaco_state::view::{Convergence, convergence, stopping};
use jaco_state::{ClusterState, Command, Deployment, Outcome};
use jaco_types::spec::DeploymentSpec;
use jaco_types::unit::{Bytes, MilliCores};
use jaco_types::{
    AllocationScope, Availability, DeploymentName, Gpu, Hostname, Millis, NodeFacts, NodeId,
    ReasonCode, ReplicaId, ReplicaState, Rollout, RolloutState, Slot, StateIndex,
};

use super::words::{Words, millis, name, number, registry, service_key};
use super::{CommandError, Session};
use crate::network::MachineIx;
use crate::router::facts_of;
use crate::service::{GPU_DRIVER, ServiceText};
use crate::world::{Reached, RequestState, World, login};

/// The longest that `settle` waits.
const SETTLE_MAX: Millis = Millis::from_secs(1200);
/// How long nothing must be written before a cluster counts as settled: longer than it takes to
/// notice that a node is gone.
const SETTLED: Millis = Millis::from_secs(20);
/// The same where something is still in progress that may never end, for example a pull.
const STUCK: Millis = Millis::from_secs(120);

/// How long a replica may take to leave a drained node, unless a script names another time.
const DRAIN_PATIENCE: Millis = Millis::from_secs(300);

/// How many replicas an operator has moved by one request.
const MOVES_AT_ONCE: usize = 3;

/// Whether a request's answer is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Awaited,
    NotAwaited,
}

/// Whether a node has replicas, or containers that are to stop.
fn has_some(state: &ClusterState, node: NodeId) -> bool {
    let mut instances = state.slots.values().flat_map(Slot::instances);
    instances.any(|(_, instance)| instance.node == node)
        || stopping(state).any(|(_, on)| on == node)
}

/// Which node may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    OnceEmpty,
    Forced,
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
                self.ask(DeploymentDelete::new(name).into(), None, Answer::Awaited)?;
            }
            ["cordon", host] => self.set_availability(host, Availability::Cordoned)?,
            ["uncordon", host] => self.set_availability(host, Availability::Active)?,
            ["drain", host] => self.drain(host, DRAIN_PATIENCE)?,
            ["drain", host, "within", patience] => self.drain(host, millis(patience)?)?,
            ["remove", host] => self.remove(host, Removal::OnceEmpty)?,
            ["remove", host, "force"] => self.remove(host, Removal::Forced)?,
            ["facts", host, words @ ..] => self.report_facts(host, words)?,
            ["rollback", deployment] => {
                let name: DeploymentName = name(deployment)?;
                self.ask(DeploymentRollback::new(name).into(), None, Answer::Awaited)?;
            }
            ["run", job] => {
                self.ask(JobStart::new(service_key(job)?).into(), None, Answer::Awaited)?;
            }
            ["network", "begin"] => {
                let prefix = POOL_DEFAULT.parse().map_err(|_| CommandError::unclear("no pool"))?;
                let begin = NetworkBegin::new(prefix, MTU_DEFAULT);
                self.ask(begin.into(), None, Answer::Awaited)?;
            }
            ["network", "create", network] => {
                let create = NetworkCreate::new(name(network)?);
                self.ask(create.into(), None, Answer::Awaited)?;
            }
            ["network", "remove", network] => {
                let remove = NetworkRemove::new(name(network)?);
                self.ask(remove.into(), None, Answer::Awaited)?;
            }
            ["login", host, password] => {
                let login = login(registry(host)?, password);
                self.ask(login.into(), None, Answer::Awaited)?;
            }
            ["logout", host] => {
                let remove = RegistryRemove::new(registry(host)?);
                self.ask(remove.into(), None, Answer::Awaited)?;
            }
            ["rebalance", goal] => self.rearrange(goal)?,
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
        // Every node has sent a heartbeat.
        self.cluster()?.advance(Millis::from_secs(5));
        Ok(())
    }

    fn join(&mut self, host: &str, capacity: &[&str]) -> Result<(), CommandError> {
        let host: Hostname = name(host)?;
        let facts = facts(capacity)?;
        if let Err(refused) = self.cluster()?.join(&host, facts) {
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
        let has_networks = self.cluster()?.checker.reference().networks.pool.is_some();
        for service in &services {
            let service = &match has_networks {
                true => service.clone(),
                false => service.without_networks(),
            };
            let networks = service.networks();
            spec.networks
                .extend(networks.map_err(|error| CommandError::unclear(error.to_string()))?);
            let built = service.spec().map_err(|error| CommandError::unclear(error.to_string()))?;
            spec.services.insert(service.name.clone(), Arc::new(built));
            self.cluster()?.know_image(&service.image());
        }
        self.applied.insert(name.clone(), services);
        let command = DeploymentApply::new(name, spec).running(Running::JoinNetworks);
        self.ask(command.into(), via, answer)
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
        self.ask(NodeSetAvailability::new(node, availability).into(), None, Answer::Awaited)
    }

    fn drain(&mut self, host: &str, patience: Millis) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        let node = self.cluster()?.machine(ix).node;
        self.ask(NodeDrain::new(node, patience).into(), None, Answer::Awaited)
    }

    /// As the API does: one that has replicas or containers is removed by force alone, and a leader hands over first.
    fn remove(&mut self, host: &str, removal: Removal) -> Result<(), CommandError> {
        let ix = self.machine(host)?;
        let world = self.cluster()?;
        let node = world.machine(ix).node;
        if removal == Removal::OnceEmpty && has_some(world.checker.reference(), node) {
            self.say("  still has replicas or containers");
            return Ok(());
        }
        if world.leader() == Some(ix) && world.hand_over(ix).is_none() {
            self.say("  leads, and nobody else can");
            return Ok(());
        }
        self.ask(NodeRemove::new(node).into(), None, Answer::Awaited)
    }

    /// A daemon reports what its machine has, as after a restart with another configuration.
    fn report_facts(&mut self, host: &str, words: &[&str]) -> Result<(), CommandError> {
        let facts = facts(words)?;
        let ix = self.machine(host)?;
        let world = self.cluster()?;
        let machine = world.machine(ix);
        let (node, address) = (machine.node, format!("{}:7000", machine.hostname));
        let others = world.machines.iter().filter(|other| other.hostname == machine.hostname);
        let router = Some(facts_of(host, others.count() - 1));
        let facts = NodeFacts { router, ..facts };
        self.ask(NodeReport::new(node, address, facts).into(), None, Answer::Awaited)
    }

    /// Moves replicas the way an operator asks for, a few at a time.
    fn rearrange(&mut self, goal: &str) -> Result<(), CommandError> {
        let goal = match goal {
            "spread" => Goal::Spread,
            "pack" => Goal::Pack,
            _ => return Err(CommandError::unclear("spread or pack")),
        };
        let command = self.cluster()?.rearranging(goal, MOVES_AT_ONCE);
        self.ask(command.into(), None, Answer::Awaited)
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
        self.ask(DisabledSet::new(change, scopes).into(), None, Answer::Awaited)
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

    /// Waits until nothing has been written for a while and nothing is in progress.
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
            self.say("  nothing moves, though something is still in progress");
        }
        Ok(())
    }

    fn show(&mut self, what: &[&str]) -> Result<(), CommandError> {
        let world = self.cluster()?;
        let lines = match what {
            ["replicas", deployment] => world.show_replicas(deployment),
            ["rollout", service] => world.show_rollout(&service_key(service)?),
            ["unplaced", deployment] => world.show_unplaced(deployment),
            ["networks"] => world.show_networks(),
            ["addresses", deployment] => world.show_addresses(deployment),
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

/// Whether something is going to change without anybody doing anything. A deployment that cannot be
/// placed as a whole can have a rollout in progress.
fn is_progressing(world: &World) -> bool {
    let state = world.checker.reference();
    let is_moving = |deployment: &Deployment| match convergence(state, deployment) {
        Convergence::Progressing => true,
        Convergence::CannotPlace => state
            .slots
            .values()
            .any(|slot| slot.service.deployment == deployment.name && is_starting(state, slot)),
        Convergence::Converged
        | Convergence::Paused
        | Convergence::RolledBack
        | Convergence::Exhausted => false,
    };
    state.deployments.values().any(is_moving)
        || state.scheduling.iter().any(|(_, record)| is_rolling(record.rollout.as_ref()))
}

/// Whether a replica is on its way: its image is being fetched, or will be again after a failure, or its
/// container is being started.
fn is_starting(state: &ClusterState, slot: &Slot) -> bool {
    let seen = state.observed.get(&slot.current_id());
    seen.is_some_and(|seen| {
        matches!(seen.state, ReplicaState::Pulling | ReplicaState::Starting)
            || seen.code == Some(ReasonCode::ImagePullFailed)
    })
}

fn is_rolling(rollout: Option<&Rollout>) -> bool {
    rollout.is_some_and(|rollout| {
        rollout.state == RolloutState::InProgress || rollout.rollback_progress.is_some()
    })
}

/// `cpu=4000 memory=8000 gpus=2 zone=a`.
fn facts(words: &[&str]) -> Result<NodeFacts, CommandError> {
    let mut facts = NodeFacts::default();
    for word in words {
        match word.split_once('=') {
            Some(("cpu", cpu)) => facts.capacity.cpu = MilliCores(number(cpu)?),
            Some(("memory", memory)) => facts.capacity.memory = Bytes(number(memory)?),
            Some(("zone", zone)) => {
                facts.labels.insert("zone".to_owned(), zone.to_owned());
            }
            Some(("gpus", count)) => {
                facts.gpus = (0..number::<u32>(count)?).map(gpu).collect();
            }
            _ => return Err(CommandError::unclear(format!("{word:?} is no fact of a node"))),
        }
    }
    Ok(facts)
}

fn gpu(number: u32) -> Gpu {
    Gpu {
        id: format!("gpu-{number}").into(),
        driver: GPU_DRIVER.to_owned(),
        model: String::new(),
        memory: Bytes(0),
    }
}

/// `web image=web:1 + db image=db:1`.
fn parse_services(words: &[&str]) -> Result<Vec<ServiceText>, CommandError> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let services = words.split(|word| *word == "+").map(ServiceText::parse);
    services.collect::<Result<_, _>>().map_err(|error| CommandError::unclear(error.to_string()))
}
