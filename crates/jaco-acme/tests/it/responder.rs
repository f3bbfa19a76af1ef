//! What answers an authority in the place of an edge: from the records, and from nothing else.

use std::net::Ipv4Addr;
use std::sync::Arc;

use jaco_acme::challenge_certificate;
use jaco_types::ChallengeKind;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::LazyConfigAcceptor;

use crate::cluster::Rows;
use crate::pebble::{HTTP_PORT, TLS_PORT};

/// An edge that ends with its owner.
pub(crate) struct Responder(JoinHandle<()>);

impl Drop for Responder {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers HTTP-01 challenges.
pub(crate) async fn answer_http(address: Ipv4Addr, rows: &Arc<Rows>) -> Responder {
    let rows = Arc::clone(rows);
    answer_http_with(address, move |token| rows.answer(ChallengeKind::Http01, token)).await
}

/// Answers HTTP-01 challenges with what a function says.
pub(crate) async fn answer_http_with(
    address: Ipv4Addr,
    answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> Responder {
    let listener = TcpListener::bind((address, HTTP_PORT)).await.unwrap();
    let answer = Arc::new(answer);
    Responder(tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            // A client that went away is no concern of the test.
            tokio::spawn(async move { drop(serve_http(stream, &*answer).await) });
        }
    }))
}

async fn serve_http(
    stream: TcpStream,
    answer: impl Fn(&str) -> Option<String>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut rest = String::new();
    while stream.read_line(&mut rest).await? > 2 {
        rest.clear();
    }
    let path = line.split(' ').nth(1).unwrap_or_default();
    let found = path.strip_prefix("/.well-known/acme-challenge/").and_then(answer);
    let (status, body) = found.map_or(("404 Not Found", String::new()), |text| ("200 OK", text));
    let head =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Answers TLS-ALPN-01 challenges.
pub(crate) async fn answer_tls(address: Ipv4Addr, rows: &Arc<Rows>) -> Responder {
    let listener = TcpListener::bind((address, TLS_PORT)).await.unwrap();
    let rows = Arc::clone(rows);
    Responder(tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let rows = Arc::clone(&rows);
            tokio::spawn(async move { serve_tls(stream, &rows).await });
        }
    }))
}

async fn serve_tls(stream: TcpStream, rows: &Rows) -> Option<()> {
    let start = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await.ok()?;
    let name = start.client_hello().server_name()?.to_owned();
    let challenge = rows.challenge_of(ChallengeKind::TlsAlpn01, &name)?;
    let made = challenge_certificate(&challenge.domain, &challenge.key_authorization).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(made.chain.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let key = provider.key_provider.load_private_key(key).unwrap();
    // Without the library's comparison of the two, which does not know the extension of the challenge.
    let certified = SingleCertAndKey::from(CertifiedKey::new(chain, key));
    let config = ServerConfig::builder_with_provider(Arc::new(provider));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_cert_resolver(Arc::new(certified));
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let mut stream = start.into_stream(Arc::new(config)).await.ok()?;
    stream.shutdown().await.ok()
}
