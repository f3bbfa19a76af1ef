//! Until when a secret is good, as the command line says it. Pure: the present is an argument.

use std::str::FromStr;
use std::time::Duration;

use jaco_proto::v1::ContentExpiry;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::error::CliError;
use crate::format::time::{duration, rfc3339};

/// The longest time until an expiry.
const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

/// Until when a secret is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    Never,
    In(Duration),
    /// Milliseconds since the Unix epoch.
    At(i64),
}

impl FromStr for Expiry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let day = format!("{text}T00:00:00Z");
        let time = [text, &day].into_iter().find_map(|it| OffsetDateTime::parse(it, &Rfc3339).ok());
        if let Some(at) = time {
            let millis = i64::try_from(at.unix_timestamp_nanos() / 1_000_000);
            return millis.map(Self::At).map_err(|error| error.to_string());
        }
        match duration(text) {
            Ok(time) if !time.is_zero() && time <= LONGEST => Ok(Self::In(time)),
            Ok(_) => Err("give a time of at most 3650d, or never".to_owned()),
            Err(_) => Err(format!(
                "{text:?} is neither a duration (90d), nor a day (2027-03-01), nor a time (2027-03-01T12:00:00Z), nor never"
            )),
        }
    }
}

impl Expiry {
    /// As it is sent.
    ///
    /// # Errors
    /// If it is over already.
    pub(super) fn message(self, now_ms: i64) -> Result<ContentExpiry, CliError> {
        let at_ms = match self {
            Self::Never => 0,
            Self::In(time) => {
                now_ms.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
            }
            Self::At(at_ms) if at_ms > now_ms => at_ms,
            Self::At(at_ms) => {
                let when = rfc3339(at_ms).unwrap_or_default();
                return Err(CliError::usage(
                    format!("--expires {when} is in the past"),
                    "give a time that is still to come, or never",
                ));
            }
        };
        Ok(ContentExpiry { at_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-IN-5: a duration counts from now, a day begins at midnight in UTC, and what is over is refused.
    #[test]
    fn expiries_are_read() {
        let now_ms = 1_772_323_200_000; // 2026-03-01
        let sent = |text: &str| Expiry::from_str(text).unwrap().message(now_ms).map(|it| it.at_ms);
        assert_eq!(sent("never").unwrap(), 0);
        assert_eq!(sent("90d").unwrap(), now_ms + 90 * 86_400_000);
        assert_eq!(sent("2026-03-02").unwrap(), now_ms + 86_400_000);
        assert_eq!(
            sent("2026-03-01T01:00:00+01:00").unwrap_err().to_string(),
            "--expires 2026-03-01T00:00:00Z is in the past"
        );
        for wrong in ["", "soon", "0s", "3651d", "2026-13-01", "2026-03-01T00:00"] {
            assert!(Expiry::from_str(wrong).is_err(), "{wrong}");
        }
    }
}
