//! Requests to the authority: encrypted, in bounded time and of bounded size. What is refused comes back as a
//! [`Problem`] with the time that the authority asks for, which its document does not have.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use jaco_https::{Connector, Schemes};
use jaco_types::Millis;

use crate::authority::{RootsError, TrustedRoots};
use crate::problem::Problem;

/// The longest that a request may take, with its connection.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);

/// The most bytes of an answer. A chain of certificates has a few KiB.
const BODY_MAX: usize = 256 << 10;

/// A client of one authority; its connections are kept and used again.
pub(crate) struct Wire(Client<Connector, BodyWrapper<Bytes>>);

#[derive(Debug, thiserror::Error)]
enum WireError {
    #[error("no answer within {} s", REQUEST_LIMIT.as_secs())]
    Timeout,
    #[error("its answer broke off, or is longer than {BODY_MAX} bytes: {0}")]
    Body(String),
}

impl Wire {
    /// # Errors
    /// If no authority is trusted.
    pub(crate) fn new(roots: &TrustedRoots) -> Result<Self, RootsError> {
        let connector = jaco_https::connector(roots.load()?, Schemes::Https);
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector)))
    }
}

impl HttpClient for Wire {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let sent = self.0.request(request);
        Box::pin(async move {
            let answer = tokio::time::timeout(REQUEST_LIMIT, answer(sent)).await;
            answer.unwrap_or_else(|_| Err(other(WireError::Timeout)))
        })
    }
}

async fn answer(sent: ResponseFuture) -> Result<BytesResponse, Error> {
    let (parts, body) = sent.await.map_err(other)?.into_parts();
    let body = read(body).await?;
    if parts.status.is_client_error() || parts.status.is_server_error() {
        let problem = Problem::of_response(parts.status, &body, retry_after(&parts.headers));
        // The library sends a request again with the nonce that comes with this refusal.
        if problem.kind != "badNonce" {
            return Err(other(problem));
        }
    }
    Ok(BytesResponse { parts, body: Box::new(body) })
}

async fn read(body: Incoming) -> Result<Bytes, Error> {
    let body = Limited::new(body, BODY_MAX).collect().await;
    Ok(body.map_err(|error| other(WireError::Body(error.to_string())))?.to_bytes())
}

/// How long a response asks its receiver to wait: in seconds, or until a date.
fn retry_after(headers: &HeaderMap) -> Option<Millis> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(secs) = text.parse() {
        return Some(Millis::from_secs(secs));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let wait = date.duration_since(SystemTime::now()).unwrap_or_default();
    Some(Millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
}

fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Other(error.into())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn wait(text: &'static str) -> Option<Millis> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(wait("3600"), Some(Millis::from_secs(3600)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Millis(0)));
        assert!(wait("Sat, 06 Nov 2094 08:49:37 GMT").unwrap() > Millis::from_secs(1_000_000));
        assert_eq!(wait("soon"), None);
    }
}
