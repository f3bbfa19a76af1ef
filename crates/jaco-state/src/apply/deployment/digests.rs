//! Which images a new revision takes over as they are, and which are looked for anew.

use std::collections::BTreeMap;

use jaco_types::spec::{PullPolicy, ServiceSpec};
use jaco_types::{DeploymentName, ImageDigest, Revision, ServiceKey, ServiceName};

use super::Wanted;
use crate::state::ClusterState;
use crate::view::images::digest_of;
use crate::view::slots_of;

/// What the images of a new revision are, as far as that is known beforehand. One that goes back takes
/// all from where it goes back to. Else a service keeps the image that it runs while its name stays the
/// same: a tag that was moved meanwhile moves nothing by itself. Only an image that is asked for before
/// each start is looked for anew once its containers are others.
pub(in crate::apply) fn carried(
    state: &ClusterState,
    name: &DeploymentName,
    wanted: &Wanted<'_>,
) -> BTreeMap<ServiceName, ImageDigest> {
    let restored = wanted.restores.and_then(|revision| {
        let deployment = state.deployments.get(name)?;
        deployment.revisions.get(&revision)
    });
    if let Some(record) = restored {
        return record.digests.clone();
    }
    let mut running: BTreeMap<&ServiceKey, Revision> = BTreeMap::new();
    for slot in slots_of(state, name) {
        let Some(spec) = wanted.spec.services.get(&slot.service.service) else { continue };
        for instance in std::iter::once(&slot.current).chain(&slot.retiring) {
            let known = state.service_spec(&slot.service, instance.revision);
            if known.is_some_and(|known| keeps_image(known, spec)) {
                let newest = running.entry(&slot.service).or_default();
                *newest = instance.revision.max(*newest);
            }
        }
    }
    let digests = running.into_iter().filter_map(|(key, revision)| {
        Some((key.service.clone(), state.image_digest(key, revision)?.clone()))
    });
    let mut digests: BTreeMap<ServiceName, ImageDigest> = digests.collect();
    // What a pushed image is needs no node to find out.
    for (name, service) in &wanted.spec.services {
        if !digests.contains_key(name)
            && let Some(digest) = digest_of(state, service)
        {
            digests.insert(name.clone(), digest);
        }
    }
    digests
}

/// Whether replicas that are made from `wanted` run the image that those made from `known` do.
fn keeps_image(known: &ServiceSpec, wanted: &ServiceSpec) -> bool {
    known.image == wanted.image
        && match wanted.pull {
            PullPolicy::Missing => true,
            PullPolicy::Always => known.hash == wanted.hash,
            // It runs what each node has under that name.
            PullPolicy::Never => false,
        }
}
