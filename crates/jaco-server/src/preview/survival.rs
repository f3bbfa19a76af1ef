//! Whether any one node, or any one zone, can be lost without leaving replicas pending.

use jaco_proto::v1;
use jaco_scheduler::PlanInput;
use jaco_scheduler::whatif;
use jaco_types::{ErrorCode, Rejection};

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

/// The effect of the loss of each node and of each zone.
pub(super) fn both(end: &PlanInput<'_>) -> Vec<v1::Survival> {
    [Kind::Node, Kind::Zone].into_iter().map(|kind| one(end, kind)).collect()
}

fn one(end: &PlanInput<'_>, kind: Kind) -> v1::Survival {
    let nodes = end.state.nodes.values();
    let values =
        nodes.filter_map(|node| jaco_scheduler::attribute::value_of(node, kind.attribute()));
    let values: std::collections::BTreeSet<_> = values.collect();
    let rows = end.state.slots.len() + end.state.nodes.len();
    let tried = values.len().saturating_mul(rows) <= ROWS_MAX;
    let all = if tried { whatif::survival(end, kind.attribute()) } else { Vec::new() };
    let hurt = all.into_iter().filter(|loss| !loss.waiting.is_empty());
    let loss = |loss: whatif::Survival| v1::Loss {
        lost: loss.lost,
        waiting: loss.waiting.into_iter().map(|(key, count)| (key.to_string(), count)).collect(),
    };
    v1::Survival {
        of: kind.as_str().to_owned(),
        known: u32::try_from(values.len()).unwrap_or(u32::MAX),
        tried,
        losses: hurt.map(loss).collect(),
    }
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
    let lost: Vec<&str> = survival.losses.iter().map(|loss| loss.lost.as_str()).collect();
    let lost = lost.join(", ");
    let message = format!("replicas would be pending after the loss of one {word}: {lost}");
    Err(refuse(message).with(word, lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(tried: bool, known: u32, lost: &[&str]) -> v1::Preview {
        let loss = |lost: &&str| v1::Loss { lost: (*lost).to_owned(), ..v1::Loss::default() };
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
}
