//! Decodes heartbeats.

use std::collections::BTreeMap;

use jaco_proto::v1;
use jaco_scheduler::rebalance::{Load, Share};
use jaco_types::{
    ImageDigest, ImageNeed, ImageReadiness, InstanceId, Rejection, ReplicaId, SpecHash, StateIndex,
};

use crate::status::invalid;

/// The usage sample of a node and of its instances.
pub(super) fn measured(
    load: v1::NodeLoad,
) -> Result<(Load, BTreeMap<InstanceId, Load>), Rejection> {
    let shares = |cpu, memory| Load { cpu: Share(cpu), memory: Share(memory) };
    let mut instances = BTreeMap::new();
    for one in load.instances {
        let replica = ReplicaId::parse(&one.replica).map_err(invalid)?;
        let id = InstanceId { replica, raft_index: StateIndex(one.raft_index) };
        instances.insert(id, shares(one.cpu, one.memory));
    }
    Ok((shares(load.cpu, load.memory), instances))
}

/// The pre-pull status of images. Entries that cannot be decoded are skipped.
pub(super) fn readiness(images: Vec<v1::PrepullStatus>) -> BTreeMap<ImageNeed, ImageReadiness> {
    let read = |image: v1::PrepullStatus| {
        let spec = SpecHash(<[u8; 32]>::try_from(&*image.spec_hash).ok()?);
        let digest = match image.wanted_digest.as_str() {
            "" => None,
            wanted => Some(ImageDigest::parse(wanted)?),
        };
        let reason = image.reason;
        let readiness = match (image.ready, image.failed) {
            (true, _) => ImageReadiness::Ready { digest: ImageDigest::parse(&image.digest) },
            (false, true) => ImageReadiness::Failed { reason },
            (false, false) => ImageReadiness::Waiting { reason },
        };
        Some((ImageNeed { spec, digest }, readiness))
    };
    images.into_iter().filter_map(read).collect()
}
