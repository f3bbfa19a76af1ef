//! What was measured, as one line of JSON each; and what is said on the way.

use serde::Serialize;

/// One figure, once per round.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) ours: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) theirs: Option<Theirs>,
}

/// The same figure of another product, from the same rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Theirs {
    pub(crate) who: &'static str,
    pub(crate) figures: Vec<f64>,
}

impl Figure {
    /// Of ours alone.
    pub(crate) fn alone(name: impl Into<String>, unit: &'static str, ours: Vec<f64>) -> Self {
        Self { name: name.into(), unit, ours, theirs: None }
    }

    /// Our figure next to another product's.
    pub(crate) fn beside(
        name: impl Into<String>,
        unit: &'static str,
        ours: Vec<f64>,
        who: &'static str,
        figures: Vec<f64>,
    ) -> Self {
        Self { name: name.into(), unit, ours, theirs: Some(Theirs { who, figures }) }
    }
}

/// Hands the figures over.
#[expect(clippy::print_stdout, reason = "stdout is where the figures go")]
pub(crate) fn print(figures: &[Figure]) {
    for figure in figures {
        println!("{}", serde_json::to_string(figure).expect("numbers and names are valid JSON"));
    }
}

/// Says how far it is.
#[expect(clippy::print_stderr, reason = "stderr is where progress goes")]
pub(crate) fn say(text: &str) {
    eprintln!("bench: {text}");
}
