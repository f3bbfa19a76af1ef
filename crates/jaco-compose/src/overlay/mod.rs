//! jaco.yaml: the optional overlay over a compose file, with a closed schema.
//!
//! Reads one text into typed values and checks what can be known without the compose file. What
//! the two say together is checked by `resolve`.

mod amounts;
mod constraints;
mod loss;
mod read;
mod rules;
mod schema;
mod table;

use std::collections::BTreeMap;

use jaco_types::spec::OnNodeLoss;

use crate::facts::{
    Affinity, Bounds, Constraints, FailureAction, Order, Scoring, Selectors, Spread, Tls,
};
use crate::problem::{Problems, Report};
use crate::source::{FileId, Pos, Sources};
use crate::{parse, place, shape};

pub(crate) use amounts::{
    parse_cpu as read_cpu, parse_memory as read_memory, update as read_update,
};
pub(crate) use constraints::{Roles, constraints as read_constraints};
pub use schema::json_schema;

/// A checked jaco.yaml.
#[derive(Debug, Clone, Default)]
pub struct JacoYaml {
    /// The deployment's name.
    pub deployment: String,
    /// An env file for interpolation, as written: relative to the folder of jaco.yaml.
    pub environment: Option<String>,
    /// Which override file of reservations is read.
    pub config_selector: Option<String>,
    /// Whether certificates are ordered.
    pub acme: Acme,
    /// The contact given to the certificate authority.
    pub acme_email: Option<String>,
    /// Domains and the services behind them.
    pub routes: Vec<RouteOverlay>,
    /// Overrides by service, in the order of the file.
    pub services: Vec<ServiceOverlay>,
    /// Constraints of every service.
    pub constraints: Constraints,
    /// Constraints that have a name.
    pub(crate) roles: Roles,
    /// Spread criteria of every service.
    pub spread: Vec<Spread>,
    /// How nodes are compared.
    pub scoring: Option<Scoring>,
    /// How much the files beside the compose file may be together, in bytes.
    pub max_file_bytes: Option<u64>,
    pub(crate) sources: Sources,
}

/// Whether certificates are ordered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acme {
    /// For every route that does not say otherwise.
    #[default]
    On,
    /// For no route that does not say otherwise.
    Off,
}

/// A route as written.
#[derive(Debug, Clone)]
pub struct RouteOverlay {
    /// The host name of the request.
    pub domain: String,
    /// The service that answers.
    pub service: String,
    /// The port in the container.
    pub port: u16,
    /// TLS, after `acme` was considered.
    pub tls: Tls,
    /// A prefix of the path; empty takes every path.
    pub path: String,
    /// Whether the prefix is taken off.
    pub strip_path: bool,
    pub(crate) pos: Pos,
}

/// The overrides of one service. What is `None` was not written.
#[derive(Debug, Clone, Default)]
pub struct ServiceOverlay {
    /// The service of the compose file.
    pub name: String,
    /// How many replicas.
    pub replicas: Option<u32>,
    /// How nodes are chosen.
    pub placement: Option<PlacementKind>,
    /// The hosts of `placement: hosts`.
    pub hosts: Vec<String>,
    /// Replaces the networks of the compose file.
    pub networks: Option<Vec<String>>,
    /// Spread criteria.
    pub spread: Vec<Spread>,
    /// What nodes must have.
    pub constraints: Constraints,
    /// What nodes should have.
    pub affinities: Vec<Affinity>,
    /// Labels a node must all have.
    pub selectors: Selectors,
    /// Bounds of the reservation.
    pub bounds: Bounds,
    /// How a rollout goes.
    pub update: UpdateOverlay,
    /// How a failed rollout goes back.
    pub rollback: Option<UpdateOverlay>,
    /// What becomes of replicas whose node is lost; the time to stop is the compose file's to say.
    pub on_node_loss: Option<OnNodeLoss>,
    /// The fewest replicas an apply accepts.
    pub min_allocations: Option<u32>,
    /// How nodes are compared.
    pub scoring: Option<Scoring>,
    pub(crate) places: BTreeMap<&'static str, Pos>,
    pub(crate) pos: Pos,
}

impl ServiceOverlay {
    /// Where `key` was written, or the entry if it was not.
    pub(crate) fn place(&self, key: &str) -> Pos {
        self.places.get(key).copied().unwrap_or(self.pos)
    }
}

/// The words of `placement:`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementKind {
    /// Evenly over the eligible nodes.
    Spread,
    /// One node after another.
    Pack,
    /// Only the listed hosts.
    Hosts,
    /// One replica on each eligible node.
    Global,
}

/// Parts of an update policy; what is `None` was not written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateOverlay {
    /// How many replicas one step replaces.
    pub parallelism: Option<u32>,
    /// Waited between steps, in nanoseconds.
    pub delay_nanos: Option<u64>,
    /// How long a new replica is watched, in nanoseconds.
    pub monitor_nanos: Option<u64>,
    /// How long a step may take, in nanoseconds.
    pub step_timeout_nanos: Option<u64>,
    /// Which share of steps may fail, in thousandths.
    pub max_failure_permille: Option<u32>,
    /// What a failed step leads to.
    pub failure_action: Option<FailureAction>,
    /// What comes first.
    pub order: Option<Order>,
}

impl JacoYaml {
    /// Reads and checks a jaco.yaml; `name` is the file's name in messages.
    ///
    /// # Errors
    ///
    /// Every problem of the file.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, Problems> {
        let mut report = Report::default();
        let mut sources = Sources::default();
        let file = sources.add(name, "".into());
        let overlay = read_text(bytes, file, &mut sources, &mut report);
        match overlay {
            Some(mut overlay) if !report.has_errors() => {
                overlay.sources = sources;
                Ok(overlay)
            }
            Some(_) | None => Err(report.finish(&sources)),
        }
    }

    /// The overrides of `service`.
    #[must_use]
    pub fn service(&self, service: &str) -> Option<&ServiceOverlay> {
        self.services.iter().find(|overlay| overlay.name == service)
    }
}

fn read_text(
    bytes: &[u8],
    file: FileId,
    sources: &mut Sources,
    report: &mut Report,
) -> Option<JacoYaml> {
    let text = parse::decode(bytes, file, report)?;
    sources.set_text(file, text.into());
    let mut documents = parse::parse(text, file, report)?;
    if documents.len() != 1 {
        let message = if documents.is_empty() {
            "jaco.yaml is empty"
        } else {
            "jaco.yaml holds more than one document"
        };
        report
            .error(Pos::start_of(file), crate::Code::EmptyDocument, message)
            .suggest("write `deployment: NAME`");
        return None;
    }
    let mut root = documents.remove(0);
    let mut ports = 0;
    let mut checker =
        shape::Checker { what: "jaco.yaml", report, ports: &mut ports, dir: ".", home: None };
    checker.apply(&schema::FILE, &mut root, place::Path::root(""));
    read::overlay(&root, report)
}
