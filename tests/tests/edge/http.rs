//! What a client says to an edge over one connection, and what it expects.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const HOST: &str = "Host: shop.example.com";

/// Asks, and expects 200 with a body that has this; whether the connection can be used again.
pub(crate) async fn expect(stream: &mut TcpStream, line: &str, body: &str) -> Result<bool, String> {
    let request = format!("{line}\r\n{HOST}\r\n\r\n");
    let sent = stream.write_all(request.as_bytes()).await;
    sent.map_err(|error| format!("{line}: not sent: {error}"))?;
    let reply = read(stream).await.map_err(|error| format!("{line}: {error}"))?;
    if reply.starts_with("HTTP/1.1 200 ") && reply.contains(body) {
        return Ok(!reply.to_ascii_lowercase().contains("\r\nconnection: close"));
    }
    Err(format!("{line}: {reply}"))
}

/// Head and body of a response.
async fn read(stream: &mut TcpStream) -> Result<String, String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let is_whole = match length.and_then(|length| length.trim().parse::<usize>().ok()) {
                Some(length) => body.len() >= length,
                None => body.ends_with("0\r\n\r\n") || head.starts_with("http/1.1 101 "),
            };
            if is_whole {
                return Ok(text);
            }
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await {
            Ok(0) => return Err(format!("the connection ended after {text:?}")),
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) => return Err(format!("{error} after {text:?}")),
        }
    }
}

/// Asks for an upgraded connection.
pub(crate) async fn upgrade(stream: &mut TcpStream) -> Result<(), String> {
    let request = format!(
        "GET /socket HTTP/1.1\r\n{HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    let sent = stream.write_all(request.as_bytes()).await;
    sent.map_err(|error| format!("socket: not sent: {error}"))?;
    let reply = read(stream).await.map_err(|error| format!("socket: {error}"))?;
    if reply.starts_with("HTTP/1.1 101 ") { Ok(()) } else { Err(format!("socket: {reply}")) }
}

/// Sends a message over an upgraded connection, and gets it back.
pub(crate) async fn echo(stream: &mut TcpStream) -> Result<(), String> {
    let mut message = [0; 4];
    let sent = stream.write_all(b"ping").await;
    sent.map_err(|error| format!("socket: message not sent: {error}"))?;
    let got = stream.read_exact(&mut message).await;
    got.map_err(|error| format!("socket: message not echoed: {error}"))?;
    if &message == b"ping" { Ok(()) } else { Err(format!("socket: the message is {message:?}")) }
}
