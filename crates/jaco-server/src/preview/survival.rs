//! Whether any one node, or any one zone, can be lost without leaving replicas pending, or the cluster without a quorum.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jaco_proto::v1;
use jaco_scheduler::PlanInput;
use jaco_scheduler::whatif;
use jaco_state::ClusterState;
use jaco_types::{ErrorCode, NodeId, NodeStatus, Rejection};

/// Bounds the work: each loss is a planner pass, and the user waits for the preview. Enough for 100 nodes with
/// 2,000 replicas.
const ROWS_MAX: usize = 400_000;

/// The unit that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One node.
    Node,
    /// All nodes of one zone.
    Zone,
}

impl Kind {
    /// Parses the user's spelling.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Node, Self::Zone].into_iter().find(|kind| kind.as_str() == text)
    }

    /// The user's spelling.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Zone => "zone",
        }
    }

    const fn attribute(self) -> &'static str {
        match self {
            Self::Node => "node.hostname",
            Self::Zone => "node.zone",
        }
    }
}

/// The effect of the loss of each node and of each zone, where these nodes vote.
pub(super) fn both(end: &PlanInput<'_>, voters: &BTreeSet<u64>) -> Vec<v1::Survival> {
    [Kind::Node, Kind::Zone].into_iter().map(|kind| one(end, kind, voters)).collect()
}

fn one(end: &PlanInput<'_>, kind: Kind, voters: &BTreeSet<u64>) -> v1::Survival {
    let groups = groups(end.state, kind);
    let rows = end.state.slots.len() + end.state.nodes.len();
    let tried = groups.len().saturating_mul(rows) <= ROWS_MAX;
    let all = if tried { whatif::survival(end, kind.attribute()) } else { Vec::new() };
    let named = all.into_iter().map(|loss| (loss.lost, loss.waiting));
    let mut pending: BTreeMap<String, _> = named.collect();
    let loss = |(lost, nodes): (&Cow<'_, str>, &BTreeSet<NodeId>)| {
        let waiting = pending.remove(&**lost).unwrap_or_default().into_iter();
        let waiting = waiting.map(|(key, count)| (key.to_string(), count)).collect();
        let quorum_lost = tried && !has_quorum_without(end.state, voters, nodes);
        v1::Loss { lost: lost.to_string(), waiting, quorum_lost }
    };
    let losses = groups.iter().map(loss).filter(|it| it.quorum_lost || !it.waiting.is_empty());
    let losses = losses.collect();
    let known = u32::try_from(groups.len()).unwrap_or(u32::MAX);
    v1::Survival { of: kind.as_str().to_owned(), known, tried, losses }
}

/// The nodes that would be lost at once, by what they have in common.
fn groups(state: &ClusterState, kind: Kind) -> BTreeMap<Cow<'_, str>, BTreeSet<NodeId>> {
    let mut groups: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for node in state.nodes.values() {
        if let Some(value) = jaco_scheduler::attribute::value_of(node, kind.attribute()) {
            groups.entry(value).or_default().insert(node.id);
        }
    }
    groups
}

/// Whether more than half of the voters are up and not among the lost ones.
fn has_quorum_without(
    state: &ClusterState,
    voters: &BTreeSet<u64>,
    lost: &BTreeSet<NodeId>,
) -> bool {
    let is_left = |id: &&u64| {
        let id = NodeId(**id);
        let node = state.nodes.get(&id).filter(|_| !lost.contains(&id));
        node.is_some_and(|node| node.status != NodeStatus::Down)
    };
    2 * voters.iter().filter(is_left).count() > voters.len()
}

