//! What deployments may reach of the nodes, and what happens to those that reach for more (R-IN-6).

use std::collections::BTreeSet;

use jaco_types::DeploymentName;
use jaco_types::spec::Reach;

use crate::table::Table;

/// The most grants of a deployment.
pub const GRANTS_PER_DEPLOYMENT_MAX: usize = 256;

/// The most grants of all deployments: they are in each snapshot, and in each node's memory.
pub const GRANTS_MAX: usize = 10_000;

/// What happens to a service that reaches for what is not granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PolicyMode {
    /// It is admitted, with a warning: so in clusters that were never asked for anything else.
    #[default]
    Warn,
    /// It is refused, unless it is as it was.
    Refuse,
}

impl PolicyMode {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Warn, Self::Refuse];

    /// The mode as users see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Refuse => "refuse",
        }
    }
}

/// The policy of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// What happens without a grant.
    pub mode: PolicyMode,
    /// What is granted, never nothing. A grant outlives its deployment, and may be there before it.
    pub grants: Table<DeploymentName, BTreeSet<Reach>>,
}

impl Policy {
    /// Whether a deployment may reach this.
    #[must_use]
    pub fn allows(&self, deployment: &DeploymentName, reach: &Reach) -> bool {
        let grants = self.grants.get(deployment);
        grants.is_some_and(|grants| grants.iter().any(|grant| grant.covers(reach)))
    }

    /// What of `reaches` is not granted to a deployment.
    #[must_use]
    pub fn ungranted(
        &self,
        deployment: &DeploymentName,
        reaches: &BTreeSet<Reach>,
    ) -> BTreeSet<Reach> {
        reaches.iter().filter(|reach| !self.allows(deployment, reach)).cloned().collect()
    }

    /// Whether there is anything that a version without policies does not know.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        *self != Self::default()
    }
}

/// The command that grants a deployment what it reaches for.
#[must_use]
pub fn allow_command(deployment: &DeploymentName, reaches: &BTreeSet<Reach>) -> String {
    let words = reaches.iter().map(|reach| quoted(&reach.to_string()));
    let words: Vec<String> = words.collect();
    format!("jaco policy allow {deployment} {}", words.join(" "))
}

/// A word that a shell hands on as it is.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
