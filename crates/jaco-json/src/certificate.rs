//! Certificates that routes can name.

use jaco_proto::v1::CertificateInfo;
use serde_json::{Value, json};

use crate::fields::{non_empty, without_null};
use crate::time::rfc3339;

/// A certificate as JSON.
#[must_use]
pub fn json(certificate: &CertificateInfo) -> Value {
    without_null(json!({
        "name": certificate.name,
        "names": certificate.names,
        "not_before": rfc3339(certificate.not_before_ms),
        "not_after": rfc3339(certificate.not_after_ms),
        "fingerprint": fingerprint(certificate),
        "stored_at": rfc3339(certificate.stored_at_ms),
        "by": certificate.by,
        "routes": certificate.routes,
        "source": non_empty(&certificate.source),
        "renewal": rfc3339(certificate.renew_at_ms),
        "problem": non_empty(&certificate.problem),
        "next_try": rfc3339(certificate.next_try_ms),
    }))
}

/// The fingerprint of a certificate in hex.
#[must_use]
pub fn fingerprint(certificate: &CertificateInfo) -> String {
    certificate.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
}
