//! What users ask for.

use super::{JOB_IMAGES, Nemesis, Style};

const DEPLOYMENTS: [&str; 3] = ["blog", "shop", "wiki"];
const SERVICES: [&str; 2] = ["db", "web"];

/// The service that takes a port of its host: always the same one, and never more replicas than
/// nodes, so that everything can be placed once there is peace.
const WITH_PORT: (&str, &str) = ("wiki", "web");
/// The service of which each replica has a GPU, likewise.
const WITH_GPU: (&str, &str) = ("shop", "db");
/// The service of which a node has two replicas at most, likewise.
const WITH_LIMIT: (&str, &str) = ("shop", "web");

/// Keys that leave every replica a place, with how seldom they are used.
const HARMLESS: [(&str, u64); 11] = [
    ("order=stop-first", 5),
    ("delay=2s", 8),
    ("back=pause", 10),
    ("loss=replace:5s", 8),
    ("loss=wait", 12),
    ("prefer=a", 8),
    ("prefer=b", 8),
    ("over=zone", 8),
    ("scoring=nomad", 8),
    ("cpu=300", 6),
    ("memory=500", 8),
];

impl Nemesis {
    pub(super) fn apply(&mut self) -> String {
        let deployment = *self.rng.pick(&DEPLOYMENTS);
        let count = self.rng.place(SERVICES.len()) + 1;
        let services: Vec<String> =
            SERVICES[..count].iter().map(|name| self.service(deployment, name)).collect();
        let services = match self.style {
            Style::Plain => services,
            Style::Harsh | Style::Swarm => self.with_job(services),
        };
        let mut services = services;
        self.schedules.attach(&mut services, &JOB_IMAGES);
        for service in &mut services {
            self.networks.attach(service);
        }
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
            // Without GPUs a global service waits for its node, and rightly so.
            0 if self.has_gpus(deployment, name) => {}
            0 => text += " placement=global",
            1 => text += " placement=pack",
            2 if self.has_gpus(deployment, name) => {}
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
        if self.has_gpus(deployment, name) && !text.contains("global") {
            text += " gpus=1";
            most = most.min(self.gpu_nodes);
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
            if self.rng.below(one_in) == 0 && self.swarm.has(key) {
                text += &format!(" {key}");
            }
        }
        if self.style.is_harsh() {
            self.add_harsh_keys(&mut text, deployment, name);
        }
        text
    }

    /// Whether the replicas of a service have GPUs in this run.
    fn has_gpus(&self, deployment: &str, name: &str) -> bool {
        (deployment, name) == WITH_GPU && self.gpu_nodes > 0
    }

    /// Everything that a service can ask for and that leaves its replicas a place.
    fn add_harsh_keys(&mut self, text: &mut String, deployment: &str, name: &str) {
        for (key, one_in) in HARMLESS {
            let (kind, _) = key.split_once('=').unwrap_or((key, ""));
            let is_said = text.contains(&format!(" {kind}="));
            if self.rng.below(one_in) == 0 && self.swarm.has(key) && !is_said {
                *text += &format!(" {key}");
            }
        }
        let is_free = ![WITH_PORT, WITH_GPU].contains(&(deployment, name));
        let is_anywhere = is_free && !text.contains("placement=hosts");
        if (deployment, name) == WITH_LIMIT && is_anywhere && !text.contains("replicas=5") {
            *text += " max=2";
        } else if is_anywhere && self.rng.below(8) == 0 {
            *text += &format!(" zone={}", self.rng.pick(&["a", "b"]));
        } else if name == "web" && is_anywhere && !text.contains("global") {
            match self.rng.below(8) {
                0 => *text += " with=db",
                1 => *text += " beside=db",
                2 => *text += " after=db",
                3 => *text += " after=db:healthy",
                _ => {}
            }
        }
    }

    /// Those that go with `db` need one. One in six deployments runs a job first.
    fn with_job(&mut self, mut services: Vec<String>) -> Vec<String> {
        let [db, rest @ ..] = services.as_mut_slice() else { return services };
        if rest.is_empty() {
            return services;
        }
        if rest.iter().any(|service| service.contains("=db")) {
            *db = db.replace("replicas=0", "replicas=1");
        }
        if self.rng.below(6) != 0
            || !self.swarm.has("job")
            || rest.iter().any(|service| service.contains(" after="))
        {
            return services;
        }
        let image = self.rng.pick(&JOB_IMAGES);
        for service in rest {
            *service += " after=job:done";
        }
        let kind =
            self.rng.pick(&["", " mode=job", " restart=no", " mode=job restart=on-failure:2"]);
        services.push(format!("job image={image}{kind}"));
        services
    }

    /// Another number of replicas, and nothing else.
    pub(super) fn scale(&mut self) -> Option<String> {
        let services = self.session.scalable();
        let service = self.pick_of(&services)?;
        let (deployment, name) = service.split_once('/')?;
        let most = match (deployment, name) {
            WITH_PORT => 3,
            WITH_GPU => self.gpu_nodes.max(1),
            _ => 4,
        };
        let fewest = u64::from(name == "db");
        Some(format!("change {deployment} {name} replicas={}", self.rng.between(fewest, most)))
    }
}
