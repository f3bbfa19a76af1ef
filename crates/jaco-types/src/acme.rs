//! Words about certificates that a cluster orders (RFC 8555, RFC 8737, RFC 9773).

use crate::time::Timestamp;

/// How a domain is proven to be the cluster's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChallengeKind {
    /// By a file at port 80.
    #[default]
    Http01,
    /// By a certificate at port 443.
    TlsAlpn01,
}

impl ChallengeKind {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Http01 => Self::TlsAlpn01,
            Self::TlsAlpn01 => Self::Http01,
        }
    }

    /// Its name in the protocol.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// The time in which an authority wants a certificate to be renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewalWindow {
    start: Timestamp,
    end: Timestamp,
}

impl RenewalWindow {
    /// The time from `start` on and before `end`; `None` if that is no time at all.
    #[must_use]
    pub fn new(start: Timestamp, end: Timestamp) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// Its begin.
    #[must_use]
    pub const fn start(self) -> Timestamp {
        self.start
    }

    /// Its end, after its begin.
    #[must_use]
    pub const fn end(self) -> Timestamp {
        self.end
    }
}
