//! States as a shape with a word. The colour repeats what the shape and the word say.

use jaco_proto::v1::ReplicaInfo;

use crate::html::{Element, Node, el};

/// How a state is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// As it should be.
    Good,
    /// On its way, or to be looked into.
    Warning,
    /// It does not work.
    Failing,
    /// Nothing is known, or nothing is to be expected.
    Still,
}

impl Mood {
    const fn class(self) -> &'static str {
        match self {
            Self::Good => "state good",
            Self::Warning => "state warning",
            Self::Failing => "state failing",
            Self::Still => "state still",
        }
    }

    /// Its shape.
    pub(crate) const fn shape(self) -> &'static str {
        match self {
            Self::Good => "●",
            Self::Warning => "▲",
            Self::Failing => "✕",
            Self::Still => "■",
        }
    }
}

/// The states of deployments, services, nodes and replicas.
pub(crate) fn mood(state: &str) -> Mood {
    match state {
        "active" | "running" | "ready" | "voter" | "completed" | "serves" | "succeeded" => {
            Mood::Good
        }
        "failed" | "down" | "engine_down" | "disk_full" | "degraded" | "failing" | "aborted" => {
            Mood::Failing
        }
        "stopped" | "unknown" | "learner" | "none" | "disabled" | "stopping" | "" => Mood::Still,
        _ => Mood::Warning,
    }
}

/// A state with its shape and its word.
pub(crate) fn state(state: &str) -> Node {
    let words = if state.is_empty() { "unknown".to_owned() } else { state.replace('_', " ") };
    shaped(mood(state), words).into()
}

/// Words with a shape.
pub(crate) fn shaped(mood: Mood, words: String) -> Element {
    let shape = el("span").attr("aria-hidden", "true").with(mood.shape());
    el("span").class(mood.class()).with(shape).with(" ").with(words)
}

/// How a replica is to be taken: what a user stopped is not failing.
pub(crate) fn of_replica(replica: &ReplicaInfo) -> Mood {
    match (replica.state.as_str(), replica.code.as_str()) {
        ("stopped" | "pending", "disabled") => Mood::Still,
        (state, _) => mood(state),
    }
}
