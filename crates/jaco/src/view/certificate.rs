//! Certificates that routes name, without their keys.

use jaco_json::certificate::fingerprint;
pub(crate) use jaco_json::certificate::json;
use jaco_proto::v1::CertificateInfo;

use crate::format::table::Table;
use crate::format::time;
use crate::output::{Detail, Frame};

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
