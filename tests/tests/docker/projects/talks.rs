//! Who talks to whom in public projects, as their compose files have it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::stand_in::Behaviour;

/// A project.
pub(super) struct Project {
    /// Its compose file in the corpus.
    pub(super) file: &'static str,
    /// Where its images listen, by service.
    pub(super) listens: &'static [(&'static str, &'static [u16])],
    /// What its services connect to, as `name:port`. Where the file says nothing, because the names are in the programs
    /// of the images, these are the names that the programs use.
    pub(super) talks: &'static [(&'static str, &'static [&'static str])],
}

const LANGFUSE: &[&str] =
    &["postgres:5432", "minio:9000", "redis:6379", "clickhouse:8123", "clickhouse:9000"];

pub(super) const PROJECTS: [Project; 5] = [
    // One named network, conditions, and addresses in anchors.
    Project {
        file: "penpot__penpot/docker/images/docker-compose.yaml",
        listens: &[
            ("penpot-frontend", &[8080]),
            ("penpot-backend", &[6060]),
            ("penpot-mcp", &[4401]),
            ("penpot-exporter", &[6061]),
            ("penpot-postgres", &[5432]),
            ("penpot-valkey", &[6379]),
            ("penpot-mailcatch", &[1025, 1080]),
        ],
        talks: &[
            (
                "penpot-frontend",
                &["penpot-backend:6060", "penpot-exporter:6061", "penpot-mcp:4401"],
            ),
            (
                "penpot-backend",
                &["penpot-postgres:5432", "penpot-valkey:6379", "penpot-mailcatch:1025"],
            ),
            ("penpot-exporter", &["penpot-valkey:6379", "penpot-frontend:8080"]),
        ],
    },
    // The network that is there without being named, ports on loopback, and commands of shells.
    Project {
        file: "langfuse__langfuse/docker-compose.yml",
        listens: &[
            ("langfuse-worker", &[3030]),
            ("langfuse-web", &[3000]),
            ("clickhouse", &[8123, 9000]),
            ("minio", &[9000, 9001]),
            ("redis", &[6379]),
            ("postgres", &[5432]),
        ],
        talks: &[("langfuse-worker", LANGFUSE), ("langfuse-web", LANGFUSE)],
    },
    // A network and aliases with dots in their names.
    Project {
        file: "coollabsio__coolify/templates/compose/jitsi.yaml",
        listens: &[
            ("jitsi-web", &[80]),
            ("prosody", &[5222, 5280, 5347]),
            ("jicofo", &[8888]),
            ("jvb", &[8080]),
        ],
        talks: &[
            (
                "jitsi-web",
                &[
                    "prosody:5280",
                    "jicofo:8888",
                    "jvb:8080",
                    "auth.meet.jitsi:5222",
                    "guest.meet.jitsi:5222",
                ],
            ),
            ("prosody", &["meet.jitsi:80"]),
            (
                "jicofo",
                &["prosody:5222", "xmpp.meet.jitsi:5222", "auth.meet.jitsi:5222", "meet.jitsi:80"],
            ),
            (
                "jvb",
                &["prosody:5222", "xmpp.meet.jitsi:5222", "auth.meet.jitsi:5222", "meet.jitsi:80"],
            ),
        ],
    },
    // A stack of Swarm's: two networks that only the worker is in both of, replicas.
    Project {
        file: "dockersamples__example-voting-app/docker-stack.yml",
        listens: &[
            ("redis", &[6379]),
            ("db", &[5432]),
            ("vote", &[80]),
            ("result", &[80]),
            ("worker", &[]),
        ],
        talks: &[
            ("vote", &["redis:6379"]),
            ("result", &["db:5432"]),
            ("worker", &["redis:6379", "db:5432"]),
        ],
    },
    // Two networks that only the application is in both of.
    Project {
        file: "docker__awesome-compose/nextcloud-redis-mariadb/compose.yaml",
        listens: &[("nc", &[80]), ("redis", &[6379]), ("db", &[3306])],
        talks: &[("nc", &["redis:6379", "db:3306"])],
    },
];

