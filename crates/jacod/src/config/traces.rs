//! Where spans are sent to, if they should be.

use std::collections::BTreeMap;
use std::fmt;

use jaco_trace::{Endpoint, Sampling};
use serde::Deserialize;

use super::{Config, ConfigError};

/// The collector of traces.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TracingSettings {
    /// Base address of a collector that speaks OTLP over HTTP.
    otlp: String,
    /// Which part of the traces that begin here is recorded, from 0 to 1.
    #[serde(default = "all")]
    sample: f64,
    /// Headers of each request to the collector.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

const fn all() -> f64 {
    1.0
}

/// Headers may be credentials.
impl fmt::Debug for TracingSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("TracingSettings");
        out.field("sample", &self.sample).finish_non_exhaustive()
    }
}

impl Config {
    /// Where spans go, and which part of the traces that begin here is recorded. `None`: traces are off.
    ///
    /// # Errors
    /// When it is no collector, or no part of a whole.
    pub(crate) fn tracing(&self) -> Result<Option<(Endpoint, Sampling)>, ConfigError> {
        let Some(TracingSettings { otlp, sample, headers }) = &self.tracing else {
            return Ok(None);
        };
        let sampling = Sampling::ratio(*sample).map_err(|error| ConfigError::Value {
            key: "tracing.sample",
            reason: error.to_string(),
        })?;
        let endpoint = Endpoint::new(otlp, headers.clone()).map_err(|error| {
            let key = match &error {
                jaco_trace::EndpointError::Header(_) => "tracing.headers",
                jaco_trace::EndpointError::Address | jaco_trace::EndpointError::Credentials => {
                    "tracing.otlp"
                }
            };
            ConfigError::Value { key, reason: error.to_string() }
        })?;
        Ok(Some((endpoint, sampling)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: traces are off unless they are asked for.
    #[test]
    fn traces_are_sent_on_request() {
        let parsed = |text: &str| Config::parse(text).unwrap().tracing();
        assert_eq!(parsed("log_level: info").unwrap(), None);
        let (endpoint, sampling) =
            parsed("tracing: {otlp: \"https://otel:4318\"}").unwrap().unwrap();
        assert_eq!(endpoint.uri(), "https://otel:4318/v1/traces");
        assert_eq!(sampling, Sampling::ALL);
        let (_, sampling) =
            parsed("tracing: {otlp: \"http://[::1]:4318\", sample: 0.25}").unwrap().unwrap();
        assert_eq!(sampling, Sampling::ratio(0.25).unwrap());
    }

    /// R-OPS-1: a wrong setting is refused by its key, and no header is printed.
    #[test]
    fn wrong_settings_of_traces_are_refused() {
        for (text, key) in [
            ("tracing: {otlp: collector}", "tracing.otlp"),
            ("tracing: {otlp: \"https://me:s3cr3t@otel\"}", "tracing.otlp"),
            ("tracing: {otlp: \"https://otel\", sample: 2}", "tracing.sample"),
            ("tracing: {otlp: \"https://otel\", headers: {\"a b\": s3cr3t}}", "tracing.headers"),
        ] {
            let config = Config::parse(text).unwrap();
            let refused = config.tracing().unwrap_err().to_string();
            assert!(refused.contains(key) && !refused.contains("s3cr3t"), "{refused}");
            assert!(!format!("{config:?}").contains("s3cr3t"));
        }
        assert!(Config::parse("tracing: {}").is_err(), "a collector is needed");
        assert!(Config::parse("tracing: {otlp: \"https://otel\", sampel: 1}").is_err());
    }
}
