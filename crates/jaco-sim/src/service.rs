//! Services as scripts write them: `web image=web:1 replicas=3 placement=spread`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use jaco_types::demand::{Demand, canonical_key};
use jaco_types::spec::{
    Affinity, Attachment, Concurrency, Constraint, Cron, Dependency, DependencyCondition,
    DependencyRequirement, Healthcheck, HistoryLimit, HostPort, NetworkRef, NetworkSpec,
    OnNodeLoss, Operator, Placement, Protocol, PullPolicy, RestartPolicy, RollbackFailureAction,
    RollbackPolicy, Schedule, SchedulingPolicy, Scoring, ServiceMode, ServiceSpec, SpreadCriterion,
    Storage, UpdateOrder, UpdatePolicy, ZoneName,
};
use jaco_types::unit::{Bytes, MilliCores, Resources};
use jaco_types::{
    GpuChoice, GpuDemand, Hostname, InvalidName, Millis, NetworkName, NetworkReach, ServiceName,
    SpecHash,
};
use sha2::{Digest, Sha256};

/// The driver of all simulated GPUs.
pub(crate) const GPU_DRIVER: &str = "nvidia";

/// The schedule of a job that has none.
const UNSCHEDULED: &str = "none";

/// A service in the words of a script: its name, and its keys with their values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceText {
    pub(crate) name: ServiceName,
    keys: BTreeMap<String, String>,
}

/// Why a service cannot be understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("a service needs a name")]
    Nameless,
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error("{0:?} is not <key>=<value>")]
    NotAKey(String),
    #[error("no service has a key {0:?}")]
    UnknownKey(String),
    #[error("{key}={value} is not {wanted}")]
    Value { key: String, value: String, wanted: &'static str },
}

/// All keys. Those marked are part of the container, so that a change of them is rolled out.
const KEYS: [(&str, Part); 35] = [
    ("image", Part::Container),
    ("replicas", Part::Service),
    ("placement", Part::Service),
    ("port", Part::Container),
    ("env", Part::Container),
    ("health", Part::Container),
    ("pull", Part::Service),
    ("grace", Part::Container),
    ("after", Part::Service),
    ("data", Part::Container),
    ("cpu", Part::Service),
    ("memory", Part::Service),
    ("parallelism", Part::Service),
    ("order", Part::Service),
    ("timeout", Part::Service),
    ("monitor", Part::Service),
    ("delay", Part::Service),
    ("back", Part::Service),
    ("label", Part::Container),
    ("loss", Part::Service),
    ("max", Part::Service),
    ("with", Part::Service),
    ("beside", Part::Service),
    ("gpus", Part::Service),
    ("zone", Part::Service),
    ("prefer", Part::Service),
    ("over", Part::Service),
    ("scoring", Part::Service),
    ("needs", Part::Service),
    ("restart", Part::Service),
    ("mode", Part::Service),
    ("schedule", Part::Service),
    ("concurrency", Part::Service),
    ("deadline", Part::Service),
    ("net", Part::Container),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Container,
    Service,
}

