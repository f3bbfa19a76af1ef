//! Space of volumes of a class: what their sizes take of a node's, each volume once however many mount it.

use jaco_types::spec::ServiceSpec;
use jaco_types::unit::Bytes;
use jaco_types::{Node, VolumeClass, VolumeDemand};

use super::usage::Usage;

/// Why a node has no place for a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lack<'s> {
    /// It does not offer the class.
    NoClass(&'s VolumeClass),
    /// Too little of the class is left.
    NoSpace {
        class: &'s VolumeClass,
        /// What is left.
        available: Bytes,
        /// What volumes that the replica needs and that are not there yet take.
        required: Bytes,
    },
}

/// What `node` lacks of the classes of volumes of one more replica of `spec`, by class, where `usage` is what
/// others have of it.
pub(crate) fn lacks<'s>(node: &Node, usage: &Usage, spec: &'s ServiceSpec) -> Vec<Lack<'s>> {
    let mut classes: Vec<&VolumeClass> = spec.volumes.iter().map(|one| &one.class).collect();
    classes.sort_unstable();
    classes.dedup();
    let lack = |class| match node.facts.volume_classes.get(class) {
        None => Some(Lack::NoClass(class)),
        Some(Bytes(0)) => None,
        Some(capacity) => lacks_space(*capacity, usage, spec, class),
    };
    classes.into_iter().filter_map(lack).collect()
}

fn lacks_space<'s>(
    capacity: Bytes,
    usage: &Usage,
    spec: &'s ServiceSpec,
    class: &'s VolumeClass,
) -> Option<Lack<'s>> {
    let held: Vec<&VolumeDemand> = usage.volumes().filter(|one| one.class == *class).collect();
    let wanted: Vec<&VolumeDemand> =
        spec.volumes.iter().filter(|one| one.class == *class).collect();
    let before = taken(held.iter().copied());
    let after = taken(held.into_iter().chain(wanted));
    // A replica that needs no more than is there is not kept off a node on which too much is promised.
    if after == before || after <= u128::from(capacity.0) {
        return None;
    }
    let bytes = |amount: u128| Bytes(u64::try_from(amount).unwrap_or(u64::MAX));
    let available = bytes(u128::from(capacity.0).saturating_sub(before));
    Some(Lack::NoSpace { class, available, required: bytes(after - before) })
}

/// What volumes take together. Revisions may disagree about the size of one: the largest counts.
fn taken<'s>(volumes: impl IntoIterator<Item = &'s VolumeDemand>) -> u128 {
    let mut volumes: Vec<&VolumeDemand> = volumes.into_iter().collect();
    volumes.sort_unstable_by(|a, b| (&a.volume, b.size).cmp(&(&b.volume, a.size)));
    volumes.dedup_by(|later, first| later.volume == first.volume);
    volumes.iter().map(|one| u128::from(one.size.0)).sum()
}
