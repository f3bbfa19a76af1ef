//! Terminations of instances of a replica (R-HEAL-4).

use jaco_json::termination::signal;
use jaco_proto::v1::TerminationInfo;

/// A termination in a few words: `container_exited, exit code 137 (SIGKILL), out of memory`.
pub fn text(termination: &TerminationInfo) -> String {
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
pub fn exit_text(code: i64) -> String {
    match signal(code) {
        Some(signal) => format!("exit code {code} ({signal})"),
        None => format!("exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use jaco_json::termination::json;

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