impl Project {
    /// What a service connects to.
    pub(super) fn talks_of(&self, service: &str) -> &'static [&'static str] {
        self.talks.iter().find(|(from, _)| *from == service).map_or(&[], |(_, places)| places)
    }

    /// Where a service listens.
    pub(super) fn ports_of(&self, service: &str) -> &'static [u16] {
        let found = self.listens.iter().find(|(name, _)| *name == service);
        found.unwrap_or_else(|| panic!("{}: where {service} listens is not known", self.file)).1
    }

    /// The images of the project, and what they do. One whose service waits for others to be healthy needs them.
    pub(super) fn images(&self, model: &Value) -> BTreeMap<String, Behaviour> {
        let behaviour = |name: &str, service: &Value| {
            let healthy = |host: &str| {
                service["depends_on"][host]["condition"].as_str() == Some("service_healthy")
            };
            let places = self.talks_of(name).iter();
            let needs = places.filter(|place| healthy(host_of(place)));
            Behaviour {
                ports: self.ports_of(name).to_vec(),
                needs: needs.map(|place| (*place).to_owned()).collect(),
            }
        };
        let image = |service: &Value| service["image"].as_str().expect("it has one").to_owned();
        let services = members(&model["services"]);
        services.map(|(name, service)| (image(service), behaviour(name, service))).collect()
    }

    /// What the file makes a service connect to and the table does not have.
    pub(super) fn left_out(&self, model: &Value) -> Vec<String> {
        let names = names(model);
        let mut left_out = Vec::new();
        for (from, service) in members(&model["services"]) {
            let talks = self.talks_of(from);
            for place in mentioned(service, &names) {
                let host = host_of(&place);
                let is_there = match place == host {
                    true => talks.iter().any(|known| host_of(known) == host),
                    false => talks.contains(&place.as_str()),
                };
                if names[host] != *from && !is_there {
                    left_out.push(format!("{}: {from} to {place}", self.file));
                }
            }
        }
        left_out
    }
}

/// The name in `name:port`.
pub(super) fn host_of(place: &str) -> &str {
    place.split(':').next().unwrap_or(place)
}

/// The names of a project and the service that each leads to.
pub(super) fn names(model: &Value) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (name, service) in members(&model["services"]) {
        names.insert(name.clone(), name.clone());
        for (_, attached) in members(&service["networks"]) {
            let aliases = attached["aliases"].as_array().into_iter().flatten();
            let aliases = aliases.filter_map(Value::as_str);
            names.extend(aliases.map(|alias| (alias.to_owned(), name.clone())));
        }
    }
    names
}

/// Whether two services of a project have a network in common.
pub(super) fn share_a_network(model: &Value, one: &str, other: &str) -> bool {
    let of = |service: &str| -> BTreeSet<&String> {
        members(&model["services"][service]["networks"]).map(|(network, _)| network).collect()
    };
    !of(one).is_disjoint(&of(other))
}

/// The names of the project in the values of a service, with their ports where these follow.
fn mentioned(service: &Value, names: &BTreeMap<String, String>) -> BTreeSet<String> {
    let values = members(&service["environment"]).filter_map(|(_, value)| value.as_str());
    let links = service["links"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let depends = members(&service["depends_on"]).map(|(name, _)| name.as_str());
    let texts: Vec<&str> = values.chain(links).chain(depends).collect();
    let found = texts.iter().flat_map(|text| names.keys().flat_map(|name| places(text, name)));
    found.collect()
}

/// Each `name` or `name:port` in a text.
fn places<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = String> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    text.match_indices(name).filter_map(move |(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        if before.ends_with(of_name) || after.starts_with(of_name) {
            return None;
        }
        let digits = after.strip_prefix(':').unwrap_or_default();
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        Some(match &digits[..end] {
            "" => name.to_owned(),
            port => format!("{name}:{port}"),
        })
    })
}

pub(super) fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// What is not in the table is found.
#[test]
fn a_connection_that_the_table_lacks_is_found() {
    let model = serde_json::json!({"services": {
        "web": {"environment": {"A": "postgres://db:x@db:5432/db", "B": "db-1 mydb", "C": "amq"}},
        "db": {"networks": {"default": {"aliases": ["amq", "data.base"]}}},
        "job": {"environment": {"D": "tcp://data.base:7"}, "links": ["web"], "depends_on": {"db": {}}},
    }});
    let project = Project {
        file: "f",
        listens: &[],
        talks: &[("web", &["db:5432", "amq:1"]), ("job", &["web:1", "data.base:8"])],
    };
    let wanted = ["f: job to data.base:7", "f: job to db"];
    assert_eq!(project.left_out(&model), wanted);
}
