//! Answers in JSON: objects with a tag of what they have, and refusals with the codes of every other client.

use bytes::Bytes;
use http_body_util::Full;
use jaco_types::{ErrorCode, Rejection};
use ring::digest;
use serde_json::{Value, json};
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    IF_NONE_MATCH, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use tonic::codegen::http::{HeaderMap, Response, StatusCode};

use crate::endpoints::ENDPOINTS;
use crate::status::to_status;

/// Which state of this node the answer is at least of: its index in the log.
const INDEX: HeaderName = HeaderName::from_static("jaco-index");

/// Bytes of a tag: more than enough that no two answers have the same one by chance.
const TAG_BYTES: usize = 16;

/// An answer that is at least of the state `index`; without its content if the caller has it already.
pub(super) fn found(content: Vec<u8>, index: u64, request: &HeaderMap) -> Response<Body> {
    let tag = tag(&content);
    let mut response = match is_known(&tag, request) {
        true => {
            let mut unchanged = Response::new(Body::empty());
            *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
            unchanged.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(REVALIDATE));
            unchanged
        }
        false => document(StatusCode::OK, content.into()),
    };
    let headers = response.headers_mut();
    headers.insert(INDEX, index.into());
    headers.extend(HeaderValue::try_from(tag).ok().map(|tag| (ETAG, tag)));
    response
}

/// A refusal.
pub(crate) fn refusal(rejection: &Rejection) -> Response<Body> {
    let body = json!({ "error": error(rejection) });
    let mut response = document(status(rejection), text(&body));
    let headers = response.headers_mut();
    match kind(rejection) {
        Kind::NeedsCredential => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"jaco\""));
        }
        Kind::Passing => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Kind::Other => {}
    }
    response
}

/// The answer where nothing is: with all paths.
pub(super) fn nothing_at(path: &str) -> Response<Body> {
    // As much of it as says which it was.
    let path: String = path.chars().take(200).collect();
    let message = format!("there is nothing at {path}: `paths` has all that there is");
    let rejection = Rejection::new(ErrorCode::InvalidRequest, message);
    let body = json!({ "error": error(&rejection), "paths": paths() });
    document(StatusCode::NOT_FOUND, text(&body))
}

/// The answer to a request that would change something.
pub(crate) fn only_reads() -> Response<Body> {
    let message = "the JSON API is read only: ask with GET or HEAD; changes go over gRPC, as `jaco` makes them";
    let rejection = Rejection::new(ErrorCode::InvalidRequest, message);
    let body = json!({ "error": error(&rejection) });
    let mut response = document(StatusCode::METHOD_NOT_ALLOWED, text(&body));
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// The head of an answer, as to `HEAD`: it says how long the answer to `GET` is.
pub(crate) fn without_content(response: Response<Body>) -> Response<Body> {
    use http_body::Body as _;
    let (mut head, body) = response.into_parts();
    if let Some(length) =
        body.size_hint().exact().filter(|_| head.status != StatusCode::NOT_MODIFIED)
    {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Body::empty())
}

/// All paths, with the parameters of each.
pub(super) fn paths() -> Value {
    let paths = ENDPOINTS
        .iter()
        .map(|endpoint| json!({ "path": endpoint.path, "parameters": endpoint.parameters }));
    paths.collect()
}

/// A cache may keep an answer, for its own user, and asks each time whether it still holds.
const REVALIDATE: &str = "private, no-cache";

fn document(status: StatusCode, content: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(content)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let caching = if status == StatusCode::OK { REVALIDATE } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn text(value: &Value) -> Bytes {
    format!("{value}\n").into()
}

fn error(rejection: &Rejection) -> Value {
    json!({
        "code": rejection.code.as_str(),
        "message": rejection.message,
        "details": jaco_json::fields::string_map(&rejection.details),
    })
}

/// A strong tag: answers with the same one are the same bytes. Not the index of the state: answers also have what nodes
/// tell at the moment, and how old they are.
fn tag(content: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, content);
    format!("\"{}\"", hex::encode(&hash.as_ref()[..TAG_BYTES]))
}

/// Whether the caller has named this tag in `If-None-Match`.
fn is_known(tag: &str, request: &HeaderMap) -> bool {
    let named = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut named = named.flat_map(|value| value.split(',')).map(str::trim);
    named.any(|named| named == "*" || named.trim_start_matches("W/") == tag)
}

/// What a caller can do about a refusal, as far as headers say it.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    NeedsCredential,
    /// It passes by itself.
    Passing,
    Other,
}

