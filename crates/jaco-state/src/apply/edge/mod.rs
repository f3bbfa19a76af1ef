//! Routes, published ports and certificates.
//!
//! ```text
//! claim         who has which route: checked with a spec, written with the desired revision (NET-5)
//! port          who has which published port: in the same way
//! certificate   certificates of users
//! acme          certificates that the leader orders (NET-16)
//! begin         that all members understand them
//! ```

pub(in crate::apply) mod acme;
mod begin;
pub(in crate::apply) mod certificate;
mod claim;
mod port;

use jaco_types::spec::DeploymentSpec;
use jaco_types::{DeploymentName, Rejection, Timestamp};

use crate::apply::audit::Audit;
use crate::state::ClusterState;

pub(in crate::apply) use begin::begin;

/// The rules of a spec's routes, drain times and ports.
///
/// # Errors
/// The first that it breaks.
pub(in crate::apply) fn check(
    state: &ClusterState,
    name: &DeploymentName,
    spec: &DeploymentSpec,
) -> Result<(), Rejection> {
    if spec.needs_edges() {
        begin::check(state)?;
        claim::check(state, name, spec)?;
    }
    port::check(state, name, spec)
}

/// Gives a deployment the routes and ports of its desired spec, which were checked before, and takes away all others
/// that it has; all of them where there is no such deployment.
pub(in crate::apply) fn settle(
    state: &mut ClusterState,
    now: Timestamp,
    name: &DeploymentName,
    audit: &mut Audit<'_>,
) {
    claim::settle(state, now, name, audit);
    port::settle(state, now, name, audit);
}
