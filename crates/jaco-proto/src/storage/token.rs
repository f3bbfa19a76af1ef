//! The cluster's own record, and the tokens that it knows.

use std::collections::BTreeSet;

use bytes::Bytes;
use jaco_state::ClusterMeta;
use jaco_state::token::{JoinToken, OperatorToken, Proof};
use jaco_types::{DeploymentName, Rights, Role, Timestamp};

use super::convert::{Wire, ascending, required, wire_enum};
use super::error::Problem;
use super::wire;

impl Wire for ClusterMeta {
    type Message = wire::ClusterMeta;

    fn to_wire(&self) -> wire::ClusterMeta {
        wire::ClusterMeta {
            id: self.id.to_wire(),
            name: self.name.clone(),
            ca_certificate: self.ca_certificate.clone(),
            sealed_ca_key: self.sealed_ca_key.clone().into(),
            created_at_ms: self.created_at.0,
        }
    }

    fn from_wire(message: wire::ClusterMeta) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            name: message.name,
            ca_certificate: message.ca_certificate,
            sealed_ca_key: message.sealed_ca_key.into(),
            created_at: Timestamp(message.created_at_ms),
        })
    }
}

impl Wire for OperatorToken {
    type Message = wire::OperatorToken;

    fn to_wire(&self) -> wire::OperatorToken {
        let (secret_hash, former_secret, key_fingerprint) = match &self.proof {
            Proof::Secret(hash) => (hash.to_wire(), None, None),
            Proof::Rotated { secret, former, former_until } => {
                let former =
                    wire::FormerSecret { hash: former.to_wire(), until_ms: former_until.0 };
                (secret.to_wire(), Some(former), None)
            }
            Proof::Certificate(key) => (Bytes::new(), None, Some(key.to_wire())),
        };
        wire::OperatorToken {
            id: self.id.to_wire(),
            secret_hash,
            former_secret,
            key_fingerprint,
            issued_at_ms: self.issued_at.0,
            issued_by: Some(self.issued_by.to_wire()),
            revoked_at_ms: self.revoked_at.map(|at| at.0),
            expires_at_ms: self.expires_at.map(|at| at.0),
            role: self.rights.as_ref().map(|rights| rights.role().to_wire()),
            deployments: deployments(self.rights.as_ref()),
            last_used_at_ms: self.last_used_at.map(|at| at.0),
        }
    }

    fn from_wire(message: wire::OperatorToken) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            proof: proof(message.secret_hash, message.former_secret, message.key_fingerprint)?,
            issued_at: Timestamp(message.issued_at_ms),
            issued_by: required("issuer", message.issued_by)?,
            revoked_at: message.revoked_at_ms.map(Timestamp),
            expires_at: message.expires_at_ms.map(Timestamp),
            rights: rights(message.role, message.deployments)?,
            last_used_at: message.last_used_at_ms.map(Timestamp),
        })
    }
}

/// A token has a secret or a key: with both a reader could choose.
fn proof(
    secret_hash: Bytes,
    former: Option<wire::FormerSecret>,
    key_fingerprint: Option<Bytes>,
) -> Result<Proof, Problem> {
    match (key_fingerprint, former) {
        (None, None) => Ok(Proof::Secret(Wire::from_wire(secret_hash)?)),
        (None, Some(former)) => Ok(Proof::Rotated {
            secret: Wire::from_wire(secret_hash)?,
            former: Wire::from_wire(former.hash)?,
            former_until: Timestamp(former.until_ms),
        }),
        (Some(_), Some(_)) => Err(Problem::Misplaced("former secret")),
        (Some(_), None) if !secret_hash.is_empty() => Err(Problem::Misplaced("secret hash")),
        (Some(key), None) => Ok(Proof::Certificate(Wire::from_wire(key)?)),
    }
}

wire_enum!(Role, "role", [Viewer, Deployer, Operator, Admin]);

fn deployments(rights: Option<&Rights>) -> Vec<String> {
    match rights {
        Some(Rights::Deployer(deployments)) => deployments.iter().map(Wire::to_wire).collect(),
        Some(Rights::Viewer | Rights::Operator | Rights::Admin) | None => Vec::new(),
    }
}

fn rights(role: Option<i32>, deployments: Vec<String>) -> Result<Option<Rights>, Problem> {
    let names = deployments.into_iter().map(|name| Ok((DeploymentName::from_wire(name)?, ())));
    let names: BTreeSet<_> = ascending("deployments of a token", names)?.into_keys().collect();
    let Some(role) = role else {
        return if names.is_empty() { Ok(None) } else { Err(Problem::Missing("role")) };
    };
    let rights = match Role::from_wire(role)? {
        Role::Viewer => Rights::Viewer,
        Role::Deployer => return Ok(Some(Rights::Deployer(names))),
        Role::Operator => Rights::Operator,
        Role::Admin => Rights::Admin,
    };
    if names.is_empty() { Ok(Some(rights)) } else { Err(Problem::Misplaced("deployments")) }
}

impl Wire for JoinToken {
    type Message = wire::JoinToken;

    fn to_wire(&self) -> wire::JoinToken {
        wire::JoinToken {
            id: self.id.to_wire(),
            secret_hash: self.secret_hash.to_wire(),
            issued_at_ms: self.issued_at.0,
            issued_by: Some(self.issued_by.to_wire()),
            expires_at_ms: self.expires_at.0,
            uses_left: self.uses_left,
            revoked_at_ms: self.revoked_at.map(|at| at.0),
        }
    }

    fn from_wire(message: wire::JoinToken) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            secret_hash: Wire::from_wire(message.secret_hash)?,
            issued_at: Timestamp(message.issued_at_ms),
            issued_by: required("issuer", message.issued_by)?,
            expires_at: Timestamp(message.expires_at_ms),
            uses_left: message.uses_left,
            revoked_at: message.revoked_at_ms.map(Timestamp),
        })
    }
}
