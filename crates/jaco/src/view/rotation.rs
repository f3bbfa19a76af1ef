//! The rotation of the cluster's authority.

use std::fmt::Write as _;

use jaco_proto::v1::{RotationInfo, TokenInfo};
use serde_json::{Value, json};

use super::json::without_null;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Frame, Show};

/// The result of `jaco cluster rotate-ca`.
#[derive(Debug)]
pub(crate) struct Rotation<'a> {
    /// Absent where the authority was never rotated.
    pub(crate) info: Option<&'a RotationInfo>,
    /// Operators' tokens and certificates that were not used since it began; absent where that was not asked.
    pub(crate) unseen: Option<Vec<&'a TokenInfo>>,
}

impl Show for Rotation<'_> {
    fn json(&self) -> Value {
        let unseen = self.unseen.as_ref();
        let unseen = unseen.map(|all| all.iter().map(|one| one.id.as_str()).collect::<Vec<_>>());
        let rotation = self.info.map(|info| {
            let members = info.members.iter();
            let members = members.map(|one| json!({ "node": one.hostname, "step": one.step }));
            json!({
                "id": info.id,
                "phase": info.phase,
                "begun_at": time::rfc3339(info.begun_at_ms),
                "since": time::rfc3339(info.since_ms),
                "old": info.old_fingerprint,
                "new": info.new_fingerprint,
                "members": members.collect::<Vec<_>>(),
                "waits_for": info.holders,
            })
        });
        let mut json = without_null(json!({ "unseen": unseen }));
        json["rotation"] = rotation.unwrap_or(Value::Null);
        json
    }

    fn text(&self, _: &Frame) -> String {
        let Some(info) = self.info else {
            return "The authority was never rotated.\n".to_owned();
        };
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            writeln!(text, "{name:<12}{value}").expect("writing to a string cannot fail");
        };
        line("Phase", &info.phase);
        line("Since", &time::rfc3339(info.since_ms).unwrap_or_default());
        line("Old", &info.old_fingerprint);
        line("New", &info.new_fingerprint);
        let mut table = Table::new(&["NODE", "HAS"]);
        for member in &info.members {
            let step = if member.step.is_empty() { "-" } else { &member.step };
            table.row([member.hostname.clone(), step.to_owned()]);
        }
        format!("{text}\n{}{}\n{}", table.render(), self.unseen_text(), next(info))
    }
}

impl Rotation<'_> {
    /// Who would have to get the new certificate by hand.
    fn unseen_text(&self) -> String {
        let Some(unseen) = self.unseen.as_ref().filter(|unseen| !unseen.is_empty()) else {
            return String::new();
        };
        let names: Vec<&str> = unseen.iter().map(|one| one.id.as_str()).collect();
        format!(
            "\nNot seen since it began, as far as is recorded (once in an hour): {}\n",
            names.join(", ")
        )
    }
}

/// What comes next, and who has to act.
fn next(info: &RotationInfo) -> String {
    let holders = info.holders.join(", ");
    let waits = |step: &str| format!("Waits until {holders} {step}.\n");
    match (info.phase.as_str(), info.holders.is_empty()) {
        ("trusting", false) => waits("trusts both authorities"),
        ("trusting", true) => {
            "All members trust both authorities. Once everyone outside does, too:\n  jaco cluster rotate-ca --continue\n"
                .to_owned()
        }
        ("renewing", false) => waits("uses certificates of the new authority only"),
        ("renewing", true) => "All members use the new authority only; the old one is dropped in a moment.\n".to_owned(),
        (_, false) => waits("drops the other authority"),
        ("settled", true) => {
            "The old authority is trusted by no member any more. If its key was stolen, whoever has it may also have what \
             was sealed: change secrets at their source.\n"
                .to_owned()
        }
        (_, true) => "The old authority is the cluster's, and the new one is trusted by no member.\n".to_owned(),
    }
}
