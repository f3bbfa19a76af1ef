//! Of when a state of before is.

use jaco_proto::v1::StatusResponse;

use crate::time;

/// That a status is not of now, as a sentence; none if it is.
#[must_use]
pub fn sentence(status: &StatusResponse) -> Option<String> {
    let past = status.past.as_ref()?;
    let at = match time::rfc3339(past.at_ms).filter(|_| past.at_ms > 0) {
        Some(at) => format!(", {at}"),
        None => String::new(),
    };
    Some(format!(
        "as it was at index {}{at}; {} can show {} to {}",
        status.raft_index, status.answered_by, past.kept_from, past.kept_to
    ))
}

#[cfg(test)]
mod tests {
    use jaco_proto::v1::PastInfo;

    use super::*;

    #[test]
    fn a_state_says_of_when_it_is() {
        let past = PastInfo { at_ms: 1_767_225_600_000, kept_from: 3, kept_to: 90 };
        let status = |past| StatusResponse {
            raft_index: 12,
            answered_by: "n2".to_owned(),
            past,
            ..StatusResponse::default()
        };
        assert_eq!(sentence(&status(None)), None);
        assert_eq!(
            sentence(&status(Some(past))).unwrap(),
            "as it was at index 12, 2026-01-01T00:00:00Z; n2 can show 3 to 90"
        );
        assert_eq!(
            sentence(&status(Some(PastInfo { at_ms: 0, ..past }))).unwrap(),
            "as it was at index 12; n2 can show 3 to 90"
        );
    }
}
