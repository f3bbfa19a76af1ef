//! Random clusters, random requests, random faults; then all faults end and everything must converge.
//!
//! The nemesis writes script lines and has a [`Session`] execute them, so that what it did can be
//! read, kept and replayed as a script.

mod disks;
mod fault;
mod logins;
mod members;
mod networks;
mod schedules;
mod service;
mod swarm;

use jaco_types::Millis;

use self::disks::Disks;
use self::logins::Logins;
use self::members::Members;
use self::networks::Networks;
use self::schedules::Schedules;
use self::swarm::Swarm;
use crate::coverage::Coverage;
use crate::machine::Membership;
use crate::rng::{Rng, Stream};
use crate::sabotage::Sabotage;
use crate::script::{CommandError, Session};
use crate::world::World;

/// How long a healed cluster may take to be as it should be: the longest pause between two pulls,
/// a few steps of a rollout that have to time out, and room.
const HEALS_WITHIN: &str = "10m";
/// How long jobs run on their schedules without a fault.
const RUNS_FOR: &str = "150s";
/// How long an idle cluster is watched.
const WATCHED: &str = "5m";

/// How many scopes that can be disabled are within each other.
const NESTED: usize = 3;

/// Images whose containers end by themselves.
const JOB_IMAGES: [&str; 2] = ["job:1", "job:2"];

/// Number of operations and faults in a run, unless another one is given.
pub const STEPS: usize = 60;

/// What a run is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Up to six equal nodes, and the keys that nearly every service uses.
    Plain,
    /// Up to nine nodes in two zones, some with GPUs; every key that the planner knows; rebalancing,
    /// rollbacks, drains that time out, jobs; faults that come together.
    Harsh,
    /// The same, but each seed draws which of these there are in its run, and how often.
    Swarm,
}

impl Style {
    fn nodes_max(self) -> usize {
        match self {
            Self::Plain => 6,
            Self::Harsh | Self::Swarm => 9,
        }
    }

