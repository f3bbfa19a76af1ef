//! Where a request was made: by a page of this node, or by one of another site. And its parameters.

use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::{HOST, HeaderName, ORIGIN};
use tonic::codegen::http::request::Parts;

/// What browsers say about where a request was made. No page can change it.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a form was sent by a page of this node. A browser says so in one of two headers; what says nothing is no
/// browser, and has other ways to show a token.
pub(super) fn is_own(head: &Parts) -> bool {
    if let Some(site) = text(&head.headers, &FETCH_SITE) {
        return site == "same-origin";
    }
    let host = match head.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => text(&head.headers, &HOST),
    };
    let origin = text(&head.headers, &ORIGIN).and_then(|it| it.strip_prefix("https://"));
    origin.is_some() && origin == host
}

/// A parameter of the query; none if it is not there or empty.
pub(super) fn parameter(head: &Parts, name: &str) -> Option<String> {
    let query = head.uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let value = pairs.find_map(|(key, value)| (key == name).then(|| value.trim().to_owned()));
    value.filter(|value| !value.is_empty())
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use tonic::codegen::http::Request;

    use super::*;

    fn own(uri: &str, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::post(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        is_own(&request.body(()).unwrap().into_parts().0)
    }

    /// R-OPS-1, R-IN-3: forms that pages of others send are told from those of this node.
    #[test]
    fn forms_of_other_sites_are_told_apart() {
        let (http1, http2) = ("/ui/login", "https://n1:7000/ui/login");
        assert!(own(http2, &[("sec-fetch-site", "same-origin")]));
        assert!(own(http2, &[("origin", "https://n1:7000")]));
        assert!(own(http1, &[("host", "n1:7000"), ("origin", "https://n1:7000")]));
        for headers in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site"), ("origin", "https://n1:7000")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://evil.example")],
            &[("origin", "https://n1")],
            &[("origin", "https://n1:7000.evil.example")],
            &[("origin", "http://n1:7000")],
            &[("origin", "null")],
            &[],
        ] {
            assert!(!own(http2, headers), "{headers:?}");
        }
        assert!(!own(http1, &[("origin", "https://n1:7000")]));
    }
}
