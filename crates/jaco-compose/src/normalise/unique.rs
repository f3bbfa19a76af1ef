//! Lists in which an item may be there once: which items are the same, and which one stays.

use std::collections::BTreeMap;

use crate::support::shape::Unique;
use crate::yaml::node::Node;

/// Leaves one of the items that are the same: the later one, at the place of the first.
pub(crate) fn dedup(items: &mut Vec<Node>, unique: Unique) {
    if items.len() < 2 || matches!(unique, Unique::Free | Unique::Strict) {
        return;
    }
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept: Vec<Node> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        match identity(&item, unique) {
            Some(identity) => match places.get(&identity) {
                Some(place) => kept[*place] = item,
                None => {
                    places.insert(identity, kept.len());
                    kept.push(item);
                }
            },
            None => kept.push(item),
        }
    }
    *items = kept;
}

fn identity(item: &Node, unique: Unique) -> Option<String> {
    match unique {
        Unique::Free | Unique::Strict => None,
        Unique::Once => item.as_str().map(str::to_owned),
        Unique::By(key) => item.get_str(key).map(str::to_owned),
        Unique::ByMount(dir) => match (item.get_str("target"), item.get_str("source")) {
            (Some(target), _) => Some(target.to_owned()),
            (None, Some(source)) => Some(format!("{dir}/{source}")),
            (None, None) => None,
        },
        Unique::ByPort => {
            let target = item.get("target")?.as_int()?;
            let published = item.get_str("published").unwrap_or("");
            let host = item.get_str("host_ip").unwrap_or("0.0.0.0");
            let protocol = item.get_str("protocol").unwrap_or("tcp");
            Some(format!("{host}:{published}:{target}/{protocol}"))
        }
    }
}