    fn is_harsh(self) -> bool {
        match self {
            Self::Plain => false,
            Self::Harsh | Self::Swarm => true,
        }
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// Everything that was done, as a script.
    pub script: Vec<String>,
    /// What went wrong, if anything did, at the last line of the script.
    pub failure: Option<CommandError>,
    /// What people would have seen of the cluster in the end.
    pub seen: Vec<String>,
    /// How long the cluster lived.
    pub lived: Millis,
    /// How many entries were written.
    pub commits: usize,
    /// What the planner decided in which states.
    pub coverage: Coverage,
}

/// Does `steps` random things to a cluster, all of which follow from `seed`.
#[must_use]
pub fn run(seed: u64, steps: usize, style: Style, sabotage: Option<Sabotage>) -> Run {
    let mut nemesis = Nemesis {
        style,
        rng: Rng::new(seed, Stream::Nemesis),
        networks: Networks::new(
            Rng::new(seed, Stream::Networks),
            Rng::new(seed, Stream::RouterFaults),
            steps,
        ),
        members: Members::new(Rng::new(seed, Stream::Members), style),
        logins: Logins::new(Rng::new(seed, Stream::Logins), style),
        schedules: Schedules::new(Rng::new(seed, Stream::Schedules), style),
        disks: Disks::new(Rng::new(seed, Stream::Disks), style),
        swarm: match style {
            Style::Plain => Swarm::everything(&[]),
            Style::Harsh => Swarm::everything(&HARSH_CHOICES),
            Style::Swarm => Swarm::drawn(Rng::new(seed, Stream::Swarm), &HARSH_CHOICES),
        },
        session: Session::new(seed, sabotage),
        script: Vec::new(),
        images: vec!["db:1".to_owned(), "web:1".to_owned()],
        disabled: Vec::new(),
        gpu_nodes: 0,
    };
    let failure = nemesis.play(seed, steps).err();
    let world = nemesis.session.world();
    Run {
        seen: world.map_or(Vec::new(), World::show_all),
        lived: world.map_or(Millis(0), World::age),
        commits: world.map_or(0, |world| world.consensus.commits()),
        coverage: world.map_or_else(Coverage::default, |world| world.checker.coverage().clone()),
        script: nemesis.script,
        failure,
    }
}

struct Nemesis {
    style: Style,
    rng: Rng,
    networks: Networks,
    members: Members,
    logins: Logins,
    schedules: Schedules,
    disks: Disks,
    swarm: Swarm,
    session: Session,
    script: Vec<String>,
    images: Vec<String>,
    /// What was ever disabled, in the words of the scripts.
    disabled: Vec<String>,
    /// How many nodes have GPUs, two each.
    gpu_nodes: u64,
}

/// What can happen to a cluster, with weights.
const CHOICES: [(Choice, u64); 19] = [
    (Choice::Apply, 22),
    (Choice::Delete, 3),
    (Choice::Kill, 7),
    (Choice::KillLeader, 6),
    (Choice::Start, 26),
    (Choice::PowerOff, 4),
    (Choice::Partition, 7),
    (Choice::Cut, 3),
    (Choice::Heal, 16),
    (Choice::Registry, 7),
    (Choice::Behaviour, 5),
    (Choice::Harm, 16),
    (Choice::Engine, 6),
    (Choice::Clock, 2),
    (Choice::Join, 2),
    (Choice::Availability, 5),
    (Choice::Repeat, 2),
    (Choice::Tag, 8),
    (Choice::Disable, 8),
];

/// What can also happen to a cluster where the style is harsh.
const HARSH_CHOICES: [(Choice, u64); 5] = [
    (Choice::Rollback, 5),
    (Choice::Scale, 10),
    (Choice::DrainWithin, 6),
    (Choice::Load, 10),
    (Choice::Rearrange, 5),
];

/// One thing that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Apply,
    Delete,
    Kill,
    KillLeader,
    Start,
    PowerOff,
    Partition,
    Cut,
    Heal,
    Registry,
    Behaviour,
    Harm,
    Engine,
    Clock,
    Join,
    Availability,
    Repeat,
    Tag,
    Disable,
    Rollback,
    Scale,
    DrainWithin,
    Load,
    Rearrange,
}

impl Nemesis {
    fn play(&mut self, seed: u64, steps: usize) -> Result<(), CommandError> {
        self.line(format!("seed {seed}"))?;
        let nodes = match self.style {
            Style::Plain => *self.rng.pick(&[1, 2, 3, 3, 3, 4, 5]),
            Style::Harsh | Style::Swarm => *self.rng.pick(&[3, 3, 4, 5, 6, 7, 8]),
        };
        let nodes: Vec<String> = (1..=nodes).map(|number| format!("n{number}")).collect();
        self.line(format!("nodes {}", nodes.join(" ")))?;
        if self.style.is_harsh() {
            self.describe_nodes()?;
        }
        for step in 0..steps {
            for line in self.networks.lines(step) {
                self.line(line)?;
            }
            let hosts = self.hosts();
            for line in self.members.lines(step, &hosts) {
                self.line(line)?;
            }
            let hosts = self.hosts();
            if let Some(line) = self.networks.fault(step, &hosts) {
                self.line(line)?;
            }
            if let Some(line) = self.disks.line(&hosts) {
                self.line(line)?;
            }
            if let Some(line) = self.logins.line() {
                self.line(line)?;
            }
            if let Some(line) = self.schedules.line(&self.session.scheduled()) {
                self.line(line)?;
            }
            if let Some(line) = self.choose() {
                self.line(line)?;
            }
            if self.style.is_harsh() && self.rng.below(4) == 0 {
                // Two at once.
                continue;
            }
            let pause = *self.rng.pick(&[5, 40, 200, 900, 2_000, 7_000, 20_000, 70_000]);
            let pause = self.rng.between(1, pause);
            self.line(format!("advance {pause}ms"))?;
        }
        self.make_peace()
    }