impl ServiceText {
    /// Reads `name key=value …`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, ServiceError> {
        let (name, keys) = words.split_first().ok_or(ServiceError::Nameless)?;
        let mut text = Self { name: ServiceName::new(name)?, keys: BTreeMap::new() };
        for word in keys {
            let pair = word.split_once('=');
            let (key, value) = pair.ok_or_else(|| ServiceError::NotAKey((*word).to_owned()))?;
            if !KEYS.iter().any(|(known, _)| *known == key) {
                return Err(ServiceError::UnknownKey(key.to_owned()));
            }
            text.keys.insert(key.to_owned(), value.to_owned());
        }
        Ok(text)
    }

    /// The same service with the keys of `other` on top.
    pub(crate) fn overlaid(&self, other: &Self) -> Self {
        let mut text = self.clone();
        text.keys.extend(other.keys.clone());
        text
    }

    /// Whether it can have any number of replicas.
    pub(crate) fn is_scalable(&self) -> bool {
        let placement = self.keys.get("placement").map_or("spread", String::as_str);
        matches!(placement, "spread" | "pack") && self.name.as_str() != "job"
    }

    /// Whether it is a job that runs on a schedule.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.keys.get("schedule").is_some_and(|minutes| minutes != UNSCHEDULED)
    }

    /// The image, where one is named.
    pub(crate) fn image(&self) -> String {
        let image = self.keys.get("image").cloned();
        image.unwrap_or_else(|| format!("{}:1", self.name))
    }

    /// What the cluster is asked for.
    pub(crate) fn spec(&self) -> Result<ServiceSpec, ServiceError> {
        let container = self.container();
        let hash = SpecHash(Sha256::digest(container.as_bytes()).into());
        let storage =
            if self.keys.contains_key("data") { Storage::Stateful } else { Storage::Stateless };
        let healthcheck = match self.keys.contains_key("health") {
            true => Healthcheck::Declared,
            false => Healthcheck::None,
        };
        Ok(ServiceSpec {
            name: self.name.clone(),
            image: self.image().into(),
            pull: self.pull()?,
            placement: self.placement()?,
            replicas: self.number("replicas", 1)?,
            host_ports: self.host_ports()?,
            ingress_ports: std::collections::BTreeSet::new(),
            resolvers: Vec::new(),
            restart: self.restart()?,
            mode: self.mode()?,
            schedule: self.schedule()?,
            depends_on: self.depends_on()?,
            reservation: Resources {
                cpu: MilliCores(self.number("cpu", 0)?),
                memory: Bytes(self.number("memory", 0)?),
            },
            limit: Resources::default(),
            gpus: self.gpus()?,
            volumes: Vec::new(),
            storage,
            healthcheck,
            update: self.update()?,
            scheduling: self.scheduling()?,
            on_node_loss: self.on_node_loss()?,
            networks: self.attachments()?,
            drain: None,
            container: container.into(),
            hash,
        })
    }

    /// The same service in a cluster whose networks are those of each node.
    pub(crate) fn without_networks(&self) -> Self {
        let mut text = self.clone();
        text.keys.remove("net");
        text
    }

    /// Its own networks, with the prefix lengths that they ask for: `net=default,back:26`.
    pub(crate) fn networks(&self) -> Result<Vec<(NetworkName, NetworkSpec)>, ServiceError> {
        let own = self.network_words().filter(|word| !word.starts_with('@'));
        let networks = own.map(|word| {
            let (key, length) = word.split_once(':').unwrap_or((word, ""));
            let length = match length {
                "" => None,
                length => Some(length.parse().map_err(|_| self.wrong("net", "<key>:<length>"))?),
            };
            Ok((NetworkName::new(key)?, NetworkSpec { reach: NetworkReach::Outside, length }))
        });
        networks.collect()
    }

    fn attachments(&self) -> Result<Vec<Attachment>, ServiceError> {
        let attachments = self.network_words().map(|word| {
            let network = match word.strip_prefix('@') {
                Some(name) => NetworkRef::Shared(NetworkName::new(name)?),
                None => {
                    let (key, _) = word.split_once(':').unwrap_or((word, ""));
                    NetworkRef::Own(NetworkName::new(key)?)
                }
            };
            Ok(Attachment { network, aliases: Vec::new() })
        });
        attachments.collect()
    }

    fn network_words(&self) -> impl Iterator<Item = &str> {
        self.keys.get("net").into_iter().flat_map(|words| words.split(','))
    }

    fn container(&self) -> String {
        let own = KEYS.iter().filter(|(_, part)| *part == Part::Container);
        let mut fields = vec![format!(r#""image":"{}""#, self.image())];
        for (key, _) in own {
            let Some(value) = self.keys.get(*key) else { continue };
            match *key {
                "image" => {}
                "health" => fields.push(r#""healthcheck":{"test":["CMD","true"]}"#.to_owned()),
                "grace" => fields.push(format!(r#""stop_grace_period":"{value}""#)),
                key => fields.push(format!(r#""x-{key}":"{value}""#)),
            }
        }
        format!(r#"{{"service":{{{}}}}}"#, fields.join(","))
    }

    fn placement(&self) -> Result<Placement, ServiceError> {
        let Some(value) = self.keys.get("placement") else { return Ok(Placement::Spread) };
        match value.as_str() {
            "spread" => Ok(Placement::Spread),
            "pack" => Ok(Placement::Pack),
            "global" => Ok(Placement::Global),
            other => match other.strip_prefix("hosts:") {
                Some(hosts) => {
                    let hosts = hosts.split(',').map(Hostname::new);
                    Ok(Placement::Hosts(hosts.collect::<Result<_, _>>()?))
                }
                None => Err(self.wrong("placement", "spread, pack, global or hosts:<a>,<b>")),
            },
        }
    }

    fn pull(&self) -> Result<PullPolicy, ServiceError> {
        match self.keys.get("pull").map(String::as_str) {
            None | Some("missing") => Ok(PullPolicy::Missing),
            Some("always") => Ok(PullPolicy::Always),
            Some("never") => Ok(PullPolicy::Never),
            Some(_) => Err(self.wrong("pull", "always, missing or never")),
        }
    }

    fn host_ports(&self) -> Result<Vec<HostPort>, ServiceError> {
        if !self.keys.contains_key("port") {
            return Ok(Vec::new());
        }
        Ok(vec![HostPort { port: self.number("port", 0)?, protocol: Protocol::Tcp }])
    }

    fn depends_on(&self) -> Result<Vec<Dependency>, ServiceError> {
        let Some(value) = self.keys.get("after") else { return Ok(Vec::new()) };
        let (service, condition) = value.split_once(':').unwrap_or((value, "started"));
        let condition = match condition {
            "started" => DependencyCondition::Started,
            "healthy" => DependencyCondition::Healthy,
            "done" => DependencyCondition::CompletedSuccessfully,
            _ => return Err(self.wrong("after", "<service>:started, :healthy or :done")),
        };
        let service = ServiceName::new(service)?;
        Ok(vec![Dependency { service, condition, required: DependencyRequirement::Required }])
    }

    fn restart(&self) -> Result<RestartPolicy, ServiceError> {
        let Some(value) = self.keys.get("restart") else { return Ok(RestartPolicy::default()) };
        match value.split_once(':').unwrap_or((value, "")) {
            ("always", "") => Ok(RestartPolicy::Always),
            ("no", "") => Ok(RestartPolicy::Never),
            ("on-failure", "") => Ok(RestartPolicy::OnFailure { retries: None }),
            ("on-failure", retries) => match retries.parse() {
                Ok(retries) => Ok(RestartPolicy::OnFailure { retries: Some(retries) }),
                Err(_) => Err(self.wrong("restart", "on-failure:<retries>")),
            },
            _ => Err(self.wrong("restart", "always, no, on-failure or on-failure:<retries>")),
        }
    }

    fn mode(&self) -> Result<ServiceMode, ServiceError> {
        match self.keys.get("mode").map(String::as_str) {
            None | Some("service") => Ok(ServiceMode::Service),
            Some("job") => Ok(ServiceMode::Job),
            Some(_) => Err(self.wrong("mode", "service or job")),
        }
    }

    /// The minutes of each hour: `schedule=*/2`, or `schedule=none`, which a change can say.
    fn schedule(&self) -> Result<Option<Schedule>, ServiceError> {
        if !self.is_scheduled() {
            return Ok(None);
        }
        let minutes = self.keys.get("schedule").map_or("", String::as_str);
        let concurrency = match self.keys.get("concurrency").map(String::as_str) {
            None | Some("forbid") => Concurrency::Forbid,
            Some("replace") => Concurrency::Replace,
            Some(_) => return Err(self.wrong("concurrency", "forbid or replace")),
        };
        let deadline = match self.keys.contains_key("deadline") {
            true => Some(self.millis("deadline", Millis(0))?),
            false => None,
        };
        Ok(Some(Schedule {
            cron: Cron::parse(&format!("{minutes} * * * *"))?,
            time_zone: ZoneName::new("UTC")?,
            concurrency,
            deadline,
            history: HistoryLimit::DEFAULT,
        }))
    }

    fn update(&self) -> Result<UpdatePolicy, ServiceError> {
        let usual = UpdatePolicy::default();
        let order = match self.keys.get("order").map(String::as_str) {
            None | Some("start-first") => UpdateOrder::StartFirst,
            Some("stop-first") => UpdateOrder::StopFirst,
            Some(_) => return Err(self.wrong("order", "start-first or stop-first")),
        };
        let failure_action = match self.keys.get("back").map(String::as_str) {
            None | Some("continue") => RollbackFailureAction::Continue,
            Some("pause") => RollbackFailureAction::Pause,
            Some(_) => return Err(self.wrong("back", "continue or pause")),
        };
        let monitor = match self.keys.contains_key("monitor") {
            true => Some(self.millis("monitor", Millis(0))?),
            false => None,
        };
        Ok(UpdatePolicy {
            parallelism: self.number("parallelism", usual.parallelism)?,
            order,
            step_timeout: self.millis("timeout", usual.step_timeout)?,
            monitor,
            delay: self.millis("delay", usual.delay)?,
            rollback: RollbackPolicy { failure_action, ..usual.rollback },
            ..usual
        })
    }

    fn on_node_loss(&self) -> Result<OnNodeLoss, ServiceError> {
        let Some(value) = self.keys.get("loss") else { return Ok(OnNodeLoss::default()) };
        let (kind, after) = value.split_once(':').unwrap_or((value, ""));
        match (kind, parse_millis(after)) {
            ("wait", None) => Ok(OnNodeLoss::Wait),
            ("replace", Some(after)) => Ok(OnNodeLoss::Replace { after }),
            ("stop_self", Some(after)) => {
                let grace = self.millis("grace", Millis::from_secs(10))?;
                Ok(OnNodeLoss::StopSelf { after, grace })
            }
            _ => Err(self.wrong("loss", "wait, replace:<time> or stop_self:<time>")),
        }
    }

    fn scheduling(&self) -> Result<SchedulingPolicy, ServiceError> {
        let names = |key| -> Result<BTreeSet<ServiceName>, ServiceError> {
            Ok(self
                .keys
                .get(key)
                .map(|name| ServiceName::new(name))
                .transpose()?
                .into_iter()
                .collect())
        };
        let in_zone = |key| {
            let zone = self.keys.get(key).filter(|zone| *zone != "any");
            zone.map(|zone| Constraint {
                attribute: "node.zone".to_owned(),
                operator: Operator::Equal,
                value: zone.clone(),
            })
        };
        let preferred = in_zone("prefer").map(|constraint| Affinity { constraint, weight: 50 });
        let over = self.keys.get("over").map(|attribute| SpreadCriterion {
            attribute: format!("node.{attribute}"),
            weight: 50,
            targets: Vec::new(),
        });
        let scoring = match self.keys.get("scoring").map(String::as_str) {
            None | Some("jaco") => Scoring::Jaco,
            Some("nomad") => Scoring::Nomad,
            Some(_) => return Err(self.wrong("scoring", "jaco or nomad")),
        };
        let needs = self.needs()?;
        Ok(SchedulingPolicy {
            constraints: in_zone("zone").into_iter().chain(needs.constraints).collect(),
            minimum: needs.minimum,
            own_keys: needs.own_keys,
            affinities: preferred.into_iter().collect(),
            spread: over.into_iter().collect(),
            max_per_node: NonZeroU32::new(self.number("max", 0)?),
            place_with: names("with")?,
            shares_namespaces_with: names("beside")?,
            scoring,
            ..SchedulingPolicy::default()
        })
    }

    /// Constraints as pairs: `needs=cpu=max+zone=0`.
    fn needs(&self) -> Result<SchedulingPolicy, ServiceError> {
        let mut policy = SchedulingPolicy::default();
        let pairs = self.keys.get("needs").into_iter().flat_map(|pairs| pairs.split('+'));
        for (key, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            match Demand::parse(key, value) {
                Ok(Demand::Cpu(cpu)) => policy.minimum.cpu = cpu,
                Ok(Demand::Memory(memory)) => policy.minimum.memory = memory,
                Ok(Demand::Rules(rules)) => policy.constraints.extend(rules),
                Ok(Demand::Nothing) => {}
                Ok(Demand::MaxPerNode(_) | Demand::PlaceWith(_) | Demand::ScaleWith(_))
                | Err(_) => return Err(self.wrong("needs", "pairs with keys that have no other")),
            }
            policy.own_keys.insert(canonical_key(key).to_owned());
        }
        Ok(policy)
    }

    fn gpus(&self) -> Result<Option<GpuDemand>, ServiceError> {
        let count = NonZeroU32::new(self.number("gpus", 0)?);
        let demand =
            |count| GpuDemand { driver: GPU_DRIVER.to_owned(), choice: GpuChoice::Count(count) };
        Ok(count.map(demand))
    }

    fn number<T: std::str::FromStr>(&self, key: &str, usual: T) -> Result<T, ServiceError> {
        match self.keys.get(key) {
            Some(value) => value.parse().map_err(|_| self.wrong(key, "a number in range")),
            None => Ok(usual),
        }
    }

    fn millis(&self, key: &str, usual: Millis) -> Result<Millis, ServiceError> {
        match self.keys.get(key) {
            Some(value) => {
                parse_millis(value).ok_or_else(|| self.wrong(key, "a time like 5s or 50ms"))
            }
            None => Ok(usual),
        }
    }

    fn wrong(&self, key: &str, wanted: &'static str) -> ServiceError {
        let value = self.keys.get(key).cloned().unwrap_or_default();
        ServiceError::Value { key: key.to_owned(), value, wanted }
    }
}

/// `5s`, `50ms`, `2m`, `1h`.
pub(crate) fn parse_millis(text: &str) -> Option<Millis> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Millis(number.checked_mul(unit)?))
}
