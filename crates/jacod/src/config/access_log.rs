//! The lines about requests that the edge of this node writes.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::Deserialize;

use super::{Config, ConfigError};

/// Lines about requests, if there should be any.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AccessLogSettings {
    /// One of so many requests has a line.
    pub(crate) sample: NonZeroU32,
    /// The file, which the edge opens as its own user.
    pub(crate) path: PathBuf,
}

impl Default for AccessLogSettings {
    fn default() -> Self {
        Self { sample: NonZeroU32::MIN, path: PathBuf::from("/var/log/jaco/access.log") }
    }
}

impl Config {
    /// The lines about requests. `None`: there are none.
    ///
    /// # Errors
    /// When the path is not absolute: the edge runs in another folder than this daemon.
    pub(crate) fn access_log(&self) -> Result<Option<AccessLogSettings>, ConfigError> {
        match &self.edge.access_log {
            Some(log) if !log.path.is_absolute() => Err(ConfigError::Value {
                key: "edge.access_log.path",
                reason: format!(
                    "{} is relative: write an absolute path, as in /var/log/jaco/access.log",
                    log.path.display()
                ),
            }),
            log => Ok(log.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-EDGE-1: there is no access log unless it is asked for.
    #[test]
    fn an_access_log_is_written_on_request() {
        let log = |text: &str| Config::parse(text).unwrap().access_log();
        assert_eq!(log("edge: {user: web}").unwrap(), None);
        let default = AccessLogSettings::default();
        assert_eq!(log("edge: {access_log: {}}").unwrap(), Some(default.clone()));
        let sampled = AccessLogSettings { sample: 10.try_into().unwrap(), ..default };
        assert_eq!(log("edge: {access_log: {sample: 10}}").unwrap(), Some(sampled));
        let refused = log("edge: {access_log: {path: access.log}}").unwrap_err().to_string();
        assert!(refused.contains("edge.access_log.path") && refused.contains("absolute"));
        assert!(Config::parse("edge: {access_log: {sample: 0}}").is_err());
    }
}
