//! Names and numbers that identify things. Each is its own type, so that none can be mistaken for
//! another; each is checked where it is made, so that other code can rely on it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a text cannot be a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {kind} {text:?}: {rule}")]
pub struct InvalidName {
    /// What was being named, for example `deployment name`.
    pub kind: &'static str,
    /// The text that was given, cut to 80 characters.
    pub text: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $rule:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and keeps the name.
            ///
            /// # Errors
            /// The rule that the text breaks.
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                if $check(text) {
                    Ok(Self(text.into()))
                } else {
                    let text = text.chars().take(80).collect();
                    Err(InvalidName { kind: $kind, text, rule: $rule })
                }
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }
    };
}

name_type!(
    /// The name of a deployment: what one `jaco apply` names.
    DeploymentName,
    "deployment name",
    "use 1 to 63 of a-z, 0-9, '-' and '_', starting with a letter or digit",
    is_deployment_name
);

name_type!(
    /// The name of a kind of storage that nodes offer for volumes, such as `ssd`.
    VolumeClass,
    "volume class",
    "use 1 to 63 of a-z, 0-9, '-' and '_', starting with a letter or digit",
    is_deployment_name
);
name_type!(
    /// The name of a service inside its deployment, as compose allows it.
    ServiceName,
    "service name",
    "use 1 to 63 of a-z, A-Z, 0-9, '.', '-' and '_', starting with a letter or digit",
    is_service_name
);
name_type!(
    /// The name of a node: an RFC 1123 host name in lower case.
    Hostname,
    "host name",
    "use 1 to 253 of a-z, 0-9, '-' and '.', each label 1 to 63 long and not bounded by '-'",
    is_hostname
);
name_type!(
    /// The identity of a cluster, chosen at `cluster init` and never changed: 32 hex digits.
    ClusterId,
    "cluster id",
    "use 32 digits of 0-9 and a-f",
    is_cluster_id
);
name_type!(
    /// The public part of a token: names it in lists and in the audit log.
    TokenId,
    "token id",
    "use 1 to 32 of a-z, 0-9 and '-'",
    is_token_id
);
name_type!(
    /// The name of an endpoint consumer, for example the host name of a proxy.
    ConsumerName,
    "consumer name",
    "use 1 to 63 of a-z, 0-9, '.', '-' and '_', starting with a letter or digit",
    is_consumer_name
);
name_type!(
    /// The name of a config or secret that the cluster keeps.
    ContentName,
    "name of a config or secret",
    "use 1 to 63 of a-z, A-Z, 0-9, '.', '-' and '_', starting with a letter or digit",
    is_service_name
);
name_type!(
    /// The name of a network: the key in a compose file, or that of a shared one.
    NetworkName,
    "network name",
    "use 1 to 63 of a-z, A-Z, 0-9, '.', '-' and '_', not starting with '.' or '-'",
    is_network_name
);
name_type!(
    /// The name of a certificate of a user, as routes name it.
    CertificateName,
    "name of a certificate",
    "use 1 to 63 of a-z, A-Z, 0-9, '.', '-' and '_', starting with a letter or digit, and none of `auto`, `on` and `off`",
    is_certificate_name
);
name_type!(
    /// The name of a target of notifications.
    NotifyTargetName,
    "name of a notification target",
    "use 1 to 63 of a-z, 0-9, '.', '-' and '_', starting with a letter or digit",
    is_consumer_name
);
name_type!(
    /// The name of a schedule of backups.
    BackupScheduleName,
    "name of a backup schedule",
    "use 1 to 63 of a-z, 0-9, '.', '-' and '_', starting with a letter or digit",
    is_consumer_name
);
name_type!(
    /// An account at an image registry.
    RegistryUsername,
    "username of a registry",
    "use 1 to 255 bytes, without ':' and control characters",
    is_registry_username
);
name_type!(
    /// Chosen by a client for one write, so that a retry is answered with the first outcome.
    RequestId,
    "request id",
    "use 1 to 64 printable ASCII characters without spaces",
    is_request_id
);

fn is_deployment_name(text: &str) -> bool {
    let first_ok = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    first_ok
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
}

fn is_service_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
}

pub(crate) fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

fn is_cluster_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_token_id(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_consumer_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b))
}

