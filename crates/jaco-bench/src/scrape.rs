//! Reads the metrics of a node, as a scraper does, over its socket.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jaco_testkit::Node;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: node.internal\r\nconnection: close\r\n\r\n";

/// One answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scrape {
    pub(crate) took: Duration,
    /// With its head.
    pub(crate) bytes: usize,
}

/// Asks on a connection of its own.
pub(crate) async fn scrape(node: &Node) -> Result<Scrape> {
    let begun = Instant::now();
    let mut stream = UnixStream::connect(node.socket()).await?;
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let took = begun.elapsed();
    let head = String::from_utf8_lossy(&answer[..answer.len().min(200)]);
    ensure!(head.starts_with("HTTP/1.1 200 "), "the metrics are refused: {head}");
    Ok(Scrape { took, bytes: answer.len() })
}