    fn line(&mut self, line: String) -> Result<(), CommandError> {
        self.script.push(line);
        let line = self.script.last().expect("just pushed");
        self.session.line(line)
    }

    fn world(&self) -> &World {
        self.session.world().expect("the nodes come first")
    }

    /// Two zones, and two GPUs in each of the first nodes.
    fn describe_nodes(&mut self) -> Result<(), CommandError> {
        let hosts = self.hosts();
        self.gpu_nodes = self.rng.below(4);
        for (at, host) in (0..).zip(&hosts) {
            let zone = if at % 2 == 0 { "a" } else { "b" };
            let gpus = if at < self.gpu_nodes { 2 } else { 0 };
            let facts = format!("zone={zone} cpu=64000 memory=64000 gpus={gpus}");
            self.line(format!("facts {host} {facts}"))?;
            self.members.has(host.clone(), facts);
        }
        for image in JOB_IMAGES {
            self.images.push(image.to_owned());
            self.line(format!("image {image} exits 0 after 2s"))?;
        }
        if let Some(line) = self.schedules.begin() {
            self.line(line)?;
        }
        Ok(())
    }

    /// All faults end, nothing is disabled any more, and every replica gets a new budget.
    fn make_peace(&mut self) -> Result<(), CommandError> {
        self.line("heal".to_owned())?;
        if let Some(line) = self.disks.make_peace() {
            self.line(line)?;
        }
        self.line("start all".to_owned())?;
        self.complete_members()?;
        if let Some(line) = self.logins.right() {
            self.line(line)?;
        }
        for host in self.hosts() {
            self.line(format!("engine {host} up"))?;
            self.line(format!("uncordon {host}"))?;
            if self.style.is_harsh() {
                self.line(format!("load {host} unknown"))?;
            }
        }
        for image in self.images.clone() {
            self.line(format!("pull {image} works"))?;
            let is_job = JOB_IMAGES.contains(&image.as_str());
            let ends = if is_job { "exits 0 after 2s" } else { "works" };
            self.line(format!("image {image} {ends}"))?;
        }
        self.run_on_schedule()?;
        self.end_schedules()?;
        self.line("settle".to_owned())?;
        // Nodes may have been admitted or removed meanwhile for which the answer came too late.
        self.line("start all".to_owned())?;
        self.complete_members()?;
        for line in self.networks.make_peace() {
            self.line(line)?;
        }
        // A replica of a service on a node: what is within another one that is disabled is refused until that is enabled.
        for _ in 0..NESTED {
            for scope in self.disabled.clone() {
                self.line(format!("enable {scope}"))?;
            }
        }
        for deployment in self.deployments() {
            self.line(format!("again {deployment}"))?;
        }
        // One may have been asked for that was not there yet.
        self.end_schedules()?;
        self.line(format!("settle within {HEALS_WITHIN}"))?;
        self.line("expect rest".to_owned())?;
        self.line(format!("expect idle {WATCHED}"))?;
        self.line("expect rest".to_owned())
    }

    /// Jobs run on their schedules for a while, and none of their runs is late.
    fn run_on_schedule(&mut self) -> Result<(), CommandError> {
        if let Some(line) = self.schedules.make_peace() {
            self.line(line)?;
        }
        if self.scheduled().is_empty() {
            return Ok(());
        }
        self.line(format!("advance {RUNS_FOR}"))?;
        self.line("expect punctual".to_owned())
    }

    /// Jobs have no schedule any more: what runs every minute is never idle.
    fn end_schedules(&mut self) -> Result<(), CommandError> {
        for job in self.scheduled() {
            let (deployment, name) = job.split_once('/').expect("a service of a deployment");
            // What was asked for last may have another service in its place.
            let line = match self.session.scheduled().contains(&job) {
                true => format!("change {deployment} {name} schedule=none"),
                false => format!("again {deployment}"),
            };
            self.line(line)?;
        }
        Ok(())
    }

