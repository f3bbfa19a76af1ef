//! TLS handshakes of clients: a certificate for the name that they ask for, or none at all.

use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::Ticketer;
use rustls::server::{Acceptor, ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::awaited::Awaited;
use crate::caps::Caps;
use crate::options::Limits;
use crate::view::View;
use crate::wire::host::normalize_host;

/// The protocol by which a CA asks for a certificate of the challenge (RFC 8737).
const ACME_TLS: &[u8] = b"acme-tls/1";

/// Carries out the handshakes of an edge.
#[derive(Debug)]
pub(crate) struct Handshakes {
    serving: Arc<ServerConfig>,
    challenge: Arc<ServerConfig>,
    awaited: Arc<Awaited>,
    caps: Arc<Caps>,
    timeout: Duration,
}

/// What came of a handshake.
pub(crate) enum Greeted<S> {
    /// A client that asked for this host.
    Client { stream: Box<TlsStream<S>>, host: String, protocol: Spoken },
    /// A CA that has seen what it wanted to.
    Challenge,
}

/// What a client speaks after its handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoken {
    Http1,
    Http2,
}

impl Handshakes {
    /// # Errors
    /// If the provider of cryptography lacks what TLS needs.
    pub(crate) fn new(
        provider: Arc<CryptoProvider>,
        view: Arc<ArcSwap<View>>,
        awaited: Arc<Awaited>,
        limits: &Limits,
    ) -> Result<Self, rustls::Error> {
        let config = |purpose, protocols: &[&[u8]]| {
            let resolver = Arc::new(Resolver { view: Arc::clone(&view), purpose });
            let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_cert_resolver(resolver);
            config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
            Ok::<_, rustls::Error>(config)
        };
        let mut serving = config(Purpose::Serving, &[b"h2", b"http/1.1"])?;
        serving.ticketer = Ticketer::new()?;
        serving.send_half_rtt_data = false;
        Ok(Self {
            serving: Arc::new(serving),
            challenge: Arc::new(config(Purpose::Challenge, &[ACME_TLS])?),
            awaited,
            caps: Caps::new(limits.handshakes_max, limits.handshakes_per_source_max),
            timeout: limits.head_timeout,
        })
    }

    /// Greets a client.
    ///
    /// # Errors
    /// If it speaks no TLS, asks for a name that has no certificate, takes too long, or too many do the same.
    pub(crate) async fn greet<S>(&self, stream: S, source: IpAddr) -> io::Result<Greeted<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let busy = || io::Error::new(io::ErrorKind::ConnectionRefused, "too many handshakes");
        let _permit = self.caps.enter(source).ok_or_else(busy)?;
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        tokio::time::timeout(self.timeout, self.greet_in_time(stream, source))
            .await
            .map_err(late)?
    }

    async fn greet_in_time<S>(&self, stream: S, source: IpAddr) -> io::Result<Greeted<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        let (is_challenge, host) = {
            let hello = start.client_hello();
            let mut protocols = hello.alpn().into_iter().flatten();
            let host = hello.server_name().and_then(normalize_host).map(Cow::into_owned);
            (protocols.any(|name| name == ACME_TLS), host)
        };
        if is_challenge {
            if let Some(host) = &host {
                let known = |view: &View| view.certificates.challenge(host).map(drop);
                self.awaited.find(source, known).await;
            }
            let mut stream = start.into_stream(Arc::clone(&self.challenge)).await?;
            stream.shutdown().await?;
            return Ok(Greeted::Challenge);
        }
        let stream = start.into_stream(Arc::clone(&self.serving)).await?;
        let unnamed = || io::Error::new(io::ErrorKind::InvalidData, "the handshake names no host");
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => Spoken::Http2,
            Some(_) | None => Spoken::Http1,
        };
        Ok(Greeted::Client { stream: Box::new(stream), host: host.ok_or_else(unnamed)?, protocol })
    }
}

/// Finds the certificate for a handshake in the view of that moment.
#[derive(Debug)]
struct Resolver {
    view: Arc<ArcSwap<View>>,
    purpose: Purpose,
}

#[derive(Debug, Clone, Copy)]
enum Purpose {
    Serving,
    Challenge,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let host = normalize_host(hello.server_name()?)?;
        let view = self.view.load();
        match self.purpose {
            Purpose::Serving => view.certificate(&host),
            Purpose::Challenge => view.certificates.challenge(&host).cloned(),
        }
    }
}
