//! Steps, and which of them hold.

use jaco_proto::v1;

/// What is checked, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Network,
    Name,
    Endpoints,
    Tunnel,
    Applied,
    Connect,
    Route,
    Certificate,
    Edges,
}

impl Step {
    /// Its name, which is part of the interface.
    fn as_str(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Name => "name",
            Self::Endpoints => "endpoints",
            Self::Tunnel => "tunnel",
            Self::Applied => "applied",
            Self::Connect => "connect",
            Self::Route => "route",
            Self::Certificate => "certificate",
            Self::Edges => "edges",
        }
    }
}

/// A step that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) step: Step,
    pub(super) detail: String,
    pub(super) fix: String,
}

impl Broken {
    pub(super) fn new(step: Step, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { step, detail: detail.into(), fix: fix.into() }
    }
}

/// What was found on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    held: Vec<(&'static str, String)>,
    broken: Option<Broken>,
}

impl Walk {
    /// The one of a service that has no replica which could ask.
    pub(crate) fn nobody(from: &str) -> Self {
        Self::broken_at(Broken::new(
            Step::Network,
            format!("{from} has no replica that could ask"),
            format!("see why it has none: jaco explain {from}"),
        ))
    }

    pub(super) fn broken_at(broken: Broken) -> Self {
        Self { held: Vec::new(), broken: Some(broken) }
    }

    pub(super) fn hold(&mut self, step: Step, detail: String) {
        self.held.push((step.as_str(), detail));
    }

    pub(super) fn end(&mut self, broken: Broken) {
        self.broken = Some(broken);
    }

    /// Whether all of it holds.
    pub(crate) fn holds(&self) -> bool {
        self.broken.is_none()
    }

    /// As messages, the broken one last.
    pub(crate) fn steps(&self) -> Vec<v1::PathStep> {
        let held = self.held.iter().map(|(step, detail)| v1::PathStep {
            step: (*step).to_owned(),
            holds: true,
            detail: detail.clone(),
            fix: String::new(),
        });
        let broken = self.broken.iter().map(|broken| v1::PathStep {
            step: broken.step.as_str().to_owned(),
            holds: false,
            detail: broken.detail.clone(),
            fix: broken.fix.clone(),
        });
        held.chain(broken).collect()
    }
}

/// Microseconds as users read them.
pub(super) fn millis(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}