/// Whether the cluster survives the loss of any one `kind`.
///
/// # Errors
/// `would_not_survive`, with what cannot be lost, or why that is unknown.
pub(crate) fn survives(preview: &v1::Preview, kind: Kind) -> Result<(), Rejection> {
    let word = kind.as_str();
    let refuse = |message: String| Rejection::new(ErrorCode::WouldNotSurvive, message);
    let found = preview.survival.iter().find(|survival| survival.of == word);
    let Some(survival) = found.filter(|survival| survival.tried) else {
        return Err(refuse(format!("the cluster is too large to compute the loss of each {word}")));
    };
    if survival.known == 0 {
        let message = format!(
            "no node has a {word} label, so the loss of a {word} cannot be computed; set it with \
                               `jaco node label`"
        );
        return Err(refuse(message));
    }
    if survival.losses.is_empty() {
        return Ok(());
    }
    let names = |is_meant: &dyn Fn(&v1::Loss) -> bool| {
        let losses = survival.losses.iter().filter(|loss| is_meant(loss));
        losses.map(|loss| loss.lost.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (pending, mute) =
        (names(&|loss| !loss.waiting.is_empty()), names(&|loss| loss.quorum_lost));
    let pending = (!pending.is_empty())
        .then(|| format!("replicas would be pending after the loss of one {word}: {pending}"));
    let mute = (!mute.is_empty()).then(|| {
        format!("the cluster would have no quorum after the loss of one {word}, and replace nothing: {mute}")
    });
    let message: Vec<String> = pending.into_iter().chain(mute).collect();
    Err(refuse(message.join("; ")).with(word, names(&|_| true)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::path::tests::history::History;

    fn preview(tried: bool, known: u32, lost: &[&str]) -> v1::Preview {
        let waiting = std::collections::HashMap::from([("shop/web".to_owned(), 1)]);
        let loss = |lost: &&str| {
            let lost = (*lost).to_owned();
            v1::Loss { lost, waiting: waiting.clone(), quorum_lost: false }
        };
        let losses = lost.iter().map(loss).collect();
        let survival = v1::Survival { of: "zone".to_owned(), known, tried, losses };
        v1::Preview { survival: vec![survival], ..v1::Preview::default() }
    }

    /// R-CLI-2: a loss that was not computed does not count as survived.
    #[test]
    fn only_computed_losses_count_as_survived() {
        let check = |preview: &v1::Preview| survives(preview, Kind::Zone).map_err(|r| r.message);
        assert_eq!(check(&preview(true, 2, &[])), Ok(()));
        assert!(
            check(&preview(true, 2, &["a", "b"])).unwrap_err().ends_with("loss of one zone: a, b")
        );
        assert!(check(&preview(true, 0, &[])).unwrap_err().contains("no node has a zone label"));
        assert!(check(&preview(false, 2, &[])).unwrap_err().contains("too large"));
        assert!(survives(&preview(true, 2, &[]), Kind::Node).is_err());
    }

    /// R-CLI-2: a loss after which there is no quorum is not survived, also where replicas would find a place.
    #[test]
    fn a_lost_quorum_is_not_survived() {
        let mut preview = preview(true, 3, &["a"]);
        let losses = &mut preview.survival[0].losses;
        losses.push(v1::Loss { lost: "b".to_owned(), quorum_lost: true, ..v1::Loss::default() });
        let refused = survives(&preview, Kind::Zone).unwrap_err();
        assert_eq!(
            refused.message,
            "replicas would be pending after the loss of one zone: a; the cluster would have no quorum after the loss of \
             one zone, and replace nothing: b"
        );
        assert_eq!(refused.details["zone"], "a, b");

        let mut history = History::founded();
        let [n1, n2, n3] = [NodeId::FIRST, history.join("n2"), history.join("n3")];
        for node in [n1, n2, n3] {
            history.state.nodes.get_mut(&node).unwrap().status = NodeStatus::Ready;
        }
        let voters = BTreeSet::from([n1.0, n2.0, n3.0]);
        let survives = |state: &ClusterState, lost: &[NodeId]| {
            has_quorum_without(state, &voters, &lost.iter().copied().collect())
        };
        assert!(survives(&history.state, &[n1]));
        assert!(!survives(&history.state, &[n1, n3]));
        history.state.nodes.get_mut(&n3).unwrap().status = NodeStatus::Down;
        assert!(survives(&history.state, &[]) && survives(&history.state, &[n3]));
        assert!(!survives(&history.state, &[n1]));
    }
}
