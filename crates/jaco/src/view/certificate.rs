//! Certificates that routes name, without their keys.

use jaco_proto::v1::CertificateInfo;
use serde_json::{Value, json};

use super::json::{non_empty, without_null};
use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame};

/// A certificate as JSON.
pub(crate) fn json(certificate: &CertificateInfo) -> Value {
    without_null(json!({
        "name": certificate.name,
        "names": certificate.names,
        "not_before": time::rfc3339(certificate.not_before_ms),
        "not_after": time::rfc3339(certificate.not_after_ms),
        "fingerprint": fingerprint(certificate),
        "stored_at": time::rfc3339(certificate.stored_at_ms),
        "by": certificate.by,
        "routes": certificate.routes,
        "source": non_empty(&certificate.source),
        "renewal": time::rfc3339(certificate.renew_at_ms),
        "problem": non_empty(&certificate.problem),
        "next_try": time::rfc3339(certificate.next_try_ms),
    }))
}

/// Certificates as a table.
pub(crate) fn table(certificates: &[CertificateInfo], frame: &Frame) -> String {
    let mut head = vec!["NAME", "FOR", "SOURCE", "EXPIRES", "RENEWAL", "ROUTES", "STORED", "BY"];
    if frame.detail == Detail::Wide {
        head.push("FINGERPRINT");
    }
    let mut table = Table::new(&head);
    for certificate in certificates {
        let mut row = vec![
            certificate.name.clone(),
            certificate.names.join(", "),
            certificate.source.clone(),
            time::left(certificate.not_after_ms, frame.now_ms),
            time::left(certificate.renew_at_ms, frame.now_ms),
            certificate.routes.len().to_string(),
            time::ago(certificate.stored_at_ms, frame.now_ms),
            if certificate.by.is_empty() { "-".to_owned() } else { certificate.by.clone() },
        ];
        if frame.detail == Detail::Wide {
            row.push(fingerprint(certificate));
        }
        table.row(row);
    }
    table.render()
}

fn fingerprint(certificate: &CertificateInfo) -> String {
    certificate.fingerprint.iter().map(|byte| format!("{byte:02x}")).collect()
}
