//! Terminations of instances of a replica (R-HEAL-4).

use jaco_proto::v1::TerminationInfo;
use serde_json::{Value, json};

use super::json::{non_empty, string_map, without_null};
use crate::format::time;

/// A termination as JSON.
pub(crate) fn json(termination: &TerminationInfo) -> Value {
    without_null(json!({
        "at": time::rfc3339(termination.at_ms),
        "node": termination.node,
        "revision": termination.revision,
        "raft_index": termination.raft_index,
        "state": termination.state,
        "code": non_empty(&termination.code),
        "exit_code": termination.exited.then_some(termination.exit_code),
        "signal": termination.exited.then(|| signal(termination.exit_code)).flatten(),
        "out_of_memory": termination.out_of_memory.then_some(true),
        "details": (!termination.details.is_empty()).then(|| string_map(&termination.details)),
        "outcome": termination.outcome,
    }))
}

/// A termination in a few words: `container_exited, exit code 137 (SIGKILL), out of memory`.
pub(crate) fn text(termination: &TerminationInfo) -> String {
    let cause = if termination.code.is_empty() { &termination.outcome } else { &termination.code };
    let mut parts = vec![cause.clone()];
    if termination.exited {
        parts.push(exit_text(termination.exit_code));
    }
    if termination.out_of_memory {
        parts.push("out of memory".to_owned());
    }
    parts.join(", ")
}

/// An exit code with its signal.
pub(crate) fn exit_text(code: i64) -> String {
    match signal(code) {
        Some(signal) => format!("exit code {code} ({signal})"),
        None => format!("exit code {code}"),
    }
}

/// The signal that terminated a process with this exit code, which is 128 plus its number.
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
    fn termination_is_described_by_code_exit_code_and_signal() {
        let termination = TerminationInfo {
            code: "container_exited".to_owned(),
            outcome: "restarted".to_owned(),
            exited: true,
            exit_code: 137,
            out_of_memory: true,
            ..TerminationInfo::default()
        };
        assert_eq!(text(&termination), "container_exited, exit code 137 (SIGKILL), out of memory");
        assert_eq!(json(&termination)["signal"], "SIGKILL");
        let lost =
            TerminationInfo { outcome: "node_lost".to_owned(), ..TerminationInfo::default() };
        assert_eq!(text(&lost), "node_lost");
        assert_eq!(exit_text(1), "exit code 1");
    }
}
