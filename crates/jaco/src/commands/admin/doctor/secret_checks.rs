//! Checks of stored secrets.

use jaco_proto::v1::ContentInfo;

use super::finding::Findings;
use crate::format::time;

/// How long before its expiry a secret is a finding: as the alert of `deploy/prometheus/alerts.yaml`.
const NOTICE_MS: i64 = 14 * 86_400_000;

/// Checks that no secret has expired, or is about to.
pub(super) fn expiry(secrets: &[ContentInfo], now_ms: i64, found: &mut Findings) {
    let expiring = secrets.iter().filter(|secret| secret.expires_at_ms > 0);
    for secret in expiring.filter(|secret| secret.expires_at_ms - now_ms < NOTICE_MS) {
        let (name, version, at) = (&secret.name, secret.version, secret.expires_at_ms);
        let message = match at <= now_ms {
            true => format!("version {version} expired {} ago", time::ago(at, now_ms)),
            false => format!("version {version} expires {}", time::left(at, now_ms)),
        };
        let help = format!(
            "store a new value where it comes from, and jaco secret set {name} FILE --roll --expires 90d here"
        );
        found.warning("secret", name, message, help);
    }
}
