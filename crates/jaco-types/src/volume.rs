//! Classes of volumes: what nodes offer, and what replicas ask for.

use std::sync::Arc;

use crate::id::VolumeClass;
use crate::unit::Bytes;

/// The most classes that one node offers.
pub const VOLUME_CLASSES_MAX: usize = 64;

/// A volume of a class that each replica of a service mounts. Replicas on one node share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VolumeDemand {
    /// Its name as the manifest resolves it, such as `shop_data`: which volume of a node it is.
    pub volume: Arc<str>,
    /// Only nodes that offer it take the replica.
    pub class: VolumeClass,
    /// What it counts for in the capacity of the class on a node; zero counts nothing. It does not bound what
    /// is written.
    pub size: Bytes,
}
