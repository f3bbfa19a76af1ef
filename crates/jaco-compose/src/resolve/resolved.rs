//! A project as JACO runs it.

use std::collections::BTreeMap;

use jaco_types::{Route, RouteKey};

use crate::diagnostics::problem::Problems;
use crate::facts::{Facts, NetworkFacts};
use crate::overlay::Acme;
use crate::resolve::container::Container;

/// A project as JACO runs it.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The deployment's name.
    pub name: String,
    /// The services by name.
    pub services: BTreeMap<String, ResolvedService>,
    /// The networks that they are attached to, by their keys in the compose file.
    pub networks: BTreeMap<String, NetworkFacts>,
    /// Domains and the services behind them.
    pub routes: BTreeMap<RouteKey, Route>,
    /// Whether certificates are ordered.
    pub acme: Acme,
    /// The contact given to the certificate authority.
    pub acme_email: Option<String>,
    /// What is worth a warning.
    pub warnings: Problems,
}

/// A service as JACO runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedService {
    /// What its containers are made of.
    pub container: Container,
    /// What decides where and how many.
    pub facts: Facts,
}
