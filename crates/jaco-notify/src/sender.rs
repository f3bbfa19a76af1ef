//! One attempt: encrypted by default, in bounded time, with an answer of bounded size, and never sent on to where the
//! receiver points.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT as USER_AGENT_HEADER};
use http::uri::Scheme;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use jaco_https::{Connector, Roots, Schemes, causes};
use rustls::pki_types::CertificateDer;

use crate::endpoint::{Endpoint, WebEndpoint};
use crate::failure::SendError;
use crate::mail::{self, Mail};
use crate::signature::{SIGNATURE_HEADER, signature};

/// The longest that a delivery may take, with its connection.
pub const SEND_LIMIT: Duration = Duration::from_secs(10);

/// Who asks.
pub const USER_AGENT: &str = concat!("jaco/", env!("CARGO_PKG_VERSION"));

/// The most bytes that are read of an answer: of a failure, a word that is known.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// The words with which services that are compatible with Slack say what is wrong.
const KNOWN_WORDS: [&str; 9] = [
    "action_prohibited",
    "channel_is_archived",
    "channel_not_found",
    "invalid_payload",
    "invalid_token",
    "no_service",
    "no_text",
    "posting_to_general_channel_denied",
    "user_not_found",
];

/// The header with the id of the event.
const ID_HEADER: &str = "x-jaco-event-id";

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The same at each attempt.
    pub id: String,
    /// What it says.
    pub content: Content,
}

/// What a message says, as its receiver takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// JSON, to a webhook or a chat.
    Json(Bytes),
    /// To a mail server.
    Mail(Mail),
}

/// Sends. Made anew after a failure, so that it has the authorities that the machine trusts then.
#[derive(Debug)]
pub struct Sender {
    client: Client<Connector, Full<Bytes>>,
    authorities: Vec<CertificateDer<'static>>,
}

impl Sender {
    /// A sender that trusts these.
    #[must_use]
    pub fn new(roots: Roots) -> Self {
        let trusted = roots.load();
        let connector = jaco_https::connector(trusted.store, Schemes::HttpToo);
        // Notifications are rare: a connection that was kept would mostly be found closed.
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Self { client, authorities: trusted.certificates }
    }

    /// Sends a message once, and returns the status with which it was accepted: any 2xx.
    ///
    /// # Errors
    /// Why it was not accepted within `limit`.
    pub async fn send(
        &self,
        endpoint: &Endpoint,
        message: &Message,
        now_secs: u64,
        limit: Duration,
    ) -> Result<u16, SendError> {
        let Message { id, content } = message;
        let attempt = async {
            match (endpoint, content) {
                (Endpoint::Web(to), Content::Json(body)) => {
                    self.post(request(to, id, body, now_secs)?).await
                }
                (Endpoint::Mail(to), Content::Mail(mail)) => {
                    mail::send(to, id, mail, &self.authorities).await
                }
                (Endpoint::Web(_), Content::Mail(_)) | (Endpoint::Mail(_), Content::Json(_)) => {
                    Err(SendError::Sealed("it is of another form than the target".to_owned()))
                }
            }
        };
        let answer = tokio::time::timeout(limit, attempt).await;
        answer.unwrap_or(Err(SendError::Timeout { limit }))
    }

    async fn post(&self, request: Request<Full<Bytes>>) -> Result<u16, SendError> {
        if self.authorities.is_empty() && request.uri().scheme() == Some(&Scheme::HTTPS) {
            return Err(SendError::NoRoots);
        }
        let sent = self.client.request(request).await;
        let answer = sent.map_err(|error| match error.is_connect() {
            true => SendError::Connect(causes(&error)),
            false => SendError::Broken(causes(&error)),
        })?;
        let (status, retry_after) = (answer.status().as_u16(), retry_after(answer.headers()));
        // The answer is read so that the receiver can finish it; what of it is too long is not.
        let word = word(answer.into_body()).await;
        match status {
            200..300 => Ok(status),
            300..400 => Err(SendError::Redirect { status }),
            status => Err(SendError::Status { status, word, retry_after }),
        }
    }
}

fn request(
    WebEndpoint { address, secret }: &WebEndpoint,
    id: &str,
    body: &Bytes,
    now_secs: u64,
) -> Result<Request<Full<Bytes>>, SendError> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(address.uri().clone())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT_HEADER, USER_AGENT)
        .header(ID_HEADER, id);
    if let Some(secret) = secret {
        request = request.header(SIGNATURE_HEADER, signature(secret, now_secs, body));
    }
    let request = request.body(Full::new(body.clone()));
    request.map_err(|error| SendError::Broken(error.to_string()))
}

/// The word of an answer, if it is one of those that are known and nothing else.
async fn word(body: Incoming) -> Option<&'static str> {
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.ok()?.to_bytes();
    let text = std::str::from_utf8(&body).ok()?.trim();
    KNOWN_WORDS.into_iter().find(|known| *known == text)
}

/// How long a receiver asks to wait: in seconds, or until a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(secs) = text.parse() {
        return Some(Duration::from_secs(secs));
    }
    httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).ok()
}
