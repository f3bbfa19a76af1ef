//! Checks of the targets of notifications: who is not told is not told that either.

use jaco_proto::v1::NotifyTargetInfo;

use super::finding::Findings;
use crate::format::time;

/// Checks that each target accepts what it is sent, and was sent everything.
pub(super) fn targets(targets: &[NotifyTargetInfo], now_ms: i64, found: &mut Findings) {
    for target in targets {
        let (name, address) = (&target.name, &target.address);
        if target.paused_at_ms > 0 {
            let since = time::ago(target.paused_at_ms, now_ms);
            let behind = of(target.behind, "event");
            let message = format!("{address} has been paused for {since}, {behind} behind");
            let help = format!("jaco notify resume {name} sends to it again");
            found.warning("notify", name, message, help);
        }
        if target.failing_since_ms > 0 {
            let since = time::ago(target.failing_since_ms, now_ms);
            let behind = of(target.behind, "event");
            let reason = &target.failing_reason;
            let message = format!("{address} has failed for {since}, {behind} behind: {reason}");
            let help = format!("jaco notify test {name} sends one now and says what to do");
            found.warning("notify", name, message, help);
        }
        if target.undelivered > 0 {
            let were = if target.undelivered == 1 { "was" } else { "were" };
            let count = of(target.undelivered, "notification");
            let message = format!("{count} to {address} {were} given up");
            let help = format!(
                "jaco notify failed {name} lists them, jaco notify retry {name} sends them again"
            );
            found.warning("notify", name, message, help);
        }
        if target.pruned > 0 {
            let were = if target.pruned == 1 { "was" } else { "were" };
            let count = of(target.pruned, "event");
            let message = format!("{count} {were} pruned before they could be delivered");
            let help = "jaco audit --archive reads them on a node; a target that is added anew counts from 0";
            found.warning("notify", name, message, help);
        }
        if target.discarded > 0 {
            let (that, were) = match target.discarded {
                1 => ("that was given up", "was"),
                _ => ("that were given up", "were"),
            };
            let count = of(target.discarded, "notification");
            let message = format!("{count} {that} {were} discarded");
            let help = "jaco audit has the events; clear or retry the list before it is full";
            found.warning("notify", name, message, help);
        }
    }
}

fn of(number: u64, noun: &str) -> String {
    crate::format::quantity::count(usize::try_from(number).unwrap_or(usize::MAX), noun)
}
