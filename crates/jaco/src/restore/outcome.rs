//! What became of each thing in a backup, for people and programs. Pure.

use jaco_types::ErrorCode;
use serde_json::{Map, Value, json};

use crate::ship::Sending;
use crate::table::Table;
use crate::ui::{Frame, Show};
use crate::view::without_null;

/// What a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Retention,
    Constraint,
    Node,
    Config,
    Secret,
    Registry,
    Deployment,
    Disabled,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Constraint => "constraint",
            Self::Node => "node",
            Self::Config => "config",
            Self::Secret => "secret",
            Self::Registry => "registry",
            Self::Deployment => "deployment",
            Self::Disabled => "disabled",
        }
    }
}

/// What became of it, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Done {
    /// It is as in the backup now.
    Restored,
    /// It was before.
    Unchanged,
    /// It is there and differs, and was left as it is.
    Skipped { reason: String },
    /// The cluster refused it.
    Refused { code: ErrorCode, reason: String },
}

/// [`Done`] without the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is as in the backup now.
    Restored,
    /// It was before.
    Unchanged,
    /// It is there and differs, and was left as it is.
    Skipped,
    /// The cluster refused it.
    Refused,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Restored, Self::Unchanged, Self::Skipped, Self::Refused];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Unchanged => "unchanged",
            Self::Skipped => "skipped",
            Self::Refused => "refused",
        }
    }
}

/// A thing in a backup, and what became of it.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) done: Done,
}

impl Item {
    fn outcome(&self) -> Outcome {
        match self.done {
            Done::Restored => Outcome::Restored,
            Done::Unchanged => Outcome::Unchanged,
            Done::Skipped { .. } => Outcome::Skipped,
            Done::Refused { .. } => Outcome::Refused,
        }
    }

    fn reason(&self) -> Option<&str> {
        match &self.done {
            Done::Restored | Done::Unchanged => None,
            Done::Skipped { reason } | Done::Refused { reason, .. } => Some(reason),
        }
    }

    fn code(&self) -> Option<&'static str> {
        match &self.done {
            Done::Restored | Done::Unchanged | Done::Skipped { .. } => None,
            Done::Refused { code, .. } => Some(code.as_str()),
        }
    }
}

/// All that became of a backup.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(super) items: Vec<Item>,
    pub(super) sending: Sending,
}

impl Restored {
    /// How many things came to this.
    pub(crate) fn of(&self, outcome: Outcome) -> usize {
        self.items.iter().filter(|item| item.outcome() == outcome).count()
    }

    /// A line for each refusal.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let line = |item: &Item| {
            let (code, reason) = (item.code()?, item.reason()?);
            Some(format!("{} {}: {reason} [{code}]", item.kind.as_str(), item.name))
        };
        self.items.iter().filter_map(line).collect()
    }

    fn word(&self, outcome: Outcome) -> &'static str {
        match (self.sending, outcome) {
            (Sending::Nothing, Outcome::Restored) => "would be restored",
            (Sending::Nothing, Outcome::Refused) => "would be refused",
            (Sending::Store, Outcome::Restored | Outcome::Refused)
            | (_, Outcome::Unchanged | Outcome::Skipped) => outcome.as_str(),
        }
    }
}

impl Show for Restored {
    fn json(&self) -> Value {
        let item = |item: &Item| {
            without_null(json!({
                "kind": item.kind.as_str(),
                "name": item.name,
                "outcome": item.outcome().as_str(),
                "code": item.code(),
                "reason": item.reason(),
            }))
        };
        let count = |outcome: Outcome| (outcome.as_str().to_owned(), self.of(outcome).into());
        let counts: Map<String, Value> = Outcome::ALL.map(count).into_iter().collect();
        json!({
            "dry_run": self.sending == Sending::Nothing,
            "counts": counts,
            "items": self.items.iter().map(item).collect::<Value>(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        if self.items.is_empty() {
            return "nobody had said anything when the backup was taken\n".to_owned();
        }
        let mut table = Table::new(&["KIND", "NAME", "OUTCOME", "REASON"]);
        for item in &self.items {
            table.row([
                item.kind.as_str().to_owned(),
                item.name.clone(),
                self.word(item.outcome()).to_owned(),
                item.reason().unwrap_or_default().to_owned(),
            ]);
        }
        table.render()
    }
}
