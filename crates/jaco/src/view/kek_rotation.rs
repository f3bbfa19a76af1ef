//! The rotation of the key-encryption key.

use std::fmt::Write as _;

use jaco_proto::v1::KekRotationInfo;
use serde_json::{Value, json};

use crate::format::quantity::count;
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Frame, Show};

/// The result of `jaco cluster rotate-kek`.
#[derive(Debug)]
pub(crate) struct KekRotation<'a> {
    /// Absent where the key was never rotated.
    pub(crate) info: Option<&'a KekRotationInfo>,
}

impl Show for KekRotation<'_> {
    fn json(&self) -> Value {
        let rotation = self.info.map(|info| {
            let members = info.members.iter();
            let members = members.map(|one| json!({ "node": one.hostname, "step": one.step }));
            json!({
                "id": info.id,
                "phase": info.phase,
                "begun_at": time::rfc3339(info.begun_at_ms),
                "since": time::rfc3339(info.since_ms),
                "old": info.old_key,
                "new": info.new_key,
                "members": members.collect::<Vec<_>>(),
                "waits_for": info.holders,
                "left": info.left,
                "first_left": info.first_left,
            })
        });
        json!({ "rotation": rotation })
    }

    fn text(&self, _: &Frame) -> String {
        let Some(info) = self.info else {
            return "The key-encryption key was never rotated.\n".to_owned();
        };
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            writeln!(text, "{name:<12}{value}").expect("writing to a string cannot fail");
        };
        line("Phase", &info.phase);
        line("Since", &time::rfc3339(info.since_ms).unwrap_or_default());
        line("Old", &info.old_key);
        line("New", &info.new_key);
        let mut table = Table::new(&["NODE", "HAS"]);
        for member in &info.members {
            let step = if member.step.is_empty() { "-" } else { &member.step };
            table.row([member.hostname.clone(), step.to_owned()]);
        }
        format!("{text}\n{}\n{}", table.render(), next(info))
    }
}

/// What comes next, and who has to act.
fn next(info: &KekRotationInfo) -> String {
    let holders = info.holders.join(", ");
    let have = if info.holders.len() == 1 { "has" } else { "have" };
    match (info.phase.as_str(), info.holders.is_empty()) {
        ("handing_out", false) => format!("Waits until {holders} {have} the new key.\n"),
        ("handing_out", true) => {
            "All members have the new key; it seals in a moment.\n".to_owned()
        }
        ("resealing", false) => format!("Waits until {holders} {have} the new key.\n"),
        ("resealing", true) if info.left > 0 => {
            let left = usize::try_from(info.left).unwrap_or(usize::MAX);
            format!(
                "{} of the old key are left to be sealed anew, the first of them {}.\n",
                count(left, "value"),
                info.first_left
            )
        }
        ("resealing", true) => "Everything is sealed anew; it settles in a moment.\n".to_owned(),
        (_, false) => format!(
            "Waits until {holders} has deleted the other key, and snapshots and log entries that need it.\n"
        ),
        ("settled", true) => {
            "No member has the old key any more. If it was stolen together with a copy of a log or a snapshot, whoever has \
             them has what was sealed: change secrets at their source, and replace the authority (jaco cluster rotate-ca).\n"
                .to_owned()
        }
        (_, true) => {
            "The old key is the cluster's, and no member has the new one any more.\n".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(phase: &str, holders: &[&str], left: u64) -> KekRotationInfo {
        KekRotationInfo {
            phase: phase.to_owned(),
            holders: holders.iter().map(ToString::to_string).collect(),
            left,
            first_left: "the password at ghcr.io".to_owned(),
            ..KekRotationInfo::default()
        }
    }

    /// R-CLI-6: each phase says who is waited for, and the end says what else is to be done after a theft.
    #[test]
    fn every_phase_says_what_is_next() {
        let said = |phase, holders: &[&str], left| next(&info(phase, holders, left));
        assert_eq!(said("handing_out", &["n2", "n3"], 0), "Waits until n2, n3 have the new key.\n");
        assert!(said("handing_out", &[], 0).contains("in a moment"));
        assert_eq!(said("resealing", &["n4"], 7), "Waits until n4 has the new key.\n");
        assert_eq!(
            said("resealing", &[], 7),
            "7 values of the old key are left to be sealed anew, the first of them the password at ghcr.io.\n"
        );
        assert!(said("resealing", &[], 0).contains("in a moment"));
        assert!(said("settled", &["n2"], 0).starts_with("Waits until n2 has deleted"));
        assert!(said("settled", &[], 0).contains("change secrets at their source"));
        assert!(said("abandoned", &["n2"], 0).starts_with("Waits until n2 has deleted"));
        assert!(said("abandoned", &[], 0).starts_with("The old key is the cluster's"));
    }
}
