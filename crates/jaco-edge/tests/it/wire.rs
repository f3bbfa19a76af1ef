//! A client that says exactly what it is told to, and reads exactly what comes.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::lab::{Lab, PATIENCE};

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// A field, by its name in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    /// Why the edge refused the request.
    pub(crate) fn reason(&self) -> &str {
        self.field("x-jaco-reason").unwrap_or("")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A field of the request that an instance described in the body.
    pub(crate) fn sent(&self, name: &str) -> Option<&str> {
        let fields = self.text().split("\n\n").next()?.lines().skip(1);
        let mut fields = fields.filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value)
    }
}

/// Reads a response as a whole. `None`: the connection ended before it began.
pub(crate) async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Reply> {
    tokio::time::timeout(PATIENCE, read_in_time(stream)).await.expect("a response in time")
}

async fn read_in_time<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Reply> {
    let head = read_head(stream).await?;
    let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut reply = Reply { status, head, body: Vec::new() };
    let is_chunked = reply.field("transfer-encoding") == Some("chunked");
    let length = reply.field("content-length").map(|length| length.parse::<usize>().unwrap());
    if is_chunked {
        while let Some(chunk) = read_chunk(stream).await {
            reply.body.extend(chunk);
        }
    } else if let Some(length) = length {
        reply.body.resize(length, 0);
        stream.read_exact(&mut reply.body).await.ok()?;
    }
    Some(reply)
}

/// Reads the head of a response, with its empty line.
pub(crate) async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Reads a chunk. `None`: it was the last, or the connection ended.
pub(crate) async fn read_chunk<S: AsyncRead + Unpin>(stream: &mut S) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.ok()?);
    }
    let size = usize::from_str_radix(std::str::from_utf8(&line).unwrap().trim(), 16).unwrap();
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk).await.ok()?;
    chunk.truncate(size);
    (size > 0).then_some(chunk)
}

/// Sends bytes and reads a response.
pub(crate) async fn ask<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, bytes: &str) -> Reply {
    stream.write_all(bytes.as_bytes()).await.unwrap();
    read(stream).await.expect("a response")
}

/// Sends bytes on a connection of their own and reads a response.
pub(crate) async fn once(lab: &Lab, bytes: &str) -> Reply {
    ask(&mut lab.connect().await, bytes).await
}

/// A GET on a connection of its own.
pub(crate) async fn get(lab: &Lab, host: &str, path: &str) -> Reply {
    once(lab, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await
}

/// Whether the other end closes the connection within `limit`, without saying anything more.
pub(crate) async fn is_closed<S: AsyncRead + Unpin>(stream: &mut S, limit: Duration) -> bool {
    let mut byte = [0];
    match tokio::time::timeout(limit, stream.read(&mut byte)).await {
        Ok(Ok(0) | Err(_)) => true,
        Ok(Ok(_)) => panic!("the other end says more"),
        Err(_) => false,
    }
}
