//! Checks of services and replicas.

use jaco_proto::v1::StatusResponse;
use jaco_sentences::attention;

use super::finding::Findings;

/// Checks all services and replicas.
pub(super) fn workload(status: &StatusResponse, found: &mut Findings) {
    for one in attention::workload(status) {
        let object = one.subject.to_string();
        match one.severity {
            attention::Severity::Failing => {
                found.failing(one.check, &object, one.message, one.help);
            }
            attention::Severity::Warning => {
                found.warning(one.check, &object, one.message, one.help);
            }
        }
    }
}
