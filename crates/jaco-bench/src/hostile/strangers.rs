//! What strangers do: callers without a valid credential.

use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use h2::client::SendRequest;
use jaco_pki::OperatorToken;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::victim::{Victim, call};

/// Sources of the attacks that need several: 127.0.0.2 and those after it.
const SOURCES: [u8; 8] = [2, 3, 4, 5, 6, 7, 8, 9];

const IDLE_OF_A_SOURCE: usize = 128;
const HELLOS_OF_A_SOURCE: usize = 64;

/// The first bytes of a hello.
const HALF_A_HELLO: [u8; 7] = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00];

const BODY_CONNECTIONS: usize = 8;
const BODY_STREAMS: usize = 250;
/// What is sent of each message.
const BODY_BYTES: usize = 2 << 20;
/// What each message is announced to have.
const ANNOUNCED_BYTES: u32 = 8 << 20;
/// How long the answer to a message is waited for that does not end.
const BODY_PATIENCE: Duration = Duration::from_secs(20);

const REFUSED_CONNECTIONS: usize = 16;
const REFUSED_AT_A_TIME: usize = 4;

/// Requests whose messages never end, of methods for operators, for members, and for those who join.
pub(super) async fn bodies(victim: Victim) {
    let methods =
        ["/jaco.v1.Deploy/Apply", "/jaco.v1.Peer/Heartbeat", "/jaco.v1.Cluster/AdmitNode"];
    let rest = Bytes::from(vec![0; BODY_BYTES]);
    let mut connections = JoinSet::new();
    for (number, method) in (0..BODY_CONNECTIONS).zip(methods.into_iter().cycle()) {
        let (victim, rest) = (victim.clone(), rest.clone());
        let source = SOURCES[number % SOURCES.len()];
        connections.spawn(async move {
            victim
                .again(|| async {
                    let stream = victim.tls(source).await?;
                    let (sender, connection) = h2::client::handshake(stream).await?;
                    let mut streams = JoinSet::new();
                    for _ in 0..BODY_STREAMS {
                        let (victim, sender, rest) = (victim.clone(), sender.clone(), rest.clone());
                        streams.spawn(async move {
                            while body(&victim, &sender, method, &rest).await.is_ok() {}
                        });
                    }
                    connection.await?;
                    Ok(())
                })
                .await;
        });
    }
    connections.join_all().await;
}

async fn body(
    victim: &Victim,
    sender: &SendRequest<Bytes>,
    method: &str,
    rest: &Bytes,
) -> Result<()> {
    let (answer, mut body) = call(sender, method, None).await?;
    let mut head = vec![0; 1];
    head.extend(ANNOUNCED_BYTES.to_be_bytes());
    body.send_data(head.into(), false)?;
    // Refused as soon as the other side has ended the stream.
    let _refused = body.send_data(rest.clone(), false);
    victim.count(1);
    let _answer = tokio::time::timeout(BODY_PATIENCE, answer).await??;
    Ok(())
}

/// Connections that say nothing once they are there.
pub(super) async fn idle_connections(victim: Victim) {
    from_all_sources(victim, IDLE_OF_A_SOURCE, |victim, source| async move {
        let mut stream = victim.tls(source).await?;
        victim.count(1);
        stream.read_to_end(&mut Vec::new()).await?;
        Ok(())
    })
    .await;
}

/// Handshakes that are not finished.
pub(super) async fn hellos(victim: Victim) {
    from_all_sources(victim, HELLOS_OF_A_SOURCE, |victim, source| async move {
        let mut socket = victim.socket(source).await?;
        socket.write_all(&HALF_A_HELLO).await?;
        victim.count(1);
        socket.read_to_end(&mut Vec::new()).await?;
        Ok(())
    })
    .await;
}

/// So many connections of each source at a time, each replaced as soon as it ends.
async fn from_all_sources<F>(victim: Victim, of_each: usize, once: impl Fn(Victim, u8) -> F)
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    // The tasks are made by a closure that is not sent to them.
    let mut running = JoinSet::new();
    let begin = |running: &mut JoinSet<(u8, Result<()>)>, source: u8| {
        let connection = once(victim.clone(), source);
        running.spawn(async move { (source, connection.await) });
    };
    for source in SOURCES {
        for _ in 0..of_each {
            begin(&mut running, source);
        }
    }
    while let Some(ended) = running.join_next().await {
        let Ok((source, _)) = ended else { continue };
        begin(&mut running, source);
        // Refused ones must not starve those that are being opened.
        tokio::task::yield_now().await;
    }
}

/// Calls with a well-formed token that the cluster never issued.
pub(super) async fn refused_calls(victim: Victim) {
    let mut connections = JoinSet::new();
    for number in 0..REFUSED_CONNECTIONS {
        let victim = victim.clone();
        let source = SOURCES[number % SOURCES.len()];
        connections.spawn(async move {
            victim
                .again(|| async {
                    let stream = victim.tls(source).await?;
                    let (sender, connection) = h2::client::handshake(stream).await?;
                    let mut calls = JoinSet::new();
                    for _ in 0..REFUSED_AT_A_TIME {
                        let (victim, sender) = (victim.clone(), sender.clone());
                        calls
                            .spawn(async move { while refused(&victim, &sender).await.is_ok() {} });
                    }
                    connection.await?;
                    Ok(())
                })
                .await;
        });
    }
    connections.join_all().await;
}

async fn refused(victim: &Victim, sender: &SendRequest<Bytes>) -> Result<()> {
    let token = OperatorToken::mint().reveal();
    let (answer, mut body) = call(sender, "/jaco.v1.Deploy/Apply", Some(&token)).await?;
    let _refused = body.send_data(Bytes::from_static(&[0; 5]), true);
    victim.count(1);
    answer.await?;
    Ok(())
}
