//! What a client of gRPC says to an edge over one connection, and what it expects.

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

const TARGET: &str = "http://grpc.example.com";

/// What precedes a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A call, and the messages that answer it.
pub(crate) struct Call {
    pub(crate) method: &'static str,
    pub(crate) message: String,
    pub(crate) expected: Vec<String>,
}

/// What comes of a call that does not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// What was expected.
    Answer,
    /// The edge closes the connection and has not looked at the call: a client makes it again over another one.
    Declined,
}

/// A connection that speaks HTTP/2 in clear, with prior knowledge.
pub(crate) struct Channel {
    sender: SendRequest<Bytes>,
    connection: AbortHandle,
}

impl Channel {
    pub(crate) async fn open(stream: TcpStream) -> Result<Self, String> {
        let opened = h2::client::handshake(stream).await;
        let (sender, connection) = opened.map_err(|error| format!("handshake: {error}"))?;
        let connection = tokio::spawn(async move { drop(connection.await) }).abort_handle();
        Ok(Self { sender, connection })
    }

    /// Whether the edge has said that it takes nothing more over this connection: then a client makes another one. A
    /// connection that ended without a word is a failure.
    pub(crate) async fn is_given_up(&self) -> Result<bool, String> {
        match self.sender.clone().ready().await {
            Ok(_) => Ok(false),
            Err(error) if is_polite(&error) => Ok(true),
            Err(error) => Err(format!("between calls: {error}")),
        }
    }

    /// Calls a method, and expects exactly these messages and trailers of a call that went well.
    pub(crate) async fn expect(&mut self, call: &Call) -> Result<Heard, String> {
        let method = call.method;
        let answer = self.send(call).map_err(|error| format!("{method}: not sent: {error}"))?;
        let answer = match answer.await {
            Ok(answer) => answer,
            Err(error) if is_polite(&error) => return Ok(Heard::Declined),
            Err(error) => return Err(format!("{method}: {error}")),
        };
        let seen = read(answer).await;
        let (messages, status) = seen.map_err(|error| format!("{method}: {error}"))?;
        if messages == call.expected && status == "0" {
            return Ok(Heard::Answer);
        }
        Err(format!("{method}: {messages:?} with status {status}"))
    }

    fn send(&mut self, call: &Call) -> Result<ResponseFuture, h2::Error> {
        let request = Request::post(format!("{TARGET}{}", call.method))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .expect("a valid request");
        let (answer, mut body) = self.sender.send_request(request, false)?;
        body.send_data(framed(&call.message), true)?;
        Ok(answer)
    }
}

/// Whether an edge closes a connection as it should. What it says so of was not looked at: of what was, it waits for the end.
fn is_polite(error: &h2::Error) -> bool {
    error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR)
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn say(error: h2::Error) -> String {
    error.to_string()
}

fn framed(message: &str) -> Bytes {
    let length = u32::try_from(message.len()).expect("it is short");
    [&[0], &length.to_be_bytes()[..], message.as_bytes()].concat().into()
}

/// The messages of an answer, and the `grpc-status` in its trailers.
async fn read(answer: Response<RecvStream>) -> Result<(Vec<String>, String), String> {
    let (head, mut body) = answer.into_parts();
    if head.status != 200 {
        return Err(format!("{head:?}"));
    }
    let messages = messages(&mut body).await?;
    let trailers = body.trailers().await.map_err(say)?.ok_or("there are no trailers")?;
    let status = trailers.get("grpc-status").and_then(|status| status.to_str().ok());
    Ok((messages, status.ok_or("the trailers have no status")?.to_owned()))
}

async fn messages(body: &mut RecvStream) -> Result<Vec<String>, String> {
    let mut bytes = Vec::new();
    while let Some(part) = body.data().await {
        let part = part.map_err(|error| format!("{error} after {} bytes", bytes.len()))?;
        body.flow_control().release_capacity(part.len()).map_err(say)?;
        bytes.extend_from_slice(&part);
    }
    let (mut messages, mut rest) = (Vec::new(), bytes.as_slice());
    while let Some((prefix, following)) = rest.split_at_checked(PREFIX) {
        let length = [prefix[1], prefix[2], prefix[3], prefix[4]];
        let length = usize::try_from(u32::from_be_bytes(length)).expect("it fits");
        let split = following.split_at_checked(length);
        let (message, following) = split.ok_or("a message is cut off")?;
        messages.push(String::from_utf8_lossy(message).into_owned());
        rest = following;
    }
    if rest.is_empty() { Ok(messages) } else { Err(format!("{rest:?} follows the messages")) }
}
