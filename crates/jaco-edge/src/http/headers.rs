//! Fields of requests and responses: what belongs to one connection stays there, and what is said about the client is
//! true.

use std::net::{IpAddr, SocketAddr};

use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};

use super::connection::Connection;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// What instances take from the edge, and from nobody else.
const OWN: [HeaderName; 7] = [
    FORWARDED_FOR,
    FORWARDED_PROTO,
    FORWARDED_HOST,
    FORWARDED_PORT,
    REAL_IP,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
];

/// Fields that are about one connection only (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HTTP2_SETTINGS,
];

/// Removes what is about one connection only, and what `Connection` names.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = tokens(headers, &header::CONNECTION)
            .filter_map(|token| token.parse().ok())
            // Who names those wants to change what the request is.
            .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Removes fields that an application may take for one that the edge says: CGI and WSGI read `X_Real_IP` and `X-Real-IP`
/// under one name.
pub(super) fn strip_lookalikes(headers: &mut HeaderMap) {
    let is_lookalike = |name: &&HeaderName| {
        let text = name.as_str();
        text.contains('_') && OWN.iter().any(|own| *own == *text.replace('_', "-"))
    };
    let found: Vec<HeaderName> = headers.keys().filter(is_lookalike).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// Whether a field that is a list has this token.
pub(super) fn has_token(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    tokens(headers, name).any(|token| token.eq_ignore_ascii_case(wanted))
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

/// Whether a request asks for a WebSocket on its connection.
pub(super) fn wants_websocket(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
        && has_token(headers, &header::UPGRADE, "websocket")
        && has_token(headers, &header::CONNECTION, "upgrade")
}

/// Who the client is: the peer, or whom trusted proxies name, from the last one back to the first that is not trusted.
pub(super) fn client_of(connection: &Connection, headers: &HeaderMap) -> IpAddr {
    let direct = connection.client.ip().to_canonical();
    let view = connection.shared.view.load();
    if view.trusted.is_empty() || !view.trusts(direct) {
        return direct;
    }
    let named: Vec<&str> = tokens(headers, &FORWARDED_FOR).collect();
    let mut client = direct;
    for name in named.into_iter().rev() {
        let Some(address) = read_address(name) else { break };
        client = address;
        if !view.trusts(client) {
            break;
        }
    }
    client
}

/// An address with or without port.
fn read_address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    address.map(|address| address.to_canonical())
}

/// Says who the client is. What came in about that is replaced, or continued if it came from a trusted proxy.
pub(super) fn set_forwarded(connection: &Connection, headers: &mut HeaderMap, host: &HeaderValue) {
    let direct = connection.client.ip().to_canonical();
    let is_trusted = connection.shared.view.load().trusts(direct);
    let scheme = if connection.tls_host.is_some() { "https" } else { "http" };
    headers.remove(header::FORWARDED);
    headers.remove(FORWARDED_PORT);
    let before: Vec<&str> = match is_trusted {
        true => tokens(headers, &FORWARDED_FOR).collect(),
        false => Vec::new(),
    };
    let chain = if before.is_empty() {
        direct.to_string()
    } else {
        format!("{}, {direct}", before.join(", "))
    };
    let client = if is_trusted { client_of(connection, headers) } else { direct };
    let text = |text: &str| HeaderValue::from_str(text).ok();
    set(headers, FORWARDED_FOR, text(&chain));
    set(headers, REAL_IP, text(&client.to_string()));
    let keep = |headers: &HeaderMap, name| is_trusted && headers.contains_key(name);
    if !keep(headers, FORWARDED_PROTO) {
        set(headers, FORWARDED_PROTO, Some(HeaderValue::from_static(scheme)));
    }
    if !keep(headers, FORWARDED_HOST) {
        set(headers, FORWARDED_HOST, Some(host.clone()));
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, value: Option<HeaderValue>) {
    match value {
        Some(value) => drop(headers.insert(name, value)),
        None => drop(headers.remove(name)),
    }
}

/// HTTP/2 may divide cookies; HTTP/1 must not (RFC 9113, 8.2.3).
pub(super) fn join_cookies(headers: &mut HeaderMap) {
    let Entry::Occupied(entry) = headers.entry(header::COOKIE) else { return };
    if entry.iter().nth(1).is_none() {
        return;
    }
    let parts: Vec<&[u8]> = entry.iter().map(HeaderValue::as_bytes).collect();
    match HeaderValue::from_bytes(&parts.join(&b"; "[..])) {
        Ok(joined) => drop(headers.insert(header::COOKIE, joined)),
        Err(_) => drop(headers.remove(header::COOKIE)),
    }
}

/// The value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let values = headers.get_all(header::COOKIE).into_iter();
    let pairs = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(';'));
    pairs
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|pair| pair.0 == name)
        .map(|pair| pair.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn what_connection_names_stays_on_the_connection() {
        let mut fields = headers(&[
            ("connection", "keep-alive, X-Secret"),
            ("connection", "te, host, content-length"),
            ("x-secret", "a"),
            ("te", "trailers"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("host", "a"),
            ("content-length", "0"),
            ("x-other", "b"),
        ]);
        strip_hop_by_hop(&mut fields);
        let mut left: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-length", "host", "x-other"]);
    }

    #[test]
    fn what_looks_like_a_field_of_the_edge_is_removed() {
        let mut fields = headers(&[
            ("x_forwarded_for", "a"),
            ("x-forwarded_proto", "b"),
            ("content_length", "5"),
            ("transfer_encoding", "chunked"),
            ("x-forwarded-for", "c"),
            ("x_other", "d"),
        ]);
        strip_lookalikes(&mut fields);
        let mut left: Vec<&str> = fields.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["x-forwarded-for", "x_other"]);
    }

    #[test]
    fn cookies_are_joined_and_found() {
        let mut fields = headers(&[("cookie", "a=1; b=2"), ("cookie", "c=3")]);
        assert_eq!((cookie(&fields, "b"), cookie(&fields, "c")), (Some("2"), Some("3")));
        join_cookies(&mut fields);
        assert_eq!(fields.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
        assert_eq!(cookie(&fields, "d"), None);
    }

    #[test]
    fn addresses_come_with_and_without_port() {
        for text in ["192.0.2.1", "192.0.2.1:80", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:80"] {
            assert_eq!(read_address(text), Some("192.0.2.1".parse().unwrap()), "{text}");
        }
        assert_eq!(read_address("unknown"), None);
    }
}
