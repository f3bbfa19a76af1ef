//! The cookie that names a session: sent to this host over TLS only, with requests that its own pages make, and unseen by
//! scripts.

use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::{COOKIE, HeaderValue, SET_COOKIE};

use super::sessions::LIFE;

/// Its name. Browsers take a cookie of such a name only from this host itself, over TLS, for all paths.
const NAME: &str = "__Host-jaco";

/// What a browser must do with it.
const RULES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";

/// The session that a request names.
pub(super) fn named(headers: &HeaderMap) -> Option<&str> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='))
}

/// Has the browser name this session from now on.
pub(super) fn remember(secret: &str, headers: &mut HeaderMap) {
    set(&format!("{NAME}={secret}; Max-Age={}; {RULES}", LIFE.as_secs()), headers);
}

/// Has the browser name no session any more.
pub(super) fn forget(headers: &mut HeaderMap) {
    set(&format!("{NAME}=; Max-Age=0; {RULES}"), headers);
}

fn set(cookie: &str, headers: &mut HeaderMap) {
    let mut value = HeaderValue::try_from(cookie).expect("it is of letters and signs");
    value.set_sensitive(true);
    headers.insert(SET_COOKIE, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: the cookie is bound to this host, TLS and this site, and read as browsers send it.
    #[test]
    fn cookie_names_a_session() {
        let mut answer = HeaderMap::new();
        remember("0a", &mut answer);
        assert_eq!(
            answer[SET_COOKIE],
            "__Host-jaco=0a; Max-Age=43200; Path=/; Secure; HttpOnly; SameSite=Strict"
        );
        forget(&mut answer);
        assert!(answer[SET_COOKIE].to_str().unwrap().starts_with("__Host-jaco=; Max-Age=0; "));

        let sent = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(COOKIE, value.parse().unwrap());
            }
            named(&headers).map(str::to_owned)
        };
        assert_eq!(sent(&["a=b; __Host-jaco=0a; c=d"]).as_deref(), Some("0a"));
        assert_eq!(sent(&["a=b", "__Host-jaco=0a"]).as_deref(), Some("0a"));
        assert_eq!(sent(&["x__Host-jaco=0a", "__Host-jacox=0a", "jaco=0a"]), None);
        assert_eq!(sent(&[]), None);
    }
}
