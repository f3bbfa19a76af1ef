//! The raft side of a played node: a learner that says yes to each append and keeps nothing.
//!
//! It answers as fast as it reads, so the leader is what is measured. A frame has its length before it, four bytes,
//! big-endian; the numbers of the fields are those of `jaco-raft`, which never change.

use std::sync::Arc;

use anyhow::Result;
use jaco_pki::listener::{Options, Wiring};
use jaco_pki::{CertificateStore, Connections, Protocol, TlsConnection, TlsListener};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::heard::Heard;

/// An answer in format 1 that says that an append was successful, with its length before it.
const SUCCESS: [u8; 10] = [0, 0, 0, 6, 0x08, 1, 0x12, 2, 0x08, 0];

/// An append of a leader, as far as it is looked at.
#[derive(Clone, PartialEq, prost::Message)]
struct Request {
    #[prost(message, optional, tag = "4")]
    append: Option<Append>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Append {
    #[prost(message, optional, tag = "4")]
    commit: Option<LogId>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct LogId {
    #[prost(uint64, tag = "3")]
    index: u64,
}

/// Takes the connections of leaders at `address` and notes up to which index they say that all is committed. It lives as
/// long as the answer.
///
/// # Errors
/// If nobody can listen there.
pub(super) async fn listen(
    address: &str,
    store: Arc<CertificateStore>,
    heard: Heard,
) -> Result<JoinSet<()>> {
    let tcp = TcpListener::bind(address).await?;
    let (failures, _unread) = mpsc::channel(1);
    let connections = Connections::new(&store);
    let wiring = Wiring { store, connections, failures };
    let options = Options { connection_age_max: None, tarpit: 0, ..Options::default() };
    let mut listener = TlsListener::start(tcp, wiring, options)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut served = JoinSet::new();
        while let Some(connection) = listener.accept().await {
            let heard = heard.clone();
            match connection.protocol() {
                Protocol::Raft => {
                    // A leader opens another stream when one ends.
                    served.spawn(async move { drop(answer(connection, &heard).await) });
                }
                Protocol::Rpc | Protocol::Http1 => {}
            }
        }
    });
    Ok(tasks)
}

/// Answers until the stream ends.
async fn answer(mut connection: TlsConnection, heard: &Heard) -> Result<()> {
    let mut frame = Vec::new();
    loop {
        let length = usize::try_from(connection.read_u32().await?)?;
        frame.resize(length, 0);
        connection.read_exact(&mut frame).await?;
        let request = Request::decode(frame.as_slice())?;
        if let Some(commit) = request.append.and_then(|append| append.commit) {
            heard.note(commit.index);
        }
        connection.write_all(&SUCCESS).await?;
        connection.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wire format of `jaco-raft`, whose frozen instances are beside it.
    #[test]
    fn the_committed_index_is_found_in_a_frame() {
        // Format 1, from 1, to 2, an append with a vote, a commit at index 9 of term 3 and no entry.
        let frame = [
            8, 1, 16, 1, 24, 2, 0x22, 16, 0x0a, 6, 8, 1, 16, 3, 24, 1, 0x22, 6, 8, 3, 16, 1, 24, 9,
        ];
        let request = Request::decode(frame.as_slice()).unwrap();
        assert_eq!(request.append.unwrap().commit, Some(LogId { index: 9 }));
        let length = u32::from_be_bytes(SUCCESS[..4].try_into().unwrap());
        assert_eq!(usize::try_from(length).unwrap(), SUCCESS.len() - 4);
    }
}
