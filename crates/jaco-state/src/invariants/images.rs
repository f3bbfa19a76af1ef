//! Laws about pushed images (ST-30).

use super::{Law, Violations};
use crate::images::{IMAGE_NAMES_MAX, IMAGES_MAX, LAYERS_MAX};
use crate::state::ClusterState;
use crate::view::images::pinned;

pub(super) fn check(state: &ClusterState, found: &mut Violations) {
    let images = &state.images;
    if images.rows.len() > IMAGES_MAX || images.names.len() > IMAGE_NAMES_MAX {
        let subject = format!("{} images, {} names", images.rows.len(), images.names.len());
        found.add(Law::PushedImages, subject);
    }
    if images.rows.is_empty() && images.names.is_empty() && images.held.is_empty() {
        return;
    }
    let used = pinned(state);
    for (id, row) in images.rows.iter() {
        if row.layers.len() > LAYERS_MAX {
            found.add(Law::PushedImages, format!("{id} has {} layers", row.layers.len()));
        }
        if used.contains(id) && row.unused_since.is_some() {
            found.add(Law::PushedImages, format!("{id} is run by a revision and counts as unused"));
        }
    }
    for (name, named) in images.names.iter().filter(|(_, named)| !images.rows.contains(&named.id)) {
        found.add(Law::PushedImages, format!("{name} leads to {}, which is not there", named.id));
    }
    for (node, held) in images.held.iter() {
        if held.is_empty() || !held.iter().all(|id| images.rows.contains(id)) {
            found.add(Law::PushedImages, format!("node {node} holds what is not there"));
        }
        if !state.nodes.contains(node) {
            found.add(Law::PushedImages, format!("node {node} is no member and holds images"));
        }
    }
}
