//! The result of a restore. Pure.

use jaco_backup::Kind;
use jaco_types::ErrorCode;
use serde_json::{Map, Value, json};

use crate::format::table::Table;
use crate::output::{Frame, Show};
use crate::upload::UploadMode;
use crate::view::json::without_null;

/// What a restore did with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepResult {
    /// It now equals that of the backup.
    Restored,
    /// It was equal before.
    Unchanged,
    /// It differs and was not changed.
    Skipped { reason: String },
    /// The cluster refused it.
    Refused { code: ErrorCode, reason: String },
}

/// A [`StepResult`] without its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It now equals that of the backup.
    Restored,
    /// It was equal before.
    Unchanged,
    /// It differs and was not changed.
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

/// An object of the backup with its result.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) result: StepResult,
}

impl Item {
    fn outcome(&self) -> Outcome {
        match self.result {
            StepResult::Restored => Outcome::Restored,
            StepResult::Unchanged => Outcome::Unchanged,
            StepResult::Skipped { .. } => Outcome::Skipped,
            StepResult::Refused { .. } => Outcome::Refused,
        }
    }

    fn reason(&self) -> Option<&str> {
        match &self.result {
            StepResult::Restored | StepResult::Unchanged => None,
            StepResult::Skipped { reason } | StepResult::Refused { reason, .. } => Some(reason),
        }
    }

    fn code(&self) -> Option<&'static str> {
        match &self.result {
            StepResult::Restored | StepResult::Unchanged | StepResult::Skipped { .. } => None,
            StepResult::Refused { code, .. } => Some(code.as_str()),
        }
    }
}

/// The result of a restore.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(super) items: Vec<Item>,
    pub(super) mode: UploadMode,
}

impl Restored {
    /// The number of objects with this outcome.
    pub(crate) fn number_of(&self, outcome: Outcome) -> usize {
        self.items.iter().filter(|item| item.outcome() == outcome).count()
    }

    /// The number of skipped objects that belong to the policy, which only `--policy` restores.
    pub(crate) fn number_of_policy_skipped(&self) -> usize {
        let of_policy = |item: &&Item| matches!(item.kind, Kind::Policy | Kind::Grants);
        let skipped = self.items.iter().filter(|item| item.outcome() == Outcome::Skipped);
        skipped.filter(of_policy).count()
    }

    /// The number of targets of notifications that are paused now.
    pub(crate) fn number_of_paused(&self) -> usize {
        let restored = self.items.iter().filter(|item| item.outcome() == Outcome::Restored);
        restored.filter(|item| item.kind == Kind::NotifyTarget).count()
    }

    /// A line for each refused object.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let line = |item: &Item| {
            let (code, reason) = (item.code()?, item.reason()?);
            Some(format!("{} {}: {reason} [{code}]", item.kind.as_str(), item.name))
        };
        self.items.iter().filter_map(line).collect()
    }

    fn label(&self, outcome: Outcome) -> &'static str {
        match (self.mode, outcome) {
            (UploadMode::DryRun, Outcome::Restored) => "would be restored",
            (UploadMode::DryRun, Outcome::Refused) => "would be refused",
            (UploadMode::Store, Outcome::Restored | Outcome::Refused)
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
        let count =
            |outcome: Outcome| (outcome.as_str().to_owned(), self.number_of(outcome).into());
        let counts: Map<String, Value> = Outcome::ALL.map(count).into_iter().collect();
        json!({
            "dry_run": self.mode == UploadMode::DryRun,
            "counts": counts,
            "items": self.items.iter().map(item).collect::<Value>(),
        })
    }

    fn text(&self, _: &Frame) -> String {
        if self.items.is_empty() {
            return "the backup is empty\n".to_owned();
        }
        let mut table = Table::new(&["KIND", "NAME", "OUTCOME", "REASON"]);
        for item in &self.items {
            table.row([
                item.kind.as_str().to_owned(),
                item.name.clone(),
                self.label(item.outcome()).to_owned(),
                item.reason().unwrap_or_default().to_owned(),
            ]);
        }
        table.render()
    }
}
