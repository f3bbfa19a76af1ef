//! Commands about what edges serve.

use jaco_state::command::{CertificateRemove, CertificateStore, EdgeBegin};
use jaco_types::Timestamp;

use crate::storage::convert::Wire;
use crate::storage::edge::{from_names, to_names};
use crate::storage::error::Problem;
use crate::storage::wire;

impl Wire for EdgeBegin {
    type Message = wire::EdgeBegin;

    fn to_wire(&self) -> wire::EdgeBegin {
        wire::EdgeBegin {}
    }

    fn from_wire(wire::EdgeBegin {}: wire::EdgeBegin) -> Result<Self, Problem> {
        Ok(Self)
    }
}

impl Wire for CertificateStore {
    type Message = wire::CertificateStore;

    fn to_wire(&self) -> wire::CertificateStore {
        let Self { name, chain, key, names, not_before, not_after, fingerprint } = self;
        wire::CertificateStore {
            name: name.to_wire(),
            chain: chain.to_string(),
            key: key.to_wire(),
            names: from_names(names),
            not_before_ms: not_before.0,
            not_after_ms: not_after.0,
            fingerprint: fingerprint.to_wire(),
        }
    }

    fn from_wire(message: wire::CertificateStore) -> Result<Self, Problem> {
        Ok(Self {
            name: Wire::from_wire(message.name)?,
            chain: message.chain.into(),
            key: Wire::from_wire(message.key)?,
            names: to_names(message.names)?,
            not_before: Timestamp(message.not_before_ms),
            not_after: Timestamp(message.not_after_ms),
            fingerprint: Wire::from_wire(message.fingerprint)?,
        })
    }
}

impl Wire for CertificateRemove {
    type Message = wire::CertificateRemove;

    fn to_wire(&self) -> wire::CertificateRemove {
        wire::CertificateRemove { name: self.name.to_wire() }
    }

    fn from_wire(message: wire::CertificateRemove) -> Result<Self, Problem> {
        Ok(Self { name: Wire::from_wire(message.name)? })
    }
}
