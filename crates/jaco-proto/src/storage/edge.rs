//! Who has which route, and certificates of users, their keys sealed as they are.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use jaco_state::edge::{Certificate, RouteClaim, SealedKey};
use jaco_types::{CertificateName, RouteKey, StateIndex, Timestamp};

use super::convert::{Wire, ascending, required};
use super::error::Problem;
use super::wire;

impl Wire for SealedKey {
    type Message = Bytes;

    fn to_wire(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    fn from_wire(bytes: Bytes) -> Result<Self, Problem> {
        Ok(Self((&*bytes).into()))
    }
}

pub(super) fn from_begun(begun: StateIndex) -> wire::EdgeBegun {
    wire::EdgeBegun { index: begun.0 }
}

pub(super) fn from_claim(key: &RouteKey, claim: &RouteClaim) -> wire::RouteClaim {
    wire::RouteClaim {
        key: Some(key.to_wire()),
        deployment: claim.deployment.to_wire(),
        since_ms: claim.since.0,
    }
}

pub(super) fn to_claim(message: wire::RouteClaim) -> Result<(RouteKey, RouteClaim), Problem> {
    let claim = RouteClaim {
        deployment: Wire::from_wire(message.deployment)?,
        since: Timestamp(message.since_ms),
    };
    Ok((required("key of a route", message.key)?, claim))
}

pub(super) fn from_certificate(
    name: &CertificateName,
    certificate: &Certificate,
) -> wire::Certificate {
    wire::Certificate {
        name: name.to_wire(),
        chain: certificate.chain.to_string(),
        key: certificate.key.to_wire(),
        names: from_names(&certificate.names),
        not_before_ms: certificate.not_before.0,
        not_after_ms: certificate.not_after.0,
        fingerprint: certificate.fingerprint.to_wire(),
        stored_at_ms: certificate.stored_at.0,
        by: Some(certificate.by.to_wire()),
    }
}

pub(super) fn to_certificate(
    message: wire::Certificate,
) -> Result<(CertificateName, Certificate), Problem> {
    let certificate = Certificate {
        chain: message.chain.into(),
        key: Wire::from_wire(message.key)?,
        names: to_names(message.names)?,
        not_before: Timestamp(message.not_before_ms),
        not_after: Timestamp(message.not_after_ms),
        fingerprint: Wire::from_wire(message.fingerprint)?,
        stored_at: Timestamp(message.stored_at_ms),
        by: required("author", message.by)?,
    };
    Ok((Wire::from_wire(message.name)?, certificate))
}

pub(super) fn from_names(names: &BTreeSet<Arc<str>>) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

pub(super) fn to_names(names: Vec<String>) -> Result<BTreeSet<Arc<str>>, Problem> {
    let name = |name: String| Ok((Arc::from(name), ()));
    Ok(ascending("names of a certificate", names.into_iter().map(name))?.into_keys().collect())
}
