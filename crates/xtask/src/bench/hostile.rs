//! What attacks on a leader may cost: the same promises for each of them.

use std::time::Duration;

use anyhow::{Result, ensure};

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

/// Carries out the attacks whose name contains `only`, for so long each.
///
/// # Errors
/// If it cannot be built, there is no such attack, or one cannot be carried out.
pub(super) fn measure(program: &mut Program<'_>, seconds: u32, only: &str) -> Result<Vec<Row>> {
    let attacks = u32::try_from(chosen(only).count())?;
    ensure!(attacks > 0, "no attack has such a name; there are {}", ATTACKS.join(", "));
    let arguments = [
        "hostile".to_owned(),
        "--rounds=1".to_owned(),
        format!("--seconds={seconds}"),
        format!("--only={only}"),
    ];
    let limit = (Duration::from_secs(u64::from(seconds)) + AROUND) * attacks;
    program.run(&arguments, Needs::Nothing, limit)
}

/// The promises for the attacks whose name contains `only`, by the names of the figures.
pub(super) fn promises(only: &str) -> Vec<(String, Promise)> {
    let of = |attack: &'static str| {
        EACH.iter().map(move |(what, promise)| (format!("hostile, {attack}: {what}"), *promise))
    };
    chosen(only).flat_map(of).collect()
}

fn chosen(only: &str) -> impl Iterator<Item = &'static str> {
    ATTACKS.into_iter().filter(move |attack| attack.contains(only))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_attack_is_judged_by_its_own_promises() {
        let names: Vec<String> = promises("half-open").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), EACH.len());
        assert!(names.iter().all(|name| name.starts_with("hostile, half-open hellos: ")));
        assert_eq!(promises("").len(), ATTACKS.len() * EACH.len());
    }
}
