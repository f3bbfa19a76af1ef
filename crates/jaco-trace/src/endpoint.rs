//! Where spans are sent to, and with which headers.

use std::collections::BTreeMap;
use std::fmt;

use http::uri::{Scheme, Uri};
use http::{HeaderName, HeaderValue};

/// Where a collector takes spans, under its base.
const TRACES: &str = "/v1/traces";

/// A collector. Its headers may hold credentials: they are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The full address.
    uri: Uri,
    headers: BTreeMap<String, String>,
}

/// Why something is no collector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is no address.
    #[error("the address of a collector is written as in https://collector.example.org:4318")]
    Address,
    /// It has a user name or a password, which would be shown.
    #[error(
        "the address of a collector has no user name and no password: put credentials into a header"
    )]
    Credentials,
    /// A header is none.
    #[error("{0:?} with its value is no header of HTTP")]
    Header(String),
}

impl Endpoint {
    /// The collector with this base, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it; a full address that ends in `/v1/traces` is
    /// taken as it is.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn new(base: &str, headers: BTreeMap<String, String>) -> Result<Self, EndpointError> {
        let base = base.trim_end_matches('/');
        let full = if base.ends_with(TRACES) { base.to_owned() } else { format!("{base}{TRACES}") };
        let uri: Uri = full.parse().map_err(|_| EndpointError::Address)?;
        let is_http = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&uri.scheme());
        let Some(authority) = uri.authority().filter(|_| is_http && uri.query().is_none()) else {
            return Err(EndpointError::Address);
        };
        if authority.as_str().contains('@') {
            return Err(EndpointError::Credentials);
        }
        for (name, value) in &headers {
            let is_header = HeaderName::try_from(name.as_str()).is_ok()
                && HeaderValue::try_from(value.as_str()).is_ok();
            if !is_header {
                return Err(EndpointError::Header(name.clone()));
            }
        }
        Ok(Self { uri, headers })
    }

    /// The full address.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn headers(&self) -> &BTreeMap<String, String> {
        &self.headers
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("uri", &self.uri).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base: &str) -> Result<String, EndpointError> {
        Endpoint::new(base, BTreeMap::new()).map(|endpoint| endpoint.uri().to_string())
    }

    /// R-OPS-1: the base of a collector is given as other programs take it.
    #[test]
    fn spans_go_below_the_base() {
        let full = "https://collector:4318/v1/traces";
        for base in ["https://collector:4318", "https://collector:4318/", full] {
            assert_eq!(endpoint(base).as_deref(), Ok(full));
        }
        assert_eq!(endpoint("http://[::1]:4318/otlp").unwrap(), "http://[::1]:4318/otlp/v1/traces");
        for base in ["", "collector:4318", "ftp://collector", "/v1/traces", "https://a b"] {
            assert_eq!(endpoint(base), Err(EndpointError::Address), "{base}");
        }
        assert_eq!(endpoint("https://me:pass@collector"), Err(EndpointError::Credentials));
    }

    /// R-OPS-1: what authenticates a node to its collector is not printed.
    #[test]
    fn headers_are_checked_and_not_shown() {
        let with = |name: &str, value: &str| {
            Endpoint::new("https://collector", [(name.to_owned(), value.to_owned())].into())
        };
        let shown = format!("{:?}", with("authorization", "Bearer s3cr3t").unwrap());
        assert!(shown.contains("collector") && !shown.contains("s3cr3t"), "{shown}");
        assert_eq!(with("a b", "c"), Err(EndpointError::Header("a b".to_owned())));
        let refused = with("token", "s3\ncr3t").unwrap_err().to_string();
        assert!(!refused.contains("cr3t"), "{refused}");
    }
}
