//! One request: in bounded time, with an answer of bounded size, and never sent on to where a store points.

use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::TokioExecutor;
use jaco_https::{Connector, Roots, Schemes, causes};
use rusty_s3::{Method, S3Action};

use crate::failure::{Step, StoreError, word};

/// How long is waited for a store.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long an answer may take to begin, with the request and its connection.
    pub answer: Duration,
    /// How long nothing may come of an answer that has begun.
    pub silence: Duration,
}

impl Default for Limits {
    /// A part over a slow line.
    fn default() -> Self {
        Self { answer: Duration::from_secs(180), silence: Duration::from_secs(60) }
    }
}

/// How long a signature holds.
const SIGNED_FOR: Duration = Duration::from_secs(600);

/// The most bytes of an answer that is read as a whole: a list of a thousand objects.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Sends requests.
#[derive(Debug)]
pub(crate) struct Client {
    client: HttpClient<Connector, Full<Bytes>>,
    knows_nobody: bool,
    limits: Limits,
}

/// An answer whose body is still to come.
pub(crate) struct Answer {
    pub(crate) headers: HeaderMap,
    body: Incoming,
    step: Step,
    silence: Duration,
}

impl Client {
    pub(crate) fn new(roots: Roots, limits: Limits) -> Self {
        let trusted = roots.load();
        let knows_nobody = trusted.is_empty();
        let connector = jaco_https::connector(trusted.store, Schemes::HttpToo);
        let client = HttpClient::builder(TokioExecutor::new()).build(connector);
        Self { client, knows_nobody, limits }
    }

    /// Sends a request, and returns its answer if the store did what was asked.
    pub(crate) async fn send<'a, A: S3Action<'a>>(
        &self,
        step: Step,
        mut action: A,
        headers: &[(&'static str, String)],
        body: Bytes,
    ) -> Result<Answer, StoreError> {
        for (name, value) in headers {
            action.headers_mut().insert(*name, value.clone());
        }
        let method = match A::METHOD {
            Method::Head => http::Method::HEAD,
            Method::Get => http::Method::GET,
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
            Method::Delete => http::Method::DELETE,
        };
        let url = action.sign(SIGNED_FOR);
        let mut request = Request::builder().method(method).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let broken = |reason| StoreError::Broken { step, reason };
        let request = request.body(Full::new(body)).map_err(|error| broken(error.to_string()))?;
        if self.knows_nobody && request.uri().scheme() == Some(&Scheme::HTTPS) {
            return Err(StoreError::NoRoots);
        }
        let Limits { answer: limit, silence } = self.limits;
        let sent = tokio::time::timeout(limit, self.client.request(request)).await;
        let sent = sent.map_err(|_| StoreError::Timeout { step, limit })?;
        let answer = sent.map_err(|error| match error.is_connect() {
            true => StoreError::Connect(causes(&error)),
            false => broken(causes(&error)),
        })?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let answer = Answer { headers, body: answer.into_body(), step, silence };
        match status {
            StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::CREATED => Ok(answer),
            status => {
                let word = answer.text().await.ok().as_deref().and_then(word);
                Err(StoreError::Status { step, status: status.as_u16(), word })
            }
        }
    }
}

impl Answer {
    /// The next bytes of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let (step, limit) = (self.step, self.silence);
        loop {
            let frame = tokio::time::timeout(limit, self.body.frame()).await;
            let frame = frame.map_err(|_| StoreError::Timeout { step, limit })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| self.broken(&error))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
    }

    /// The whole body.
    pub(crate) async fn text(self) -> Result<String, StoreError> {
        let (step, limit) = (self.step, self.silence);
        let read = Limited::new(self.body, ANSWER_BYTES_MAX).collect();
        let read = tokio::time::timeout(limit, read).await;
        let read = read.map_err(|_| StoreError::Timeout { step, limit })?;
        let body = read.map_err(|error| StoreError::Broken { step, reason: causes(&*error) })?;
        String::from_utf8(body.to_bytes().to_vec()).map_err(|_| StoreError::Strange { step })
    }

    fn broken(&self, error: &hyper::Error) -> StoreError {
        StoreError::Broken { step: self.step, reason: causes(error) }
    }
}
