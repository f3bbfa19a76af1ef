//! Random clusters, random wishes, random faults; then peace, in which everything must heal.
//!
//! The nemesis writes script lines and has a [`Session`] execute them, so that what it did can be
//! read, kept and replayed as a script.

use jaco_types::{Millis, ReplicaId};

use crate::rng::{Rng, Stream};
use crate::sabotage::Sabotage;
use crate::script::{CommandError, Session};
use crate::world::World;

/// How many nodes there are at most.
const NODES_MAX: usize = 6;
const DEPLOYMENTS: [&str; 3] = ["blog", "shop", "wiki"];
const SERVICES: [&str; 2] = ["db", "web"];

/// The service that takes a port of its host: always the same one, and never more replicas than
/// nodes, so that everything can be placed once there is peace.
const WITH_PORT: (&str, &str) = ("wiki", "web");

/// How long a healed cluster may take to be as it should be: the longest pause between two pulls,
/// a few steps of a rollout that have to time out, and room.
const HEALS_WITHIN: &str = "10m";
/// How long a cluster at rest is watched.
const WATCHED: &str = "5m";

/// How many things befall a cluster unless told otherwise.
pub const STEPS: usize = 60;

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
}

/// Lets `steps` things befall a cluster, all of which follow from `seed`.
#[must_use]
pub fn run(seed: u64, steps: usize, sabotage: Option<Sabotage>) -> Run {
    let mut nemesis = Nemesis {
        rng: Rng::new(seed, Stream::Nemesis),
        session: Session::new(seed, sabotage),
        script: Vec::new(),
        images: vec!["db:1".to_owned(), "web:1".to_owned()],
        disabled: Vec::new(),
    };
    let failure = nemesis.play(seed, steps).err();
    let world = nemesis.session.world();
    Run {
        seen: world.map_or(Vec::new(), World::show_all),
        lived: world.map_or(Millis(0), World::age),
        commits: world.map_or(0, |world| world.consensus.commits()),
        script: nemesis.script,
        failure,
    }
}

struct Nemesis {
    rng: Rng,
    session: Session,
    script: Vec<String>,
    images: Vec<String>,
    /// What was ever disabled, in the words of the scripts.
    disabled: Vec<String>,
}

/// What can befall a cluster. The numbers say how often, against each other.
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
    (Choice::Rest, 8),
];

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
    Rest,
}

