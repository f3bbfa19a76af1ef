//! A jaco.yaml as typed values.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::route::{DrainTime, Route, RouteKey};
use jaco_types::spec::{
    Affinity, FailureAction, OnNodeLoss, Placement, Schedule, Scoring, SpreadCriterion, UpdateOrder,
};
use jaco_types::unit::Bytes;
use jaco_types::{Millis, VolumeClass};

use crate::diagnostics::problem::Problems;
use crate::diagnostics::source::{Pos, Sources};
use crate::facts::{Bounds, Constraints};
use crate::overlay::roles::Roles;

/// A checked jaco.yaml.
#[derive(Debug, Clone, Default)]
pub struct JacoYaml {
    /// The deployment's name; without it the deployment is named as without a jaco.yaml.
    pub deployment: Option<String>,
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
    pub spread: Vec<SpreadCriterion>,
    /// Where `spread` was written.
    pub(crate) spread_pos: Pos,
    /// How nodes are compared.
    pub scoring: Option<Scoring>,
    /// How much the files beside the compose file may be together, in bytes.
    pub max_file_bytes: Option<u64>,
    /// Classes and sizes of volumes, in the order of the file.
    pub volumes: Vec<VolumeOverlay>,
    /// Problems that do not stop the load.
    pub(crate) warnings: Problems,
    pub(crate) sources: Sources,
}

/// Whether certificates are ordered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Acme {
    /// For every route without `tls`.
    #[default]
    On,
    /// For no route without `tls`.
    Off,
}

/// Labels that a node must all carry, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Selectors {
    /// No label is required.
    #[default]
    Any,
    /// All of these labels.
    All(BTreeSet<String>),
    /// The service's own name as a label.
    Auto,
}

/// A route as written. Whether its service exists is not known here.
#[derive(Debug, Clone)]
pub struct RouteOverlay {
    /// The requests that it is for.
    pub key: RouteKey,
    /// What is done with them, after `acme` was considered.
    pub route: Route,
    pub(crate) pos: Pos,
}

/// What is said of a volume of the compose file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeOverlay {
    /// Its name in the compose file.
    pub name: String,
    /// Which storage of the nodes it is on.
    pub class: VolumeClass,
    /// What it counts for in the capacity of the class; zero counts nothing.
    pub size: Bytes,
    pub(crate) class_pos: Pos,
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
    pub placement: Option<Placement>,
    /// Replaces the networks of the compose file.
    pub networks: Option<Vec<String>>,
    /// Spread criteria.
    pub spread: Vec<SpreadCriterion>,
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
    /// What happens to replicas of a lost node, without the grace period, which is in the compose file.
    pub on_node_loss: Option<OnNodeLoss>,
    /// How long requests that a replica has got may go on once it leaves the endpoints.
    pub drain: Option<DrainTime>,
    /// When the job is run.
    pub schedule: Option<Schedule>,
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

/// Parts of an update policy; what is `None` was not written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UpdateOverlay {
    /// How many replicas one step replaces.
    pub parallelism: Option<u32>,
    /// The time between two steps.
    pub delay: Option<Millis>,
    /// How long a new replica is monitored for failure.
    pub monitor: Option<Millis>,
    /// How long a step may take.
    pub step_timeout: Option<Millis>,
    /// The share of steps that may fail, in thousandths.
    pub max_failure_permille: Option<u32>,
    /// What happens when more steps fail.
    pub failure_action: Option<FailureAction>,
    /// Whether the new or the old instance goes first.
    pub order: Option<UpdateOrder>,
}
