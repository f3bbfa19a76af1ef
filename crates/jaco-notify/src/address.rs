//! Where notifications go. The path of an address may be its secret, as with chat services: only scheme, host and port are
//! ever shown.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;
use zeroize::Zeroizing;

/// The most bytes of an address.
const ADDRESS_BYTES_MAX: usize = 2 << 10;

/// An address that notifications can be sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    uri: Uri,
    shown: String,
}

/// Whether an address without encryption is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// Of this machine only.
    LoopbackOnly,
    /// Whatever it is.
    Anywhere,
}

/// Why an address is not taken. Says nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("the address is no URL: write https://HOST/PATH")]
    NoUrl,
    #[error("the address has more than {ADDRESS_BYTES_MAX} bytes")]
    TooLong,
    #[error("the address begins with neither https:// nor http://")]
    Scheme,
    #[error(
        "the address has a user and a password before its host: a receiver verifies the signature instead"
    )]
    Credentials,
    #[error("the address has a fragment (#…), which no server is sent")]
    Fragment,
    #[error(
        "the address is not encrypted, and what it is sent could be read and changed on its way: use https://, or allow it with --insecure-http"
    )]
    Plain,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn parse(text: &str, plain: PlainHttp) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong);
        }
        if text.contains('#') {
            return Err(AddressError::Fragment);
        }
        let uri: Uri = text.parse().map_err(|_| AddressError::NoUrl)?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(AddressError::NoUrl);
        };
        if authority.as_str().contains('@') {
            return Err(AddressError::Credentials);
        }
        if authority.host().is_empty() {
            return Err(AddressError::NoUrl);
        }
        if *scheme == Scheme::HTTP {
            let allowed = plain == PlainHttp::Anywhere || is_loopback(authority.host());
            allowed.then_some(()).ok_or(AddressError::Plain)?;
        } else if *scheme != Scheme::HTTPS {
            return Err(AddressError::Scheme);
        }
        let shown = format!("{scheme}://{authority}");
        Ok(Self { uri, shown })
    }

    /// No more than scheme, host and port.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The whole of it, for sealing.
    #[must_use]
    pub fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(self.uri.to_string())
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({}/…)", self.shown)
    }
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    ip.map_or(host == "localhost", |ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, AddressError> {
        Address::parse(text, PlainHttp::LoopbackOnly).map(|address| address.shown().to_owned())
    }

    /// R-OPS-1: of an address no more than scheme, host and port is shown, whatever its secret is in.
    #[test]
    fn only_the_host_is_shown() {
        let secret = "T000/B000/hunter2";
        for (text, expected) in [
            (format!("https://hooks.slack.com/services/{secret}"), "https://hooks.slack.com"),
            (format!("https://a.example:8443/?key={secret}"), "https://a.example:8443"),
            (format!("http://127.0.0.1:9/{secret}"), "http://127.0.0.1:9"),
            (format!("http://[::1]:9/{secret}"), "http://[::1]:9"),
        ] {
            let address = Address::parse(&text, PlainHttp::LoopbackOnly).unwrap();
            assert_eq!(address.shown(), expected);
            let printed = format!("{address:?}");
            assert!(!printed.contains("hunter2"), "{printed}");
            assert_eq!(*address.reveal(), text);
        }
    }

    /// R-OPS-1: an address that is not encrypted is this machine's, or was allowed; and no refusal repeats it.
    #[test]
    fn what_is_not_taken_has_a_reason() {
        for (text, expected) in [
            ("http://a.example/hunter2", AddressError::Plain),
            ("http://127.0.0.1.a.example/hunter2", AddressError::Plain),
            ("http://10.0.0.1/hunter2", AddressError::Plain),
            ("ftp://a.example/hunter2", AddressError::Scheme),
            ("https://ann:hunter2@a.example/", AddressError::Credentials),
            ("https://a.example/#hunter2", AddressError::Fragment),
            ("a.example/hunter2", AddressError::NoUrl),
            ("/hunter2", AddressError::NoUrl),
            ("hunter2", AddressError::NoUrl),
            ("https:///hunter2", AddressError::NoUrl),
            ("", AddressError::NoUrl),
        ] {
            let refused = shown(text).unwrap_err();
            assert_eq!(refused, expected, "{text}");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
        assert!(shown("http://localhost:8080/").is_ok() && shown("http://127.8.0.1/").is_ok());
        assert!(Address::parse("http://a.example/", PlainHttp::Anywhere).is_ok());
        let long = format!("https://a.example/{}", "x".repeat(ADDRESS_BYTES_MAX));
        assert_eq!(shown(&long), Err(AddressError::TooLong));
    }
}
