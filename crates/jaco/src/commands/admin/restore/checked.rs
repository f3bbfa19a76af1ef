//! The result of `jaco restore --check`. Pure.

use jaco_backup::{Damage, Examined};
use jaco_client::ClientError;
use jaco_proto::v1::BackupHeader;
use jaco_types::ErrorCode;
use serde_json::{Value, json};

use crate::format::table::Table;
use crate::format::time;
use crate::output::{Frame, Show};
use crate::restore::{self, Restored};

/// The files that were checked.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) files: Vec<Checked>,
}

/// A file that was checked.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) path: String,
    pub(super) result: Result<Verified, Damage>,
}

/// An undamaged backup.
#[derive(Debug)]
pub(super) struct Verified {
    pub(super) header: BackupHeader,
    pub(super) examined: Examined,
    pub(super) here: Tried,
}

/// What a restore would do in the present cluster.
#[derive(Debug)]
pub(super) enum Tried {
    NotAsked,
    Answered(Restored),
    /// The cluster did not answer, or this user may not restore.
    Failed(ClientError),
}

impl Tried {
    fn answer(&self) -> Option<&Restored> {
        match self {
            Self::Answered(restored) => Some(restored),
            Self::NotAsked | Self::Failed(_) => None,
        }
    }
}

impl Report {
    /// Why the cluster did not answer, if it was asked.
    pub(super) fn failed(self) -> Option<ClientError> {
        self.files.into_iter().find_map(|file| match file.result {
            Ok(Verified { here: Tried::Failed(error), .. }) => Some(error),
            Ok(_) | Err(_) => None,
        })
    }
}

impl Checked {
    /// Why it could not be restored: a code and a line for each reason.
    pub(super) fn faults(&self) -> Vec<(ErrorCode, String)> {
        let reasons = match &self.result {
            Err(damage) if damage.is_unchecked() => Vec::new(),
            Err(damage) => vec![(ErrorCode::BackupInvalid, damage.to_string())],
            Ok(verified) => verified.faults(),
        };
        let line = |(code, reason)| (code, format!("{}: {reason}", self.path));
        reasons.into_iter().map(line).collect()
    }

    /// Whether no key opened it, so that nothing is known of it.
    pub(super) fn is_unchecked(&self) -> bool {
        self.result.as_ref().is_err_and(Damage::is_unchecked)
    }

    fn state(&self) -> String {
        match (&self.result, self.faults().is_empty()) {
            (Err(damage), _) if damage.is_unchecked() => format!("unchecked: {damage}"),
            (Err(Damage::Io(error)), _) => format!("unreadable: {error}"),
            (Err(damage), _) => format!("damaged: {damage}"),
            (Ok(_), true) => "restorable".to_owned(),
            (Ok(_), false) => "incomplete".to_owned(),
        }
    }

    fn json(&self) -> Value {
        let mut file = json!({ "path": self.path, "restorable": self.faults().is_empty() });
        match &self.result {
            Err(damage) if damage.is_unchecked() => {
                file["restorable"] = Value::Null;
                file["unchecked"] = damage.to_string().into();
            }
            Err(damage) => file["damage"] = damage.to_string().into(),
            Ok(Verified { header, examined, here }) => {
                file["cluster"] = header.cluster_name.clone().into();
                file["cluster_id"] = header.cluster_id.clone().into();
                file["raft_index"] = header.raft_index.into();
                file["taken_at"] = time::rfc3339(header.taken_at_ms).into();
                file["version"] = header.version.clone().into();
                file["objects"] = restore::json(examined);
                file["absent"] = examined.absent().into();
                file["here"] = here.answer().map(Show::json).into();
            }
        }
        file
    }
}

impl Verified {
    /// What the file shows by itself, and else what the cluster would refuse.
    fn faults(&self) -> Vec<(ErrorCode, String)> {
        let own = self.examined.faults();
        if !own.is_empty() {
            return own;
        }
        let refusals = self.here.answer().into_iter().flat_map(Restored::refusals);
        refusals.map(|line| (ErrorCode::RestoreIncomplete, line)).collect()
    }

    fn text(&self, frame: &Frame) -> String {
        let mut text = restore::text(&self.examined);
        if let Some(here) = self.here.answer() {
            text.push_str("\nin this cluster:\n");
            text.push_str(&here.text(frame));
        }
        text.push_str("\nnot in the backup:\n");
        for line in self.examined.absent() {
            text.push_str(&format!("  {line}\n"));
        }
        text
    }
}

impl Show for Report {
    fn json(&self) -> Value {
        json!({ "files": self.files.iter().map(Checked::json).collect::<Value>() })
    }

    fn text(&self, frame: &Frame) -> String {
        let mut table = Table::new(&["FILE", "CLUSTER", "INDEX", "TAKEN AT", "VERSION", "STATE"]);
        for file in &self.files {
            let header = file.result.as_ref().ok().map(|verified| &verified.header);
            let of = |text: fn(&BackupHeader) -> String| header.map(text).unwrap_or_default();
            table.row([
                file.path.clone(),
                of(|header| header.cluster_name.clone()),
                of(|header| header.raft_index.to_string()),
                of(|header| time::rfc3339(header.taken_at_ms).unwrap_or_default()),
                of(|header| header.version.clone()),
                file.state(),
            ]);
        }
        let mut text = table.render();
        for file in &self.files {
            if let Ok(verified) = &file.result {
                text.push_str(&format!("\n{}\n", file.path));
                text.push_str(&verified.text(frame));
            }
        }
        text
    }
}
