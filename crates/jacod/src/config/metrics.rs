//! Where scrapers on this machine find the metrics without TLS and without a token.

use std::net::SocketAddr;

use serde::Deserialize;

use super::{Config, ConfigError};

/// Metrics for scrapers on this machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MetricsSettings {
    /// `ip:port` of a loopback address; none if absent. Over TLS they are always there.
    pub(crate) listen: Option<String>,
}

impl Config {
    /// Where metrics are served in clear text.
    ///
    /// # Errors
    /// When it is not the `ip:port` of a loopback address: everybody who reaches it may read them.
    pub(crate) fn metrics_address(&self) -> Result<Option<SocketAddr>, ConfigError> {
        let Some(listen) = &self.metrics.listen else { return Ok(None) };
        let refuse = |why: &str| ConfigError::Value {
            key: "metrics.listen",
            reason: format!(
                "{listen:?} is not {why}: write it as in 127.0.0.1:9464, or scrape `listen`, which has TLS and tokens"
            ),
        };
        // A name could lead elsewhere later.
        let address: SocketAddr = listen.parse().map_err(|_| refuse("ip:port"))?;
        match address.ip().is_loopback() {
            true => Ok(Some(address)),
            false => Err(refuse("an address of this machine alone")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: nothing is served in clear text where other machines reach it.
    #[test]
    fn only_loopback_is_taken() {
        let address = |listen: &str| {
            let metrics = MetricsSettings { listen: Some(listen.to_owned()) };
            Config { metrics, ..Config::default() }.metrics_address()
        };
        for listen in ["127.0.0.1:9464", "127.3.2.1:1", "[::1]:9464"] {
            assert_eq!(address(listen).unwrap(), Some(listen.parse().unwrap()));
        }
        for listen in [
            "0.0.0.0:9464",
            "[::]:9464",
            "10.0.0.1:9464",
            "localhost:9464",
            "9464",
            ":9464",
            "127.0.0.1",
        ] {
            let refused = address(listen).unwrap_err().to_string();
            assert!(
                refused.contains("metrics.listen") && refused.contains("127.0.0.1:9464"),
                "{refused}"
            );
        }
        assert_eq!(Config::default().metrics_address().unwrap(), None);
    }
}
