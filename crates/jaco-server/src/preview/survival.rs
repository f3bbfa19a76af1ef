//! Whether any one node, or any one zone, can be lost without leaving a replica without a place.

use jaco_proto::v1;
use jaco_scheduler::PlanInput;
use jaco_scheduler::whatif;
use jaco_types::{ErrorCode, Rejection};

/// How many rows of the state may be looked at: each loss is a pass of its own, and a preview is
/// waited for. 100 nodes with 2,000 replicas fit.
const ROWS_MAX: usize = 400_000;

/// What may be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One node.
    Node,
    /// All nodes of one zone.
    Zone,
}

impl Kind {
    /// Reads the word that users write.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Node, Self::Zone].into_iter().find(|kind| kind.as_str() == text)
    }

    /// The word that users write.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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

/// What the loss of any node and of any zone would do.
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

/// Whether the loss of any one of `kind` was tried and survived.
///
/// # Errors
/// `would_not_survive`, naming what cannot be lost, or why it is not known.
pub fn survives(preview: &v1::Preview, kind: Kind) -> Result<(), Rejection> {
    let word = kind.as_str();
    let refuse = |message: String| Rejection::new(ErrorCode::WouldNotSurvive, message);
    let found = preview.survival.iter().find(|survival| survival.of == word);
    let Some(survival) = found.filter(|survival| survival.tried) else {
        return Err(refuse(format!("the cluster is too large to try the loss of each {word}")));
    };
    if survival.known == 0 {
        let message = format!("no node has a {word}, so the loss of one cannot be tried");
        return Err(refuse(message));
    }
    if survival.losses.is_empty() {
        return Ok(());
    }
    let lost: Vec<&str> = survival.losses.iter().map(|loss| loss.lost.as_str()).collect();
    let lost = lost.join(", ");
    let message = format!("replicas would have no place if one {word} were lost: {lost}");
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

    /// R-CLI-2: what was not tried does not count as survived.
    #[test]
    fn only_what_was_tried_survives() {
        let check = |preview: &v1::Preview| survives(preview, Kind::Zone).map_err(|r| r.message);
        assert_eq!(check(&preview(true, 2, &[])), Ok(()));
        assert!(check(&preview(true, 2, &["a", "b"])).unwrap_err().ends_with("lost: a, b"));
        assert!(check(&preview(true, 0, &[])).unwrap_err().contains("no node has a zone"));
        assert!(check(&preview(false, 2, &[])).unwrap_err().contains("too large"));
        assert!(survives(&preview(true, 2, &[]), Kind::Node).is_err());
    }
}