    /// The jobs that run on a schedule.
    fn scheduled(&self) -> Vec<String> {
        let deployments = self.world().checker.reference().deployments.values();
        let jobs = deployments.flat_map(|deployment| {
            let services = deployment.spec().services.iter();
            let scheduled = services.filter(|(_, spec)| spec.schedule.is_some());
            scheduled.map(|(name, _)| format!("{}/{name}", deployment.name))
        });
        jobs.collect()
    }

    /// Machines that are no nodes join, where nodes are removed in this run.
    fn complete_members(&mut self) -> Result<(), CommandError> {
        let (hosts, machines) = (self.hosts(), &self.world().machines);
        let names = machines.iter().map(|machine| machine.hostname.to_string());
        let missing = names.filter(|name| !hosts.contains(name)).collect();
        for line in self.members.make_peace(&missing) {
            self.line(line)?;
        }
        Ok(())
    }

    fn choose(&mut self) -> Option<String> {
        match self.swarm.choose(&mut self.rng)? {
            Choice::Apply => Some(self.apply()),
            Choice::Delete => {
                self.pick_of(&self.deployments()).map(|name| format!("delete {name}"))
            }
            Choice::Kill => self.pick_of(&self.running()).map(|host| format!("kill {host}")),
            Choice::KillLeader => self.leader().map(|host| format!("kill {host}")),
            Choice::Start => self.pick_of(&self.dead()).map(|host| format!("start {host}")),
            Choice::PowerOff => {
                self.pick_of(&self.running()).map(|host| format!("power-off {host}"))
            }
            Choice::Partition => self.partition(),
            Choice::Cut => self.cut(),
            Choice::Heal => Some("heal".to_owned()),
            Choice::Registry => self.registry(),
            Choice::Behaviour => self.behaviour(),
            Choice::Harm => self.harm(),
            Choice::Engine => self.engine(),
            Choice::Clock => self.clock(),
            Choice::Join => self.join(),
            Choice::Availability => self.availability(),
            Choice::Repeat => Some("repeat".to_owned()),
            Choice::Tag => self.tag(),
            Choice::Disable => self.disable(),
            Choice::Rollback => {
                self.pick_of(&self.deployments()).map(|name| format!("rollback {name}"))
            }
            Choice::Scale => self.scale(),
            Choice::DrainWithin => self.drain_within(),
            Choice::Load => self.load(),
            Choice::Rearrange => Some(format!("rebalance {}", self.rng.pick(&["spread", "pack"]))),
        }
    }

    fn pick_of(&mut self, from: &[String]) -> Option<String> {
        (!from.is_empty()).then(|| self.rng.pick(from).clone())
    }

    /// One host at least.
    fn some_hosts(&mut self) -> Vec<String> {
        let hosts = self.hosts();
        let sure = self.rng.place(hosts.len());
        let drawn = hosts.into_iter().enumerate();
        let drawn = drawn.filter(|(at, _)| *at == sure || self.rng.below(2) == 0);
        drawn.map(|(_, host)| host).collect()
    }

    fn hosts(&self) -> Vec<String> {
        let machines = self.world().machines.iter();
        let members = machines.filter(|machine| machine.membership == Membership::Member);
        members.map(|machine| machine.hostname.to_string()).collect()
    }

    fn running(&self) -> Vec<String> {
        self.world().up().into_iter().map(str::to_owned).collect()
    }

    fn dead(&self) -> Vec<String> {
        let up = self.running();
        self.hosts().into_iter().filter(|host| !up.contains(host)).collect()
    }

    fn leader(&self) -> Option<String> {
        let world = self.world();
        world.leader().map(|ix| world.machine(ix).hostname.to_string())
    }

    fn deployments(&self) -> Vec<String> {
        self.world().checker.reference().deployments.keys().map(ToString::to_string).collect()
    }
}