fn is_network_name(text: &str) -> bool {
    text.starts_with('_') && text.len() > 1 && is_service_name(&text[1..]) || is_service_name(text)
}

fn is_certificate_name(text: &str) -> bool {
    // These are other values of the key in which routes name a certificate.
    is_service_name(text) && !["auto", "on", "off"].contains(&&*text.to_ascii_lowercase())
}

fn is_registry_username(text: &str) -> bool {
    // What follows a colon would be a part of the password to a registry.
    (1..=255).contains(&text.len()) && !text.contains(|c: char| c == ':' || c.is_control())
}

fn is_request_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_type!(
    /// A position in the replicated log. Zero is "before the first entry".
    StateIndex
);
number_type!(
    /// A node: the log index of the entry that admitted it, so never reused. The node that creates
    /// a cluster has no such entry yet and is [`NodeId::FIRST`].
    NodeId
);

impl NodeId {
    /// The node that created the cluster. No later entry has this index: the first entries of a log
    /// are raft's own.
    pub const FIRST: Self = Self(1);
}
number_type!(
    /// The version of a deployment's spec, and nothing else. The first is 1.
    Revision
);

/// Distinguishes a slot from the others of its service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ordinal {
    /// A number from the service's counter; never reused.
    Index(u64),
    /// The host, for services that run once per node.
    Host(Hostname),
}

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => fmt::Display::fmt(index, f),
            Self::Host(host) => fmt::Display::fmt(host, f),
        }
    }
}

/// A slot's stable name, `<deployment>-<service>-<index or host>`. Who owns it is read from the
/// slot's record, never parsed from this text, because names may contain `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(Arc<str>);

impl ReplicaId {
    /// Names the slot of `service` with this ordinal.
    #[must_use]
    pub fn new(service: &ServiceKey, ordinal: &Ordinal) -> Self {
        Self(format!("{}-{}-{ordinal}", service.deployment, service.service).into())
    }

    /// Takes an id as it was written by [`ReplicaId::new`], for example from a container's label.
    ///
    /// # Errors
    /// When the text is empty, longer than 512 bytes, or not printable ASCII.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if (1..=512).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            return Ok(Self(text.into()));
        }
        let text = text.chars().take(80).collect();
        Err(InvalidName { kind: "replica id", text, rule: "use 1 to 512 printable characters" })
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// One container attempt of a slot: the slot and the log index that caused the attempt. Of two
/// instances of a slot, the one with the greater index is the newer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId {
    /// The slot.
    pub replica: ReplicaId,
    /// The log index of the entry that asked for this instance.
    pub raft_index: StateIndex,
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.replica, self.raft_index)
    }
}

/// A service of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceKey {
    /// The deployment it belongs to.
    pub deployment: DeploymentName,
    /// Its name there.
    pub service: ServiceName,
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.deployment, self.service)
    }
}

/// SHA-256 of the canonical form of everything that changes a service's containers (R-HASH-1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpecHash(pub [u8; 32]);

impl SpecHash {
    /// The first 12 hex digits, for display.
    #[must_use]
    pub fn short(&self) -> String {
        hex::encode(&self.0[..6])
    }
}

impl fmt::Display for SpecHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(self.0))
    }
}

impl fmt::Debug for SpecHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_where_they_are_made() {
        let ok = |text: &str| DeploymentName::new(text).is_ok();
        assert!(ok("shop") && ok("0-a_b") && ok(&"a".repeat(63)));
        assert!(!ok("") && !ok("Shop") && !ok("-a") && !ok("a b") && !ok(&"a".repeat(64)));
        let host = |text: &str| Hostname::new(text).is_ok();
        assert!(host("n1") && host("a.b-c.d"));
        assert!(!host("") && !host("a..b") && !host("-a") && !host("a-") && !host("A"));
    }

    /// R-PLACE-5: the id names deployment, service and index, and sorts with its service.
    #[test]
    fn replica_ids_carry_index_or_host() {
        let key = ServiceKey {
            deployment: DeploymentName::new("shop").unwrap(),
            service: ServiceName::new("web").unwrap(),
        };
        assert_eq!(ReplicaId::new(&key, &Ordinal::Index(3)).as_str(), "shop-web-3");
        let host = Ordinal::Host(Hostname::new("n1").unwrap());
        assert_eq!(ReplicaId::new(&key, &host).as_str(), "shop-web-n1");
    }
}
