//! Between our moments, in milliseconds, and those of X.509, in seconds.

use std::time::Duration;

use rustls::pki_types::UnixTime;

use jaco_types::Timestamp;

pub(crate) fn to_unix(moment: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_millis(moment.0))
}

pub(crate) fn from_unix(time: UnixTime) -> Timestamp {
    from_secs(time.as_secs())
}

pub(crate) fn from_secs(secs: u64) -> Timestamp {
    Timestamp(secs.saturating_mul(1000))
}

pub(crate) fn secs(moment: Timestamp) -> u64 {
    moment.0 / 1000
}
