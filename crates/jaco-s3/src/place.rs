//! Where objects are: a bucket at an endpoint, and what is before their names.

use std::net::IpAddr;

use rusty_s3::{Bucket, UrlStyle};
use url::Url;

/// The most bytes of a prefix. A key has 1,024 at most.
const PREFIX_BYTES_MAX: usize = 512;

/// How a bucket is named in an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// `https://HOST/BUCKET/…`
    Path,
    /// `https://BUCKET.HOST/…`
    Host,
}

/// Whether an endpoint without encryption is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// Of this machine only.
    LoopbackOnly,
    /// Whatever it is.
    Anywhere,
}

/// Why a place is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    #[error("{0:?} is no target: write /PATH, s3://BUCKET or s3://BUCKET/PREFIX")]
    NoTarget(String),
    #[error("{0:?} is no name of a bucket: 3 to 63 of a-z, 0-9, '.' and '-'")]
    Bucket(String),
    #[error(
        "the prefix of a bucket has {PREFIX_BYTES_MAX} characters at most, of A-Z, a-z, 0-9 and !-_.*'()/, without empty parts, `.` and `..`"
    )]
    Prefix,
    #[error(
        "the endpoint of an object store is https://HOST or https://HOST:PORT, without a path, a user or a query"
    )]
    Endpoint,
    #[error(
        "the endpoint is not encrypted, and whoever is on the way could read and change backups: use https://, or allow it with --insecure-http"
    )]
    Plain,
    #[error("the region of an object store has 1 to 64 of a-z, A-Z, 0-9, '-' and '_'")]
    Region,
}

/// A bucket, and what is before the names of objects.
#[derive(Debug, Clone)]
pub struct Place {
    pub(crate) bucket: Bucket,
    /// With a slash at its end, or empty.
    prefix: String,
}

/// The bucket and the prefix of `s3://BUCKET/PREFIX`.
///
/// # Errors
/// If it is not written like that.
pub fn bucket_and_prefix(target: &str) -> Result<(&str, &str), PlaceError> {
    let Some(rest) = target.strip_prefix("s3://") else {
        return Err(PlaceError::NoTarget(target.chars().take(64).collect()));
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    Ok((bucket, prefix.strip_suffix('/').unwrap_or(prefix)))
}

impl Place {
    /// A place by its parts.
    ///
    /// # Errors
    /// Which of them is not taken, and why.
    pub fn new(
        endpoint: &str,
        region: &str,
        (bucket, prefix): (&str, &str),
        addressing: Addressing,
        plain: PlainHttp,
    ) -> Result<Self, PlaceError> {
        let endpoint = checked_endpoint(endpoint, plain)?;
        let is_region = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        if !(1..=64).contains(&region.len()) || !region.bytes().all(is_region) {
            return Err(PlaceError::Region);
        }
        if !is_bucket(bucket) {
            return Err(PlaceError::Bucket(bucket.chars().take(64).collect()));
        }
        if !is_prefix(prefix) {
            return Err(PlaceError::Prefix);
        }
        let style = match addressing {
            Addressing::Path => UrlStyle::Path,
            Addressing::Host => UrlStyle::VirtualHost,
        };
        let bucket = Bucket::new(endpoint, style, bucket.to_owned(), region.to_owned());
        let bucket = bucket.map_err(|_| PlaceError::Endpoint)?;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { bucket, prefix })
    }

    /// A folder in it.
    #[must_use]
    pub fn folder(&self, name: &str) -> Self {
        Self { bucket: self.bucket.clone(), prefix: format!("{}{name}/", self.prefix) }
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

fn checked_endpoint(endpoint: &str, plain: PlainHttp) -> Result<Url, PlaceError> {
    let url = Url::parse(endpoint).map_err(|_| PlaceError::Endpoint)?;
    let has_more = !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
        || url.path() != "/";
    let Some(host) = url.host_str().filter(|_| !has_more) else {
        return Err(PlaceError::Endpoint);
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if plain == PlainHttp::Anywhere || is_loopback(host) => Ok(url),
        "http" => Err(PlaceError::Plain),
        _ => Err(PlaceError::Endpoint),
    }
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    ip.map_or(host == "localhost", |ip| ip.is_loopback())
}

fn is_bucket(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b);
    (3..=63).contains(&name.len())
        && name.bytes().all(inner)
        && !name.contains("..")
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// Whether it is one that an address repeats as it is.
fn is_prefix(prefix: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"!-_.*'()".contains(&b);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_plain);
    prefix.is_empty() || (prefix.len() <= PREFIX_BYTES_MAX && prefix.split('/').all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(endpoint: &str, target: (&str, &str)) -> Result<Place, PlaceError> {
        Place::new(endpoint, "us-east-1", target, Addressing::Path, PlainHttp::LoopbackOnly)
    }

    /// R-CLI-6: a target leads to one bucket and stays below its prefix, whatever is written.
    #[test]
    fn a_place_is_below_its_prefix() {
        assert_eq!(bucket_and_prefix("s3://sun-backups"), Ok(("sun-backups", "")));
        assert_eq!(bucket_and_prefix("s3://sun-backups/a/b/"), Ok(("sun-backups", "a/b")));
        assert!(matches!(bucket_and_prefix("sun-backups/a"), Err(PlaceError::NoTarget(_))));
        let sun = place("https://a.example:9000", ("sun", "a/b")).unwrap();
        assert_eq!(sun.folder("0af3").key("x"), "a/b/0af3/x");
        let bare = place("https://a.example", ("sun", "")).unwrap();
        assert_eq!(bare.key("x"), "x");
        for prefix in ["..", "a/../b", "a//b", "/a", "./a", "a b", "a?b", "a#b", "ü", "a\nb"] {
            let refused = place("https://a.example", ("sun", prefix)).unwrap_err();
            assert_eq!(refused, PlaceError::Prefix, "{prefix:?}");
        }
        for bucket in ["", "ab", "Sun", "sun/x", "..", "a..b", "-sun", "sun.", "sun?x", "sü-n"] {
            let refused = place("https://a.example", (bucket, "")).unwrap_err();
            assert!(matches!(refused, PlaceError::Bucket(_)), "{bucket:?}: {refused}");
        }
    }

    /// R-CLI-6: an endpoint is encrypted, this machine's, or was allowed; and it has nothing but a host.
    #[test]
    fn an_endpoint_is_encrypted() {
        for endpoint in ["http://a.example", "http://10.0.0.1:9000", "http://127.0.0.1.a.example"] {
            assert_eq!(place(endpoint, ("sun", "")).unwrap_err(), PlaceError::Plain, "{endpoint}");
        }
        for endpoint in [
            "",
            "a.example",
            "ftp://a.example",
            "https://",
            "https://ann:x@a.example",
            "https://a.example/s3",
            "https://a.example/?x",
        ] {
            assert_eq!(
                place(endpoint, ("sun", "")).unwrap_err(),
                PlaceError::Endpoint,
                "{endpoint}"
            );
        }
        for endpoint in ["http://127.0.0.1:9000", "http://[::1]:9000", "http://localhost:9"] {
            assert!(place(endpoint, ("sun", "")).is_ok(), "{endpoint}");
        }
        let anywhere =
            Place::new("http://a.example", "x", ("sun", ""), Addressing::Host, PlainHttp::Anywhere);
        assert!(anywhere.is_ok());
        let no_host = Place::new(
            "https://127.0.0.1",
            "x",
            ("sun", ""),
            Addressing::Host,
            PlainHttp::LoopbackOnly,
        );
        assert!(no_host.is_err(), "an address has no names below it");
    }
}
