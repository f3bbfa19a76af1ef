//! The HTTP client of an exporter.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use rustls::RootCertStore;

/// The most bytes that are read of an answer: it says at most which spans were refused.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Asks a collector over HTTP/1, encrypted where its address says so; a collector is known by the authorities that the
/// machine trusts.
#[derive(Debug)]
pub(crate) struct CollectorClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl CollectorClient {
    pub(crate) fn new() -> Self {
        let mut roots = RootCertStore::empty();
        // What cannot be read is left out: the others may be enough.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = rustls::crypto::ring::default_provider().into();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the versions that the library calls safe")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1();
        Self(Client::builder(TokioExecutor::new()).build(connector.build()))
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
