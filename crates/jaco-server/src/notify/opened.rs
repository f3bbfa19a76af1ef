//! The address of a target, with what signs. Must never be kept longer than until it is sent.

use jaco_notify::{Endpoint, SendError};
use jaco_pki::KekRing;
use jaco_pki::sealed::Purpose;
use jaco_state::notify::{NotifyTarget, SealedEndpoint};
use jaco_types::{ClusterId, NotifyTargetName};

use crate::sealer::Sealer;

/// Seals an address for a target.
#[must_use]
pub fn seal_endpoint(
    sealer: &Sealer<'_>,
    name: &NotifyTargetName,
    endpoint: &Endpoint,
) -> SealedEndpoint {
    let purpose = Purpose::NotifyTarget { name: name.as_str() };
    SealedEndpoint(sealer.seal(purpose, &endpoint.to_bytes()).into())
}

/// Opens the address of a target.
///
/// # Errors
/// If no key of this node opens it.
pub fn open_endpoint(
    ring: &KekRing,
    cluster: &ClusterId,
    name: &NotifyTargetName,
    target: &NotifyTarget,
) -> Result<Endpoint, SendError> {
    let purpose = Purpose::NotifyTarget { name: name.as_str() };
    let opened = ring.open(cluster, purpose, &target.endpoint.0);
    let opened = opened.map_err(|error| SendError::Sealed(error.to_string()))?;
    Endpoint::from_bytes(&opened)
        .ok_or_else(|| SendError::Sealed("it is no address of this version".to_owned()))
}
