//! The volumes of a class that a service mounts, and whether the compose file has what jaco.yaml says of volumes.

use std::collections::{BTreeMap, BTreeSet};

use jaco_types::VolumeDemand;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::types::{JacoYaml, VolumeOverlay};
use crate::project::Project;
use crate::yaml::access::items;
use crate::yaml::node::{Map, Node};

/// The classes of volumes, by their names in the compose file.
pub(crate) type Classes<'o> = BTreeMap<&'o str, &'o VolumeOverlay>;

pub(super) fn classes(overlay: &JacoYaml) -> Classes<'_> {
    overlay.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect()
}

/// What each replica of `service` mounts of a class, by the name of the volume.
pub(super) fn demands(service: &Map, root: &Map, classes: &Classes<'_>) -> Vec<VolumeDemand> {
    let mounts = items(service, "volumes").iter();
    let named = mounts.filter(|mount| mount.get_str("type") == Some("volume"));
    let keys: BTreeSet<&str> = named.filter_map(|mount| mount.get_str("source")).collect();
    let declared = root.get("volumes").and_then(Node::as_map);
    let demand = |key: &str| {
        let own = classes.get(key)?;
        let name = declared?.get(key)?.get_str("name")?;
        Some(VolumeDemand { volume: name.into(), class: own.class.clone(), size: own.size })
    };
    let mut demands: Vec<VolumeDemand> = keys.into_iter().filter_map(demand).collect();
    demands.sort_unstable();
    demands.dedup_by(|later, first| later.volume == first.volume);
    demands
}

/// Reports what jaco.yaml says of volumes that the compose file does not have, or whose place it says itself.
pub(super) fn check(project: &Project, overlay: &JacoYaml, report: &mut Report) {
    let declared = project.root.get("volumes").and_then(Node::as_map);
    for own in &overlay.volumes {
        let name = &own.name;
        let Some(volume) = declared.and_then(|map| map.get(name)) else {
            report
                .error(
                    own.pos,
                    Code::UnknownVolume,
                    format!("the compose file has no volume `{name}`"),
                )
                .nearest(name, declared.into_iter().flat_map(Map::keys));
            continue;
        };
        if let Some(why) = place_of_its_own(volume) {
            let message = format!("volume `{name}` cannot have a class: it {why}");
            report
                .error(own.class_pos, Code::Conflict, message)
                .suggest("remove one of them: a class says where on a node the volume is");
        }
    }
}

/// What a volume of the compose file says about where it is.
fn place_of_its_own(volume: &Node) -> Option<&'static str> {
    let has_options =
        || volume.get("driver_opts").and_then(Node::as_map).is_some_and(|map| !map.is_empty());
    if volume.get("external").and_then(Node::as_bool) == Some(true) {
        Some("is external")
    } else if volume.get_str("driver").is_some_and(|driver| driver != "local") {
        Some("has a driver of its own")
    } else {
        has_options().then_some("has `driver_opts`")
    }
}
