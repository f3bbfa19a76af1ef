//! The cluster's own record, and the tokens that it knows.

use jaco_state::ClusterMeta;
use jaco_state::token::{JoinToken, OperatorToken};
use jaco_types::Timestamp;

use super::convert::{Wire, required};
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
        wire::OperatorToken {
            id: self.id.to_wire(),
            secret_hash: self.secret_hash.to_wire(),
            issued_at_ms: self.issued_at.0,
            issued_by: Some(self.issued_by.to_wire()),
            revoked_at_ms: self.revoked_at.map(|at| at.0),
            expires_at_ms: self.expires_at.map(|at| at.0),
        }
    }

    fn from_wire(message: wire::OperatorToken) -> Result<Self, Problem> {
        Ok(Self {
            id: Wire::from_wire(message.id)?,
            secret_hash: Wire::from_wire(message.secret_hash)?,
            issued_at: Timestamp(message.issued_at_ms),
            issued_by: required("issuer", message.issued_by)?,
            revoked_at: message.revoked_at_ms.map(Timestamp),
            expires_at: message.expires_at_ms.map(Timestamp),
        })
    }
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
