//! The HTTP client of an exporter.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use jaco_https::{Connector, Roots, Schemes};
use opentelemetry_http::{HttpClient, HttpError};

/// The most bytes that are read of an answer: it says at most which spans were refused.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Asks a collector over HTTP/1, encrypted where its address says so; a collector is known by the authorities that the
/// machine trusts.
#[derive(Debug)]
pub(crate) struct CollectorClient(Client<Connector, Full<Bytes>>);

impl CollectorClient {
    pub(crate) fn new() -> Self {
        let connector = jaco_https::connector(Roots::System.load().store, Schemes::HttpToo);
        Self(Client::builder(TokioExecutor::new()).build(connector))
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.0.request(request.map(Full::new)).await?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    }
}
