//! Checks of volumes of a class: their sizes are what space is planned by.

use jaco_proto::v1::VolumeInfo;

use super::finding::Findings;
use crate::view::volume::{over_size, taken};

/// Checks that no volume takes more than its size.
pub(super) fn sizes(volumes: &[VolumeInfo], found: &mut Findings) {
    for (volume, help) in over_size(volumes) {
        let name = format!("{}/{}", volume.deployment, volume.volume);
        found.warning("volume", &name, format!("on {} it {}", volume.node, taken(volume)), help);
    }
}
