//! Pre-pull, before the first step of a rollout: the image is resolved to a digest, and every node that
//! will run the new revision fetches it (R-ROLL-5). A registry that fails does so before anything is
//! replaced.

use std::collections::BTreeMap;

use jaco_state::Change;
use jaco_types::spec::{PullPolicy, ServiceSpec};
use jaco_types::{FirstWatch, ImageDigest, ImageNeed, ImageReadiness, Millis, NodeId, Prepull};

use crate::draft::{Draft, InstanceDraft, Pass, ServiceDraft, SlotDraft};

/// How long the nodes may take to fetch an image. Large images over slow lines take minutes; a
/// registry that answers nothing must not hold a rollout up for ever.
pub(crate) const PREPARE_TIMEOUT: Millis = Millis::from_secs(600);

/// How far the pre-pull is.
pub(crate) enum Progress {
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
    service: &mut ServiceDraft<'a>,
    pass: &mut Pass<'a>,
    places: Vec<(NodeId, Option<InstanceDraft<'a>>)>,
) -> Option<Prepull> {
    let image = Image::resolved_by(service, pass, places.iter().map(|(node, _)| *node));
    let asked =
        places.into_iter().filter(|(_, there)| !image.is_run_by(service, there.as_ref(), pass));
    let nodes = image.keeps(asked.map(|(node, _)| node), pass);
    let due = pass.input.now.after(PREPARE_TIMEOUT);
    (!nodes.is_empty()).then(|| {
        pass.wake(due);
        Prepull { due, nodes }
    })
}

/// Pins the image of a service whose first replicas are watched to the digest that the first node of
/// them reports. Nobody waits for it: what is started from then on runs the same, whatever becomes of the
/// name.
pub(crate) fn pin_first(draft: &mut Draft<'_>) {
    for at in draft.order().iter() {
        let (service, pass) = draft.open(*at);
        let is_asked = service.record.first_watch == FirstWatch::Open
            && service.record.rollout.is_none()
            && service.goal().spec.pull == PullPolicy::Missing;
        if is_asked {
            let runs = |slot: &&SlotDraft<'_>| slot.current.hash == service.goal().spec.hash;
            let nodes = service.slots.iter().filter(runs).map(|slot| slot.current.node);
            let nodes: Vec<NodeId> = nodes.collect();
            Image::resolved_by(service, pass, nodes.into_iter());
        }
    }
}

/// The image that a rollout leads to.
struct Image<'a> {
    spec: &'a ServiceSpec,
    /// The resolved digest, once there is one.
    digest: Option<ImageDigest>,
    /// Whether this rollout resolves it at all.
    resolution: Resolution,
}

/// Whether an image is to be resolved to a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resolution {
    /// The first node that knows says it.
    Wanted,
    /// Each node has what its name leads to.
    No,
}

