//! Terminations of instances of a replica (R-HEAL-4).

use jaco_proto::v1::TerminationInfo;
use serde_json::{Value, json};

use crate::fields::{non_empty, string_map, without_null};
use crate::time::rfc3339;

/// A termination as JSON.
#[must_use]
pub fn json(termination: &TerminationInfo) -> Value {
    without_null(json!({
        "at": rfc3339(termination.at_ms),
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

/// The signal that terminated a process with this exit code, which is 128 plus its number.
#[must_use]
pub fn signal(code: i64) -> Option<&'static str> {
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
