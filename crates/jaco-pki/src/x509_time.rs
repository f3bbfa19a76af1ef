//! Conversion between timestamps, in milliseconds, and X.509 times, in seconds.

use std::time::Duration;

use rustls::pki_types::UnixTime;

use jaco_types::Timestamp;

pub(crate) fn to_unix(time: Timestamp) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_millis(time.0))
}

pub(crate) fn from_unix(time: UnixTime) -> Timestamp {
    from_secs(time.as_secs())
}

pub(crate) fn from_secs(secs: u64) -> Timestamp {
    Timestamp(secs.saturating_mul(1000))
}

pub(crate) fn secs(time: Timestamp) -> u64 {
    time.0 / 1000
}
