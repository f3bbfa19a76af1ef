//! How instances of a replica ended (R-HEAL-4).

use jaco_proto::v1::EndingInfo;
use serde_json::{Value, json};

use super::{facts, non_empty, without_null};
use crate::when;

/// For programs.
#[must_use]
pub fn json(ending: &EndingInfo) -> Value {
    without_null(json!({
        "at": when::rfc3339(ending.at_ms),
        "node": ending.node,
        "revision": ending.revision,
        "raft_index": ending.raft_index,
        "state": ending.state,
        "code": non_empty(&ending.code),
        "exit_code": ending.exited.then_some(ending.exit_code),
        "signal": ending.exited.then(|| signal(ending.exit_code)).flatten(),
        "out_of_memory": ending.out_of_memory.then_some(true),
        "details": (!ending.details.is_empty()).then(|| facts(&ending.details)),
        "aftermath": ending.aftermath,
    }))
}

/// For people, in a few words: `container_exited, exit code 137 (SIGKILL), out of memory`.
#[must_use]
pub fn text(ending: &EndingInfo) -> String {
    let cause = if ending.code.is_empty() { &ending.aftermath } else { &ending.code };
    let mut parts = vec![cause.clone()];
    if ending.exited {
        parts.push(exit_text(ending.exit_code));
    }
    if ending.out_of_memory {
        parts.push("out of memory".to_owned());
    }
    parts.join(", ")
}

/// An exit code, with the signal that it stands for.
#[must_use]
pub fn exit_text(code: i64) -> String {
    match signal(code) {
        Some(signal) => format!("exit code {code} ({signal})"),
        None => format!("exit code {code}"),
    }
}

/// The signal that ended a process with this code: 128 and the signal's number.
fn signal(code: i64) -> Option<&'static str> {
    match code - 128 {
        1 => Some("SIGHUP"),
        2 => Some("SIGINT"),
        3 => Some("SIGQUIT"),
        4 => Some("SIGILL"),
        6 => Some("SIGABRT"),
        7 => Some("SIGBUS"),
        8 => Some("SIGFPE"),
        9 => Some("SIGKILL"),
        11 => Some("SIGSEGV"),
        13 => Some("SIGPIPE"),
        15 => Some("SIGTERM"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_told_in_a_few_words() {
        let ending = EndingInfo {
            code: "container_exited".to_owned(),
            aftermath: "restarted".to_owned(),
            exited: true,
            exit_code: 137,
            out_of_memory: true,
            ..EndingInfo::default()
        };
        assert_eq!(text(&ending), "container_exited, exit code 137 (SIGKILL), out of memory");
        assert_eq!(json(&ending)["signal"], "SIGKILL");
        let lost = EndingInfo { aftermath: "node_lost".to_owned(), ..EndingInfo::default() };
        assert_eq!(text(&lost), "node_lost");
        assert_eq!(exit_text(1), "exit code 1");
    }
}
