//! What comes before the first step of a rollout: every node that will run the new revision has its
//! image (R-ROLL-5). A registry that fails does so before anything is replaced.

use std::collections::BTreeMap;

use jaco_types::spec::{Pull, ServiceSpec};
use jaco_types::{ImageReadiness, Millis, NodeId, Preparing};

use crate::draft::{Live, Pass, ServiceDraft};

/// How long the nodes may take to fetch an image. Large images over slow lines take minutes; a
/// registry that answers nothing must not hold a rollout up for ever.
pub(crate) const PREPARE_TIMEOUT: Millis = Millis::from_secs(600);

/// How far the nodes are.
pub(crate) enum Stand {
    /// All of them are ready.
    Through,
    /// Some are not.
    Waits,
    /// It is given up, for this reason.
    Failed(String),
}

/// Begins, where some node may still have to fetch something. `places` are the nodes that the
/// successors go to, each with the instance that is there now.
pub(crate) fn begin<'a>(
    service: &ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    places: Vec<(NodeId, Option<Live<'a>>)>,
) -> Option<Preparing> {
    let spec = service.goal.spec;
    let nodes: BTreeMap<NodeId, String> = places
        .into_iter()
        .filter(|(_, there)| !has_it(spec, there.as_ref()))
        .filter_map(|(node, _)| Some((node, what_keeps(node, spec, pass)?)))
        .collect();
    let due = pass.input.now.after(PREPARE_TIMEOUT);
    (!nodes.is_empty()).then(|| {
        pass.wake(due);
        Preparing { due, nodes }
    })
}

/// Whether a node that runs this instance has the image of that spec already.
fn has_it(spec: &ServiceSpec, there: Option<&Live<'_>>) -> bool {
    let same = there.and_then(|live| live.spec).is_some_and(|old| old.image == spec.image);
    same && spec.pull != Pull::Always
}

/// What keeps a node from being ready; nothing for one that is, and for one whose daemon is too old
/// to know of this.
fn what_keeps(node: NodeId, spec: &ServiceSpec, pass: &Pass<'_>) -> Option<String> {
    let signals = pass.input.signals;
    let Some(images) = signals.images.get(&node) else {
        let is_old = signals.nodes.contains_key(&node);
        return (!is_old).then(|| "not heard of yet".to_owned());
    };
    match images.get(&spec.hash) {
        Some(ImageReadiness::Ready) => None,
        Some(ImageReadiness::Waiting { reason } | ImageReadiness::Failed { reason }) => {
            Some(reason.clone())
        }
        None => Some("not begun yet".to_owned()),
    }
}

/// Looks how far the nodes are, and writes it down.
pub(crate) fn follow<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Stand {
    let spec = service.goal.spec;
    let rollout = service.record.rollout.as_mut();
    let Some(preparing) = rollout.and_then(|rollout| rollout.preparing.as_mut()) else {
        return Stand::Through;
    };
    let nodes = std::mem::take(&mut preparing.nodes);
    let row_of = |node: NodeId| pass.nodes.find(node).map(|at| pass.nodes.row(at));
    // A node that is lost runs nothing: what is placed elsewhere instead fetches for itself.
    let there =
        nodes.into_keys().filter(|node| row_of(*node).is_some_and(|r| r.status.is_working()));
    preparing.nodes =
        there.filter_map(|node| Some((node, what_keeps(node, spec, pass)?))).collect();
    let name =
        |node: NodeId| row_of(node).map_or(String::new(), |row| row.node.hostname.to_string());
    let has_failed = |node: &NodeId| {
        let told = pass.input.signals.images.get(node).and_then(|images| images.get(&spec.hash));
        matches!(told, Some(ImageReadiness::Failed { .. }))
    };
    if let Some((node, reason)) = preparing.nodes.iter().find(|(node, _)| has_failed(node)) {
        return Stand::Failed(format!("image_pull_failed: {}: {reason}", name(*node)));
    }
    let Some((node, reason)) = preparing.nodes.first_key_value() else { return Stand::Through };
    if pass.input.now >= preparing.due {
        let name = name(*node);
        return Stand::Failed(format!(
            "prepare_timeout: {name} does not have {} after {PREPARE_TIMEOUT}: {reason}",
            spec.image
        ));
    }
    let due = preparing.due;
    pass.wake(due);
    Stand::Waits
}
