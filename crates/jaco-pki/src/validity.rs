//! Validity of a certificate, and when it is due for renewal. Pure: the time is an argument.

use jaco_types::{NodeId, Timestamp};
use x509_parser::prelude::X509Certificate;

use crate::x509_time;

/// Validity period of a certificate, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// State of a certificate at some time, and so what its holder has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateStatus {
    /// This machine's clock is behind by more than the backdating.
    NotYetValid,
    Fresh,
    /// Half of the lifetime has passed: renew.
    RenewalDue,
    /// A quarter of the lifetime is left: renewals have failed for days, alert an operator.
    Alarming,
    Expired,
}

impl Validity {
    #[must_use]
    pub fn contains(&self, now: Timestamp) -> bool {
        // X.509 counts in seconds: the whole last second is included.
        x509_time::secs(self.not_before) <= x509_time::secs(now)
            && x509_time::secs(now) <= x509_time::secs(self.not_after)
    }

    /// The time within the validity period nearest to `now`.
    ///
    /// Peers verify each other's certificates at this time: membership ends with the removal of a
    /// node, not with a date, so a node whose certificate expired while it was off, or whose clock
    /// is wrong, is admitted and renews it.
    #[must_use]
    pub fn nearest(&self, now: Timestamp) -> Timestamp {
        now.clamp(self.not_before, self.not_after)
    }

    /// State of a certificate with this validity at `now`.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> CertificateStatus {
        let (start, end) = (x509_time::secs(self.not_before), x509_time::secs(self.not_after));
        let at = x509_time::secs(now);
        if at < start {
            return CertificateStatus::NotYetValid;
        }
        if at > end {
            return CertificateStatus::Expired;
        }
        let left = end - at;
        let life = end - start;
        if left <= life / 4 {
            CertificateStatus::Alarming
        } else if left <= life / 2 {
            CertificateStatus::RenewalDue
        } else {
            CertificateStatus::Fresh
        }
    }

    /// When `node` should renew: after half of the lifetime plus up to a tenth of it. The offset
    /// depends on the node's id, so that nodes that joined together do not renew together.
    #[must_use]
    pub fn renew_at(&self, node: NodeId) -> Timestamp {
        let (start, end) = (x509_time::secs(self.not_before), x509_time::secs(self.not_after));
        let life = end.saturating_sub(start);
        // Multiplication by the golden ratio of 2^64 spreads adjacent ids.
        let permille = (node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % 100;
        let offset = life / 2 + life / 1000 * permille;
        x509_time::from_secs(start.saturating_add(offset))
    }

    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Option<Self> {
        let at = |seconds: i64| {
            let seconds = u64::try_from(seconds).ok()?;
            Some(x509_time::from_secs(seconds))
        };
        let validity = certificate.validity();
        let not_before = at(validity.not_before.timestamp())?;
        let not_after = at(validity.not_after.timestamp())?;
        (not_before <= not_after).then_some(Self { not_before, not_after })
    }
}