fn kind(rejection: &Rejection) -> Kind {
    match status(rejection) {
        StatusCode::UNAUTHORIZED => Kind::NeedsCredential,
        StatusCode::SERVICE_UNAVAILABLE => Kind::Passing,
        _ => Kind::Other,
    }
}

/// The status of HTTP that says what can be done about a refusal.
pub(crate) fn status(rejection: &Rejection) -> StatusCode {
    if rejection.code == ErrorCode::TooLarge {
        return StatusCode::PAYLOAD_TOO_LARGE;
    }
    if rejection.code == ErrorCode::ClusterUninitialized {
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    match to_status(rejection).code() {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => StatusCode::CONFLICT,
        Code::ResourceExhausted | Code::Unavailable | Code::Cancelled => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Internal | Code::Unknown | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Browsers and programs know from the status what to do about a refusal, before they know our codes.
    #[test]
    fn refusals_have_the_status_of_their_kind() {
        for (code, expected) in [
            (ErrorCode::InvalidRequest, 400),
            (ErrorCode::Unauthenticated, 401),
            (ErrorCode::TokenRevoked, 401),
            (ErrorCode::PermissionDenied, 403),
            (ErrorCode::DeploymentNotFound, 404),
            (ErrorCode::TooLarge, 413),
            (ErrorCode::Internal, 500),
            (ErrorCode::ClusterUninitialized, 503),
            (ErrorCode::NotCaughtUp, 503),
            (ErrorCode::QuorumLost, 503),
            (ErrorCode::Overloaded, 503),
            (ErrorCode::TimedOut, 504),
        ] {
            let response = refusal(&Rejection::new(code, "why"));
            assert_eq!(response.status(), expected, "{code:?}");
            let headers = response.headers();
            assert_eq!(headers.contains_key(WWW_AUTHENTICATE), expected == 401, "{code:?}");
            assert_eq!(headers.contains_key(RETRY_AFTER), expected == 503, "{code:?}");
        }
    }

    #[test]
    fn tags_are_compared_as_the_protocol_says() {
        let tag = tag(b"{}");
        let known = |value: &str| {
            let mut request = HeaderMap::new();
            request.insert(IF_NONE_MATCH, value.parse().unwrap());
            is_known(&tag, &request)
        };
        assert!(known(&tag) && known("*"));
        assert!(known(&format!("W/{tag}")) && known(&format!("\"other\", {tag}")));
        assert!(!known("\"other\"") && !known("") && !known(tag.trim_matches('"')));
        assert!(!is_known(&tag, &HeaderMap::new()));
        assert_ne!(tag, super::tag(b"[]"));
    }

    /// An unchanged answer has no content, and the same tag and index as one with it.
    #[test]
    fn an_unchanged_answer_is_not_sent_again() {
        let first = found(b"[1]\n".to_vec(), 7, &HeaderMap::new());
        assert_eq!(
            (first.status(), first.headers()[INDEX].to_str().unwrap()),
            (StatusCode::OK, "7")
        );
        let mut request = HeaderMap::new();
        request.insert(IF_NONE_MATCH, first.headers()[ETAG].clone());
        let again = found(b"[1]\n".to_vec(), 8, &request);
        assert_eq!(
            (again.status(), again.headers()[INDEX].to_str().unwrap()),
            (StatusCode::NOT_MODIFIED, "8")
        );
        assert_eq!(again.headers()[ETAG], first.headers()[ETAG]);
        assert!(http_body::Body::is_end_stream(again.body()));
        assert_eq!(found(b"[2]\n".to_vec(), 8, &request).status(), StatusCode::OK);
        let head = without_content(first);
        assert_eq!(
            (&head.headers()[CONTENT_LENGTH], head.status()),
            (&HeaderValue::from(4), StatusCode::OK)
        );
    }
}
