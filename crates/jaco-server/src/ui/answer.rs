//! Answers to browsers: each with the headers of the page.

use bytes::Bytes;
use http_body_util::Full;
use jaco_types::{ErrorCode, Rejection};
use jaco_ui::assets::Asset;
use jaco_ui::headers::{ALWAYS, KEPT, NOT_KEPT};
use jaco_ui::link::Link;
use tonic::body::Body;
use tonic::codegen::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use tonic::codegen::http::{Response, StatusCode};

use crate::gateway;
use crate::unwanted;

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// A document.
pub(super) fn page(status: StatusCode, html: String) -> Response<Body> {
    with(status, HTML, NOT_KEPT, html.into())
}

/// An asset.
pub(super) fn asset(asset: &Asset) -> Response<Body> {
    with(StatusCode::OK, asset.content_type, KEPT, asset.content.into())
}

/// A stream of events.
pub(super) fn stream(body: Body) -> Response<Body> {
    let mut response = with(StatusCode::OK, "text/event-stream", NOT_KEPT, Bytes::new());
    *response.body_mut() = body;
    response
}

/// Leads a browser elsewhere, by a `GET`.
pub(super) fn lead_to(link: &Link) -> Response<Body> {
    let mut response = with(StatusCode::SEE_OTHER, TEXT, NOT_KEPT, Bytes::new());
    let location = HeaderValue::try_from(link.to_string()).expect("links are of ASCII letters");
    response.headers_mut().insert(LOCATION, location);
    response
}

/// A refusal as a line of text, where no page can be made.
pub(super) fn plain(rejection: &Rejection) -> Response<Body> {
    let status = gateway::status(rejection);
    let text = format!("{}: {}\n", rejection.code.as_str(), rejection.message);
    let mut response = with(status, TEXT, NOT_KEPT, text.into());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The refusal of a form that a page of another site has sent.
pub(super) fn of_another_site() -> Response<Body> {
    let message =
        "this form was not sent by a page of this node: open its page, and send it from there";
    let mut response = plain(&Rejection::new(ErrorCode::InvalidRequest, message));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

/// The refusal of a request that would change something.
pub(super) async fn not_allowed(allowed: &'static str, body: Body) -> Response<Body> {
    unwanted::discard(body).await;
    let message = "nothing is taken here but the forms of actions: each has a page below /ui/do";
    let mut response = plain(&Rejection::new(ErrorCode::InvalidRequest, message));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn with(
    status: StatusCode,
    content_type: &'static str,
    kept: &'static str,
    content: Bytes,
) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(content)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    for (name, value) in ALWAYS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}
