//! The kinds of the objects of a backup, and what one is called. Pure.

use jaco_proto::v1::AllocationRef;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Retention,
    Constraint,
    Node,
    Config,
    Secret,
    Registry,
    Network,
    Grants,
    Policy,
    NotifyTarget,
    Deployment,
    Disabled,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Constraint => "constraint",
            Self::Node => "node",
            Self::Config => "config",
            Self::Secret => "secret",
            Self::Registry => "registry",
            Self::Network => "network",
            Self::Grants => "grants",
            Self::Policy => "policy",
            Self::NotifyTarget => "notify",
            Self::Deployment => "deployment",
            Self::Disabled => "disabled",
        }
    }
}

/// The allocation as in the arguments of `jaco disable`.
#[must_use]
pub fn label(one: &AllocationRef) -> String {
    let service = match (one.deployment.as_str(), one.service.as_str()) {
        (_, "") => None,
        (deployment, service) => Some(format!("{deployment}/{service}")),
    };
    let node = Some(one.node.as_str()).filter(|node| !node.is_empty());
    let replica = Some(one.replica.as_str()).filter(|replica| !replica.is_empty());
    match (service, node.or(replica)) {
        (Some(service), Some(which)) => format!("{service} {which}"),
        (Some(service), None) => service,
        (None, which) => which.unwrap_or_default().to_owned(),
    }
}
