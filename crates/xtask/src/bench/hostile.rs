//! What attacks on a leader may cost: the same promises for each of them.

use std::time::Duration;

use anyhow::Result;

use super::program::{Needs, Program};
use super::table::Better::Less;
use super::table::{Promise, Row};

/// The attacks, as the program calls them.
const ATTACKS: [&str; 13] = [
    "bodies of strangers",
    "idle connections",
    "half-open hellos",
    "dry runs with all ports",
    "dry runs",
    "stalled watches",
    "stalled audits",
    "watches on unread sockets",
    "refused calls",
    "rapid resets",
    "continuations",
    "pings",
    "settings",
];

const EACH: [(&str, Promise); 6] = [
    ("memory over rest", Promise::Value(Less, 100.0)),
    ("changes of the term", Promise::Value(Less, 0.0)),
    ("p99 of a command", Promise::Ratio(Less, 3.0)),
    ("commands that failed", Promise::Value(Less, 0.0)),
    ("return of a member", Promise::Value(Less, 2.0)),
    ("memory after it", Promise::Ratio(Less, 1.2)),
];

/// What starting and ending a cluster, watching it at rest, losing a member and recovering take beside an attack.
const AROUND: Duration = Duration::from_secs(180);

/// Attacks for so long each.
///
/// # Errors
/// If it cannot be built, or an attack cannot be carried out.
pub(super) fn measure(program: &mut Program<'_>, seconds: u32) -> Result<Vec<Row>> {
    let arguments = ["hostile".to_owned(), "--rounds=1".to_owned(), format!("--seconds={seconds}")];
    let attacks = u32::try_from(ATTACKS.len())?;
    let limit = (Duration::from_secs(u64::from(seconds)) + AROUND) * attacks;
    program.run(&arguments, Needs::Nothing, limit)
}

/// The promises, by the names of the figures.
pub(super) fn promises() -> Vec<(String, Promise)> {
    let of = |attack: &'static str| {
        EACH.iter().map(move |(what, promise)| (format!("hostile, {attack}: {what}"), *promise))
    };
    ATTACKS.into_iter().flat_map(of).collect()
}