/// How a node stands with an image.
enum Answer<'a> {
    /// It has it.
    Has,
    /// It has something by that name that came from no registry.
    HasUnnamed,
    /// It does not have it yet.
    HasNot(&'a str),
    /// It gave up.
    Failed(&'a str),
}

impl<'a> Image<'a> {
    /// What is known of the image now. Where it is not resolved yet, the first of these nodes that
    /// knows its digest resolves it.
    fn resolved_by(
        service: &mut ServiceDraft<'a>,
        pass: &mut Pass<'a>,
        nodes: impl Iterator<Item = NodeId>,
    ) -> Self {
        let (spec, revision) = (service.goal().spec, service.goal().revision);
        let digest = pass.input.state.image_digest(&service.key, revision).cloned();
        let resolved = digest.or_else(|| service.resolved.clone());
        let mut image = Self { spec, digest: resolved, resolution: resolution(spec) };
        if image.digest.is_some() || image.resolution == Resolution::No {
            return image;
        }
        let need = image.need();
        let digest = nodes.into_iter().find_map(|node| {
            match pass.input.signals.images.get(&node)?.get(&need)? {
                ImageReadiness::Ready { digest } => digest.clone(),
                ImageReadiness::Waiting { .. } | ImageReadiness::Failed { .. } => None,
            }
        });
        if let Some(digest) = digest.clone() {
            service.resolved = Some(digest.clone());
            let service = service.key.clone();
            pass.changes.push(Change::ImageResolve { service, revision, digest });
        }
        image.digest = digest;
        image
    }

    fn need(&self) -> ImageNeed {
        ImageNeed { spec: self.spec.hash, digest: self.digest.clone() }
    }

    /// Whether a node that runs this instance has the image already.
    fn is_run_by(
        &self,
        service: &ServiceDraft<'_>,
        there: Option<&InstanceDraft<'_>>,
        pass: &Pass<'_>,
    ) -> bool {
        let Some(live) = there else { return false };
        let is_same = live.spec.is_some_and(|old| old.image == self.spec.image);
        let theirs = pass.input.state.image_digest(&service.key, live.revision);
        // Where nothing is resolved yet, a node that runs it is asked what it has.
        let is_resolved = match &self.digest {
            Some(digest) => theirs == Some(digest),
            None => self.resolution == Resolution::No,
        };
        is_same && is_resolved && self.spec.pull != PullPolicy::Always
    }

    /// What this node says of it; nothing where its daemon is too old to know of this.
    fn answer<'s>(&self, node: NodeId, pass: &'s Pass<'_>) -> Option<Answer<'s>> {
        let signals = pass.input.signals;
        let Some(images) = signals.images.get(&node) else {
            let is_old = signals.nodes.contains_key(&node);
            return (!is_old).then_some(Answer::HasNot("no report yet"));
        };
        // It may have reported what its name led to before that was resolved.
        let by_name = images.get(&ImageNeed { spec: self.spec.hash, digest: None });
        let reported = match by_name {
            Some(ImageReadiness::Ready { digest }) if *digest == self.digest => by_name,
            _ => images.get(&self.need()),
        };
        Some(match reported {
            Some(ImageReadiness::Ready { digest: None })
                if self.resolution == Resolution::Wanted =>
            {
                Answer::HasUnnamed
            }
            Some(ImageReadiness::Ready { .. }) => Answer::Has,
            Some(ImageReadiness::Waiting { reason }) => Answer::HasNot(reason),
            Some(ImageReadiness::Failed { reason }) => Answer::Failed(reason),
            None => Answer::HasNot("not begun yet"),
        })
    }

    /// What keeps each of these nodes that is not ready. One that has the image from no registry is
    /// asked once more should another one resolve it.
    fn keeps(
        &self,
        nodes: impl Iterator<Item = NodeId>,
        pass: &Pass<'_>,
    ) -> BTreeMap<NodeId, String> {
        let mut keeps = BTreeMap::new();
        let mut unnamed = Vec::new();
        for node in nodes {
            match self.answer(node, pass) {
                None | Some(Answer::Has) => {}
                Some(Answer::HasUnnamed) => unnamed.push(node),
                Some(Answer::HasNot(reason) | Answer::Failed(reason)) => {
                    keeps.insert(node, reason.to_owned());
                }
            }
        }
        if !keeps.is_empty() {
            let reason = "has an image of this name that came from no registry";
            keeps.extend(unnamed.into_iter().map(|node| (node, reason.to_owned())));
        }
        keeps
    }
}

/// Whether this rollout resolves its image: not where users did, or want what each node has
/// under that name.
fn resolution(spec: &ServiceSpec) -> Resolution {
    let is_resolved = spec.image.contains('@') || spec.pull == PullPolicy::Never;
    match is_resolved {
        true => Resolution::No,
        false => Resolution::Wanted,
    }
}

/// Looks how far the nodes are, and writes it down.
pub(crate) fn follow<'a>(service: &mut ServiceDraft<'a>, pass: &mut Pass<'a>) -> Progress {
    let rollout = service.record.rollout.as_mut();
    let Some(preparing) = rollout.and_then(|rollout| rollout.prepull.as_mut()) else {
        return Progress::Through;
    };
    let nodes: Vec<NodeId> = std::mem::take(&mut preparing.nodes).into_keys().collect();
    let due = preparing.due;
    // A node that is lost runs nothing: what is placed elsewhere instead fetches for itself.
    let is_there = |node: &NodeId| {
        pass.nodes.find(*node).is_some_and(|at| pass.nodes.row(at).status.is_working())
    };
    let nodes: Vec<NodeId> = nodes.into_iter().filter(is_there).collect();
    let image = Image::resolved_by(service, pass, nodes.iter().copied());
    let keeps = image.keeps(nodes.iter().copied(), pass);
    let name = |node: NodeId| {
        let at = pass.nodes.find(node);
        at.map_or(String::new(), |at| pass.nodes.row(at).node.hostname.to_string())
    };
    let has_failed = |node: &NodeId| matches!(image.answer(*node, pass), Some(Answer::Failed(_)));
    let progress = match (keeps.iter().find(|(node, _)| has_failed(node)), keeps.first_key_value())
    {
        (Some((node, reason)), _) => {
            Progress::Failed(format!("image_pull_failed: {}: {reason}", name(*node)))
        }
        (None, None) => Progress::Through,
        (None, Some((node, reason))) if pass.input.now >= due => Progress::Failed(format!(
            "prepare_timeout: {} does not have {} after {PREPARE_TIMEOUT}: {reason}",
            name(*node),
            service.goal().spec.image
        )),
        (None, Some(_)) => Progress::Waits,
    };
    if matches!(progress, Progress::Waits) {
        pass.wake(due);
    }
    let rollout = service.record.rollout.as_mut();
    if let Some(preparing) = rollout.and_then(|rollout| rollout.prepull.as_mut()) {
        preparing.nodes = keeps;
    }
    progress
}