impl Nemesis {
    fn play(&mut self, seed: u64, steps: usize) -> Result<(), CommandError> {
        self.line(format!("seed {seed}"))?;
        let nodes = *self.rng.pick(&[1, 2, 3, 3, 3, 4, 5]);
        let nodes: Vec<String> = (1..=nodes).map(|number| format!("n{number}")).collect();
        self.line(format!("nodes {}", nodes.join(" ")))?;
        for _ in 0..steps {
            if let Some(line) = self.choose() {
                self.line(line)?;
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

    /// All faults end, nothing rests any more, and every replica gets a new budget.
    fn make_peace(&mut self) -> Result<(), CommandError> {
        self.line("heal".to_owned())?;
        self.line("start all".to_owned())?;
        for host in self.hosts() {
            self.line(format!("engine {host} up"))?;
            self.line(format!("uncordon {host}"))?;
        }
        for image in self.images.clone() {
            self.line(format!("pull {image} works"))?;
            self.line(format!("image {image} works"))?;
        }
        self.line("settle".to_owned())?;
        for scope in self.disabled.clone() {
            self.line(format!("enable {scope}"))?;
        }
        for deployment in self.deployments() {
            self.line(format!("again {deployment}"))?;
        }
        self.line(format!("settle within {HEALS_WITHIN}"))?;
        self.line("expect rest".to_owned())?;
        self.line(format!("expect idle {WATCHED}"))?;
        self.line("expect rest".to_owned())
    }

    fn choose(&mut self) -> Option<String> {
        let total = CHOICES.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.rng.below(total);
        let (choice, _) = CHOICES.iter().find(|(_, weight)| {
            let hit = drawn < *weight;
            drawn = drawn.saturating_sub(*weight);
            hit
        })?;
        match choice {
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
            Choice::Rest => self.rest(),
        }
    }

    fn apply(&mut self) -> String {
        let deployment = *self.rng.pick(&DEPLOYMENTS);
        let count = self.rng.place(SERVICES.len()) + 1;
        let services: Vec<String> =
            SERVICES[..count].iter().map(|name| self.service(deployment, name)).collect();
        let begin = if self.rng.below(3) == 0 { "" } else { "begin " };
        format!("{begin}apply {deployment} {}", services.join(" + "))
    }

    fn service(&mut self, deployment: &str, name: &str) -> String {
        let image = format!("{name}:{}", self.rng.between(1, 4));
        if !self.images.contains(&image) {
            self.images.push(image.clone());
        }
        let nodes = u64::try_from(self.hosts().len()).unwrap_or(1);
        let mut text = format!("{name} image={image}");
        let mut most = 5;
        match self.rng.below(10) {
            0 => text += " placement=global",
            1 => text += " placement=pack",
            2 => {
                let hosts = self.some_hosts();
                most = u64::try_from(hosts.len()).unwrap_or(1);
                text += &format!(" placement=hosts:{}", hosts.join(","));
            }
            _ => {}
        }
        if (deployment, name) == WITH_PORT {
            text += " port=8080";
            most = most.min(nodes);
        }
        if !text.contains("global") {
            text += &format!(" replicas={}", self.rng.between(0, most));
        }
        for (key, one_in) in [
            ("health=yes", 3),
            ("data=yes", 8),
            ("parallelism=2", 8),
            ("monitor=3s", 8),
            ("pull=always", 8),
            ("timeout=20s", 6),
            ("loss=stop_self:15s", 5),
        ] {
            if self.rng.below(one_in) == 0 {
                text += &format!(" {key}");
            }
        }
        text
    }

    fn partition(&mut self) -> Option<String> {
        let hosts = self.hosts();
        let alone = self.some_hosts();
        let others: Vec<String> = hosts.into_iter().filter(|host| !alone.contains(host)).collect();
        let is_split = !others.is_empty();
        is_split.then(|| format!("partition {} | {}", alone.join(" "), others.join(" ")))
    }

    fn cut(&mut self) -> Option<String> {
        let hosts = self.hosts();
        let (from, to) = (self.pick_of(&hosts)?, self.pick_of(&hosts)?);
        (from != to).then(|| format!("cut {from} -> {to}"))
    }

    fn registry(&mut self) -> Option<String> {
        let image = self.pick_of(&self.images.clone())?;
        let how = match self.rng.below(4) {
            0 => "hangs".to_owned(),
            1 => "fails \"no such image\"".to_owned(),
            2 => format!("takes {}s", self.rng.between(1, 40)),
            _ => "works".to_owned(),
        };
        Some(format!("pull {image} {how}"))
    }

    /// Somebody pushes another image under the same name.
    fn tag(&mut self) -> Option<String> {
        let image = self.pick_of(&self.images.clone())?;
        Some(format!("pull {image} is {}", self.rng.pick(&["a", "b", "c"])))
    }

    /// People want something to rest, or not any more.
    fn rest(&mut self) -> Option<String> {
        if self.rng.below(5) < 2 {
            return self.pick_of(&self.disabled.clone()).map(|scope| format!("enable {scope}"));
        }
        let slots = self.world().checker.reference().slots.values();
        let slots: Vec<(String, String)> =
            slots.map(|slot| (slot.service.to_string(), slot.id.to_string())).collect();
        let host = self.pick_of(&self.hosts())?;
        let scope = match self.rng.below(4) {
            0 => format!("node {host}"),
            _ if slots.is_empty() => return None,
            choice => {
                let (service, id) = self.rng.pick(&slots).clone();
                match choice {
                    1 => service,
                    2 => format!("{service} on {host}"),
                    _ => format!("{service} replica {id}"),
                }
            }
        };
        self.disabled.push(scope.clone());
        Some(format!("disable {scope}"))
    }

    fn behaviour(&mut self) -> Option<String> {
        let image = self.pick_of(&self.images.clone())?;
        let length = self.rng.between(1, 15);
        let how = match self.rng.below(7) {
            0 => format!("exits 1 after {length}s"),
            1 => format!("exits 0 after {length}s"),
            2 => format!("healthy after {length}s"),
            3 => format!("unhealthy after {length}s"),
            4 => "refused \"no such device\"".to_owned(),
            5 => format!("stops in {length}s"),
            _ => "works".to_owned(),
        };
        Some(format!("image {image} {how}"))
    }

    fn harm(&mut self) -> Option<String> {
        let slots = self.world().checker.reference().slots.keys();
        let slots: Vec<String> = slots.map(ReplicaId::to_string).collect();
        let slot = self.pick_of(&slots)?;
        let how = *self.rng.pick(&["kill-container", "remove-container", "sicken", "cure"]);
        Some(format!("{how} {slot}"))
    }

    fn engine(&mut self) -> Option<String> {
        let host = self.pick_of(&self.hosts())?;
        Some(format!("engine {host} {}", self.rng.pick(&["down", "up"])))
    }

    /// As far as a clock is set by a daemon that keeps time.
    fn clock(&mut self) -> Option<String> {
        let host = self.pick_of(&self.hosts())?;
        let sign = *self.rng.pick(&["+", "-"]);
        Some(format!("clock {host} {sign}{}ms", self.rng.between(1, 2_000)))
    }

    fn join(&mut self) -> Option<String> {
        let next = self.hosts().len() + 1;
        (next <= NODES_MAX).then(|| format!("join n{next}"))
    }

    fn availability(&mut self) -> Option<String> {
        let host = self.pick_of(&self.hosts())?;
        Some(format!("{} {host}", self.rng.pick(&["cordon", "uncordon", "drain"])))
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
        self.world().machines.iter().map(|machine| machine.hostname.to_string()).collect()
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
