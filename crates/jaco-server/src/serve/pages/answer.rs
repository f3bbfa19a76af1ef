//! Answers of plain HTTP.

use bytes::Bytes;
use http_body_util::Full;
use jaco_types::{ErrorCode, Rejection};
use tonic::body::Body;
use tonic::codegen::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use tonic::codegen::http::{Response, StatusCode};

const TEXT: &str = "text/plain; charset=utf-8";

/// A document of this type.
pub(super) fn document(content_type: &'static str, content: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(content)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A refusal, in the words of every other client.
pub(super) fn refusal(rejection: &Rejection) -> Response<Body> {
    let status = status(rejection.code);
    let mut response =
        said(status, format!("{}: {}\n", rejection.code.as_str(), rejection.message));
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer realm=\"jaco\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}

pub(super) fn only_get() -> Response<Body> {
    let message = "documents are read only: ask with GET\n";
    let mut response = said(StatusCode::METHOD_NOT_ALLOWED, message.to_owned());
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    response
}

pub(in crate::serve) fn not_found() -> Response<Body> {
    let message = "there is nothing here: /metrics has the metrics of this node, /api/v1 the state of the cluster as JSON, /ui a page for browsers; gRPC needs \
         HTTP/2\n";
    said(StatusCode::NOT_FOUND, message.to_owned())
}

fn said(status: StatusCode, message: String) -> Response<Body> {
    let mut response = document(TEXT, message.into());
    *response.status_mut() = status;
    response
}

#[expect(clippy::wildcard_enum_match_arm, reason = "all other codes are not about who asks")]
fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::Unauthenticated
        | ErrorCode::TokenInvalid
        | ErrorCode::TokenExpired
        | ErrorCode::TokenRevoked
        | ErrorCode::CertificateInvalid => StatusCode::UNAUTHORIZED,
        ErrorCode::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-OPS-1: browsers and scrapers know from the status what to do about a refusal.
    #[test]
    fn refusals_have_the_status_of_their_kind() {
        for (code, expected) in [
            (ErrorCode::Unauthenticated, 401),
            (ErrorCode::TokenRevoked, 401),
            (ErrorCode::PermissionDenied, 403),
            (ErrorCode::ClusterUninitialized, 503),
            (ErrorCode::Overloaded, 503),
        ] {
            let response = refusal(&Rejection::new(code, "why"));
            assert_eq!(response.status(), expected);
            let asks = response.headers().contains_key(WWW_AUTHENTICATE);
            assert_eq!(asks, expected == 401, "{code:?}");
        }
    }
}
