//! `volumes`: the class and the size of volumes of the compose file (R-RES-3).

use jaco_types::VolumeClass;
use jaco_types::unit::Bytes;

use crate::diagnostics::code::Code;
use crate::diagnostics::report::Report;
use crate::overlay::types::VolumeOverlay;
use crate::yaml::node::{Entry, Map, Node};

/// Every volume of the section, in the order of the file.
pub(super) fn volumes(node: Option<&Node>, report: &mut Report) -> Vec<VolumeOverlay> {
    let map = node.and_then(Node::as_map);
    map.into_iter().flat_map(Map::iter).filter_map(|entry| volume(entry, report)).collect()
}

fn volume(entry: &Entry, report: &mut Report) -> Option<VolumeOverlay> {
    // A missing class was reported where the tree was checked.
    let class = entry.node.get("class")?;
    let text = class.as_str()?;
    let class_pos = class.pos;
    let class = match VolumeClass::new(text) {
        Ok(class) => class,
        Err(invalid) => {
            report
                .error(
                    class.pos,
                    Code::InvalidName,
                    format!("`{}` is no volume class", invalid.text),
                )
                .suggest(invalid.rule);
            return None;
        }
    };
    let size = match entry.node.get("size") {
        Some(node) => Bytes(size(node, report)?),
        None => Bytes(0),
    };
    Some(VolumeOverlay { name: entry.key.to_string(), class, size, class_pos, pos: entry.key_pos })
}

/// What is no amount was reported where the tree was checked; the others are texts of digits since.
fn size(node: &Node, report: &mut Report) -> Option<u64> {
    let bytes = node.as_str()?.parse().ok()?;
    if bytes == 0 {
        report
            .error(node.pos, Code::InvalidValue, "the `size` of a volume cannot be zero")
            .expected("an amount such as `10G`, or no `size`");
        return None;
    }
    Some(bytes)
}
