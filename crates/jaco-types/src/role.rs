//! What a credential allows (ADR 0119). Which rpc needs which role is decided at the edge.

use std::collections::BTreeSet;
use std::fmt;

use crate::id::{DeploymentName, InvalidName};

/// The most deployments that one credential is for.
pub const DEPLOYMENTS_MAX: usize = 100;

/// A role. Each allows what those before it allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads everything but logs and the contents of secrets.
    Viewer,
    /// Changes some deployments.
    Deployer,
    /// Changes all deployments, and what nodes take.
    Operator,
    /// Everything: who may do what, who is a member, keys, backups.
    Admin,
}

/// A role, with what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rights {
    /// A viewer's.
    Viewer,
    /// A deployer's, for these deployments, which need not exist.
    Deployer(BTreeSet<DeploymentName>),
    /// An operator's.
    Operator,
    /// An admin's.
    Admin,
}

/// Why a role and deployments make no rights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRights {
    /// No such role.
    #[error("role is {0:?}: write viewer, deployer, operator or admin")]
    Role(String),
    /// A deployer of nothing.
    #[error("a deployer needs the deployments that it may change: --deployment NAME")]
    NoDeployment,
    /// The role is for all deployments.
    #[error("role {0} is for all deployments: only a deployer is limited to some")]
    Unlimited(Role),
    /// Too many.
    #[error("a credential is for at most {DEPLOYMENTS_MAX} deployments, not {0}")]
    TooMany(usize),
    /// No name of a deployment.
    #[error(transparent)]
    Deployment(#[from] InvalidName),
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Deployer, Self::Operator, Self::Admin];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Deployer => "deployer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl Rights {
    /// The rights of the role of this name, for these deployments.
    ///
    /// # Errors
    /// When there is no such role, or when deployments are missing, too many, or for another role than the deployer's.
    pub fn new<'a>(
        role: &str,
        deployments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidRights> {
        let found = Role::ALL.into_iter().find(|known| known.as_str() == role);
        let found = found.ok_or_else(|| InvalidRights::Role(role.to_owned()))?;
        let deployments = deployments.into_iter().map(DeploymentName::new);
        let deployments: BTreeSet<_> = deployments.collect::<Result<_, _>>()?;
        let rights = match found {
            Role::Viewer => Self::Viewer,
            Role::Deployer if deployments.is_empty() => return Err(InvalidRights::NoDeployment),
            Role::Deployer if deployments.len() > DEPLOYMENTS_MAX => {
                return Err(InvalidRights::TooMany(deployments.len()));
            }
            Role::Deployer => return Ok(Self::Deployer(deployments)),
            Role::Operator => Self::Operator,
            Role::Admin => Self::Admin,
        };
        if deployments.is_empty() { Ok(rights) } else { Err(InvalidRights::Unlimited(found)) }
    }

    /// The role.
    #[must_use]
    pub const fn role(&self) -> Role {
        match self {
            Self::Viewer => Role::Viewer,
            Self::Deployer(_) => Role::Deployer,
            Self::Operator => Role::Operator,
            Self::Admin => Role::Admin,
        }
    }

    /// Whether they include the change of this deployment.
    #[must_use]
    pub fn may_change(&self, deployment: &DeploymentName) -> bool {
        match self {
            Self::Viewer => false,
            Self::Deployer(deployments) => deployments.contains(deployment),
            Self::Operator | Self::Admin => true,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `viewer`, `deployer of blog, shop`.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.role().fmt(f)?;
        if let Self::Deployer(deployments) = self {
            let names: Vec<&str> = deployments.iter().map(DeploymentName::as_str).collect();
            write!(f, " of {}", names.join(", "))?;
        }
        Ok(())
    }
}
