//! Host names of requests as routes and certificates have them.

use std::borrow::Cow;

/// The host of a `Host` field or `:authority`: without port, in lower case, without the dot of the root.
/// `None`: it is no host name. An IPv6 address keeps its brackets.
pub fn normalize_host(authority: &str) -> Option<Cow<'_, str>> {
    let host = if authority.starts_with('[') {
        let end = authority.find(']')?;
        let (host, port) = authority.split_at(end + 1);
        let inside = &host[1..end];
        let is_address = inside.parse::<std::net::Ipv6Addr>().is_ok();
        (is_address && is_port_suffix(port)).then_some(host)?
    } else {
        let (host, port) = match authority.find(':') {
            Some(at) => authority.split_at(at),
            None => (authority, ""),
        };
        let host = host.strip_suffix('.').unwrap_or(host);
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let valid = (1..=253).contains(&host.len()) && host.bytes().all(allowed);
        let has_empty_label = host.split('.').any(str::is_empty);
        (valid && !has_empty_label && is_port_suffix(port)).then_some(host)?
    };
    if host.bytes().any(|b| b.is_ascii_uppercase()) {
        Some(Cow::Owned(host.to_ascii_lowercase()))
    } else {
        Some(Cow::Borrowed(host))
    }
}

/// Nothing, or `:` and a number of a port, which may be missing.
fn is_port_suffix(text: &str) -> bool {
    match text.strip_prefix(':') {
        None => text.is_empty(),
        Some(digits) => digits.is_empty() || (is_digits(digits) && digits.parse::<u16>().is_ok()),
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_form() {
        for (given, expected) in [
            ("a.example", Some("a.example")),
            ("A.Example:443", Some("a.example")),
            ("a.example.", Some("a.example")),
            ("a.example.:80", Some("a.example")),
            ("a.example:", Some("a.example")),
            ("[::1]:80", Some("[::1]")),
            ("192.0.2.1", Some("192.0.2.1")),
            ("", None),
            (".", None),
            ("a..b", None),
            ("a..", None),
            ("a..:80", None),
            (".a", None),
            ("a b", None),
            ("a/b", None),
            ("a@b", None),
            ("a:b", None),
            ("a:+80", None),
            ("a:65536", None),
            ("[::1", None),
            ("[x]", None),
            ("[::1]x", None),
            ("ü", None),
        ] {
            assert_eq!(normalize_host(given).as_deref(), expected, "{given}");
        }
    }
}
